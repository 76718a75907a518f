// What stands between the operator and the state: a token that is wanted, a gateway that is not there.

import { make, mark, show, write } from "../element.js";
import { Standing, token } from "./feed.js";
import { about, capital } from "./words.js";

export class Notices {
  #feed;
  #token;
  #forbidden;
  #away;

  constructor(parent, feed) {
    this.#feed = feed;
    this.#token = this.#form();
    this.#forbidden = forbidden(() => feed.retry());
    this.#away = away(() => feed.retry());
    parent.append(this.#token, this.#forbidden, this.#away);
  }

  /** To be called once a second, and when the standing changes. */
  draw(now) {
    const { standing, heardAt, nextAt, why } = this.#feed;
    const focused = document.activeElement?.closest(".notice");
    show(this.#token, standing === Standing.TOKEN);
    show(this.#forbidden, standing === Standing.FORBIDDEN);
    show(this.#away, standing === Standing.AWAY);
    if (focused?.hidden) document.getElementById("main").focus(); // and not at the top of the page
    if (standing === Standing.TOKEN) this.#wanted();
    if (standing === Standing.AWAY) {
      const [title, next] = this.#away.querySelectorAll("h2, p");
      const since = heardAt === null ? "" : ` What is shown is ${about(now - heardAt)} old.`;
      write(title, "The gateway does not answer");
      write(next, `${capital(why)}.${since} Trying again in ${about(nextAt - now + 999)}.`);
    }
  }

  #wanted() {
    const wrong = token.get() !== null;
    const said = this.#token.querySelector(".bad");
    write(said, wrong ? "The gateway does not know this token." : "");
    show(said, wrong);
    mark(this.#token.querySelector("input"), "aria-invalid", wrong ? "true" : null);
  }

  #form() {
    const input = make("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true, pattern: "\\s*[\\x21-\\x7e]+\\s*", title: "Letters, digits and signs of ASCII, without spaces", "aria-describedby": "token-said token-wrong" });
    const form = make(
      "form",
      { class: "notice panel", hidden: true, "aria-labelledby": "token-title" },
      make("h2", { id: "token-title" }, "For the operator"),
      make("p", { id: "token-said" }, "This gateway shows its state to who has the token of [admin]. It is kept until this tab is closed."),
      make("label", { for: "token" }, "Token"),
      make("div", { class: "asked" }, input, make("button", { class: "primary" }, "Show the state")),
      make("p", { id: "token-wrong", class: "bad", role: "alert", hidden: true }),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      token.set(input.value.trim());
      input.value = "";
      this.#feed.retry();
    });
    return form;
  }
}

function forbidden(again) {
  const button = make("button", { type: "button" }, "Try again");
  button.addEventListener("click", again);
  const port = location.port || (location.protocol === "https:" ? "443" : "80");
  const title = make("h2", { id: "forbidden-title" }, "Only for the operator");
  return make(
    "section",
    { class: "notice panel", hidden: true, "aria-labelledby": title.id },
    title,
    make("p", {}, "This gateway has no operator's token, so it shows its state on its own machine alone. From another one, either"),
    make(
      "ul",
      {},
      make("li", {}, "bring its port over: ", make("code", {}, `ssh -L 8080:127.0.0.1:${port} ${location.hostname}`), ", then open ", make("code", {}, "http://127.0.0.1:8080/"), ", or"),
      make("li", {}, "give it a token: ", make("code", {}, 'token_env = "SLOTLINE_ADMIN"'), " in ", make("code", {}, "[admin]"), " of its configuration, and open this page again."),
    ),
    make("p", {}, "The ", make("a", { href: "chat" }, "chat page"), " needs none of this."),
    button,
  );
}

function away(again) {
  const button = make("button", { type: "button" }, "Try now");
  button.addEventListener("click", again);
  const title = make("h2", { id: "away-title" });
  return make("section", { class: "notice panel bad-edge", hidden: true, "aria-labelledby": title.id }, title, make("p"), button);
}
