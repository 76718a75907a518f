/** When things happened in one answer, and what follows from that. Times are ms of any clock that does not run back. */
import { duration, speed, tokens } from "./words.js";

export class Timing {
  #sent;
  #queued = false;
  #granted = null; // when the wait was over, where something told it before the first word
  #prefill = null;
  #first = null; // word, thoughts included
  #last = null;
  #pieces = 0; // a piece is a token, for most servers
  #counted = null; // by the server

  constructor(now) {
    this.#sent = now;
  }

  get pieces() {
    return this.#pieces;
  }

  on(event, now) {
    switch (event.type) {
      case "queue":
        this.#queued = true;
        this.#granted = this.#prefill = null;
        break;
      case "progress":
        this.#granted ??= now;
        if (event.stage === "prefill") this.#prefill ??= now;
        break;
      case "thinking":
      case "text":
        this.#first ??= now;
        this.#last = now;
        this.#pieces += 1;
        break;
      case "usage":
        this.#counted = event.output_tokens || this.#counted;
        break;
    }
  }

  /** While the answer comes: how fast. "" until that can be said. */
  rate() {
    const took = this.#last - this.#first;
    return this.#pieces > 4 && took > 250 ? speed(this.#pieces - 1, took) : "";
  }

  /** For the line below the answer. Where the gateway did not tell two times apart, neither do we. */
  facts(now) {
    const told = [];
    const count = this.#counted ?? this.#pieces;
    if (count > 1 && this.#last > this.#first) told.push(speed(count - 1, this.#last - this.#first));
    if (count) told.push(tokens(count));
    if (this.#queued && this.#granted) told.push(`waited ${duration(this.#granted - this.#sent)}`);
    if (this.#first !== null) {
      if (this.#prefill) told.push(`prompt read in ${duration(this.#first - this.#prefill)}`);
      told.push(`first token after ${duration(this.#first - this.#sent)}`);
    }
    told.push(`${duration(now - this.#sent)} in all`);
    return told;
  }
}
