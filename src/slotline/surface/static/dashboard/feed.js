// The stream of states: read with fetch, because EventSource cannot send a token; opened again whenever it ends. Each
// state is a whole one, so nothing is lost with a connection.

import { Frames } from "../messages.js";

const TOKEN = "slotline.token";
const SILENCE = 25_000; // ms; the gateway is never silent for longer than 10 s
const FIRST_PAUSE = 500; // ms; each further one is twice as long …
const LONGEST_PAUSE = 10_000; // … up to this

/** How it stands with the gateway. */
export const Standing = Object.freeze({
  CONNECTING: "connecting",
  LIVE: "live",
  AWAY: "away", // it cannot be reached; tried again at `nextAt`
  TOKEN: "token", // it wants the operator's token, or another one
  FORBIDDEN: "forbidden",
});

class Barred extends Error {
  constructor(standing) {
    super(standing);
    this.standing = standing;
  }
}

let shown = null; // where the browser keeps nothing for this page

/** The operator's token lives as long as the tab, and is in no address. */
export const token = {
  get() {
    try {
      return sessionStorage.getItem(TOKEN) ?? shown;
    } catch {
      return shown;
    }
  },
  set(value) {
    shown = value;
    try {
      sessionStorage.setItem(TOKEN, value);
    } catch {
      // it holds until the page is left
    }
  },
};

/** Asks the gateway as the operator. Raises TypeError where it cannot be reached. */
export function ask(path, options = {}) {
  const known = token.get();
  const headers = known === null ? {} : { authorization: `Bearer ${known}` };
  return fetch(path, { cache: "no-store", ...options, headers });
}

export class Feed {
  standing = Standing.CONNECTING;
  heardAt = null; // when the last byte came, by performance.now()
  nextAt = null;
  why = "";
  #path;
  #state;
  #changed;
  #pause = FIRST_PAUSE;
  #wake = () => {};

  /** `state(state)` is told of every state, `changed()` of every change of the standing. */
  constructor(path, state, changed) {
    this.#path = path;
    this.#state = state;
    this.#changed = changed;
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => document.hidden || this.retry());
  }

  /** Tries now, if it is waiting to: the network is back, or there is another token. */
  retry() {
    this.#pause = FIRST_PAUSE;
    this.#wake();
  }

  async run() {
    for (;;) {
      try {
        await this.#listen();
        this.#away("the gateway closed the stream");
      } catch (error) {
        if (error instanceof Barred) this.#stand(error.standing);
        else this.#away(error.name === "TypeError" ? "it cannot be reached" : error.message);
      }
      await this.#rest();
    }
  }

  async #listen() {
    const opened = new AbortController();
    const abort = () => opened.abort(new Error("it is silent"));
    let watch = setTimeout(abort, SILENCE);
    try {
      const response = await ask(this.#path, { signal: opened.signal });
      if (response.status === 401) throw new Barred(Standing.TOKEN);
      if (response.status === 403) throw new Barred(Standing.FORBIDDEN);
      if (!response.ok) throw new Error(`it answers with status ${response.status}`);
      const reader = response.body.getReader();
      const frames = new Frames();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(watch);
        watch = setTimeout(abort, SILENCE);
        this.heardAt = performance.now();
        this.#pause = FIRST_PAUSE;
        const last = frames.push(value).at(-1); // of several states that came together; comments are signs of life
        this.#stand(Standing.LIVE);
        if (last !== undefined) this.#state(JSON.parse(last));
      }
    } finally {
      clearTimeout(watch);
      opened.abort(); // else a stream that nobody reads any more stays open, and a browser has only six
    }
  }

  #away(why) {
    this.why = why;
    this.nextAt = performance.now() + this.#pause;
    this.#stand(Standing.AWAY);
  }

  #stand(standing) {
    const told = this.standing === standing && standing === Standing.LIVE;
    this.standing = standing;
    if (!told) this.#changed(); // also that the next try went as the last one
  }

  /** Until it is to be tried again: after a while, or when somebody wants that. */
  async #rest() {
    let timer;
    await new Promise((resolve) => {
      this.#wake = resolve;
      if (this.standing === Standing.AWAY) timer = setTimeout(resolve, this.#pause * (0.75 + Math.random() / 4));
    });
    clearTimeout(timer);
    this.#wake = () => {};
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }
}
