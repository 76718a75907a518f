// The operator's hand: a request is ended after one more question.

import { show, write } from "../element.js";
import { ask } from "./feed.js";
import { about } from "./words.js";

export class Ending {
  #dialog = document.getElementById("ending");
  #failed = document.getElementById("ending-failed");
  #request = null;

  constructor() {
    const [keep, end] = this.#dialog.querySelectorAll("button");
    keep.addEventListener("click", () => this.#dialog.close());
    end.addEventListener("click", () => this.#end(end));
  }

  /** Asks whether this request is to be ended. */
  ask(request) {
    this.#request = request;
    const since = request.running_ms === null ? `waiting for ${about(request.waited_ms)}` : `running for ${about(request.running_ms)}`;
    write(document.getElementById("ending-what"), [request.model, request.key, since].filter(Boolean).join(" · "));
    write(this.#failed, "");
    show(this.#failed, false);
    this.#dialog.showModal();
  }

  async #end(button) {
    button.disabled = true;
    try {
      const response = await ask(`api/requests/${encodeURIComponent(this.#request.id)}`, { method: "DELETE" });
      if (response.ok || response.status === 404) this.#dialog.close(); // or it has ended by itself
      else this.#fail(`The gateway refused, with status ${response.status}.`);
    } catch {
      this.#fail("The gateway cannot be reached.");
    } finally {
      button.disabled = false;
    }
  }

  #fail(text) {
    show(this.#failed, true);
    write(this.#failed, text);
  }
}
