// The upstreams, each a card with a tile for every slot: what it does, how far that is, for whom, and how fast.

import { each, make, mark, show, write } from "../element.js";
import { isBroken, isFull } from "./summary.js";
import { about, capital, count, number, some } from "./words.js";

/** A shape for each state, so that no state is a colour alone. */
const SIGNS = {
  free: "○",
  loading: "◌",
  prefill: "≡",
  thinking: "✱",
  answering: "▸",
  ending: "■",
  draining: "◐",
  elsewhere: "◈",
  outside: "◇",
  down: "✕",
};
const SAID = { elsewhere: "in use by another gateway", outside: "in use by others" };
const FOLDED = 8; // of more slots than that the free ones are one tile
const WINDOW = 4000; // ms over which the speed of an answer is measured

/** How fast answers come, from states that follow each other. */
class Speeds {
  #seen = new Map(); // request → [[ms, pieces], …]

  /** Tokens a second of this request; null while too little is known. */
  of(request, pieces, now) {
    const seen = this.#seen.get(request) ?? [];
    this.#seen.set(request, seen);
    if (seen.length > 0 && seen.at(-1)[1] > pieces) seen.length = 0; // it was asked anew
    seen.push([now, pieces]);
    while (seen.length > 2 && now - seen[0][0] > WINDOW) seen.shift();
    const [then, had] = seen[0];
    return now - then < 400 || pieces === had ? null : ((pieces - had) * 1000) / (now - then);
  }

  /** Forgets whoever is not among `requests`. */
  keep(requests) {
    for (const id of this.#seen.keys()) if (!requests.has(id)) this.#seen.delete(id);
  }

  forget() {
    this.#seen.clear();
  }
}

export class Upstreams {
  #section;
  #end;
  #speeds = new Speeds();

  /** `end(request)` is told of whom the operator wants to end. */
  constructor(section, end) {
    this.#section = section;
    this.#end = end;
  }

  /** After a gap no speed can be told from what was before it. */
  interrupted() {
    this.#speeds.forget();
  }

  draw(state, now) {
    const requests = new Map(state.requests.map((request) => [request.id, request]));
    this.#speeds.keep(requests);
    each(
      this.#section,
      state.upstreams,
      (upstream) => upstream.name,
      (upstream) => card(upstream),
      (node, upstream) => this.#fill(node, upstream, requests, now),
    );
  }

  #fill(node, upstream, requests, now) {
    const { state, word } = standing(upstream);
    mark(node, "data-state", state);
    write(node.querySelector(".kind"), upstream.kind);
    write(node.querySelector(".standing"), word);
    write(node.querySelector(".models"), some(upstream.models, 2));
    mark(node.querySelector(".models"), "title", upstream.models.join("\n") || null);
    write(node.querySelector(".counts"), counts(upstream));
    const reason = node.querySelector(".reason");
    write(reason, upstream.reason);
    show(reason, upstream.reason !== "");
    each(
      node.querySelector(".slots"),
      folded(upstream.slots.each),
      (slot) => slot.key,
      () => tile(this.#end),
      (at, slot) => fill(at, slot, requests.get(slot.request_id), this.#speed(slot, now)),
    );
  }

  #speed(slot, now) {
    return slot.request_id == null ? null : this.#speeds.of(slot.request_id, slot.pieces, now);
  }
}

function standing(upstream) {
  if (upstream.out_of_order_ms !== null) {
    return { state: "down", word: `out of order for ${about(upstream.out_of_order_ms)}` };
  }
  return { state: upstream.state, word: upstream.state === "unknown" ? "not seen yet" : upstream.state };
}

function counts(upstream) {
  const { slots } = upstream;
  const parts = isBroken(upstream) || upstream.state === "loading"
    ? [count(slots.total, "slot")]
    : [`${number(slots.busy + slots.draining)} of ${number(slots.total)} busy`];
  if (upstream.waiting > 0) parts.push(`${number(upstream.waiting)}${isFull(upstream) ? ` of ${number(upstream.queue)}` : ""} waiting`);
  return parts.join(" · ");
}

/** The slots as they are shown; each has a key that it keeps. */
function folded(slots) {
  const shown = slots.map((slot, place) => ({ ...slot, key: slot.index ?? `at ${place}` }));
  const free = shown.filter((slot) => slot.state === "free");
  if (shown.length <= FOLDED || free.length < 2) return shown;
  return [...shown.filter((slot) => slot.state !== "free"), { key: "free", state: "free", many: free.length }];
}

function card(upstream) {
  const title = make("h2", {}, upstream.name);
  return make(
    "article",
    { class: "upstream panel", "aria-label": upstream.name },
    make("header", {}, title, make("span", { class: "standing" }), make("span", { class: "kind muted" }), make("span", { class: "counts" })),
    make("p", { class: "reason", hidden: true }),
    make("p", { class: "models muted" }),
    make("ul", { class: "slots" }),
  );
}

function tile(end) {
  const node = make(
    "li",
    { class: "slot" },
    make("div", { class: "which muted" }, make("span", { class: "slot-name" }), make("span", { class: "held" }), make("button", { type: "button", class: "end", hidden: true }, "End")),
    make("p", { class: "doing" }, make("span", { class: "sign", "aria-hidden": "true" }), make("span", { class: "word" }), make("span", { class: "amount" })),
    make("div", { class: "bar", hidden: true }, make("div", { class: "done" })),
    make("p", { class: "who" }),
    make("p", { class: "pace muted" }),
  );
  node.querySelector(".end").addEventListener("click", () => end(node.request));
  return node;
}

function fill(node, slot, request, speed) {
  node.request = request;
  mark(node, "data-state", slot.state);
  write(node.querySelector(".slot-name"), slot.many ? count(slot.many, "slot") : slot.index == null ? "Slot" : `Slot ${slot.index}`);
  write(node.querySelector(".held"), slot.held_ms == null ? "" : `for ${about(slot.held_ms)}`);
  write(node.querySelector(".sign"), SIGNS[slot.state] ?? "?");
  write(node.querySelector(".word"), capital(SAID[slot.state] ?? slot.state));
  const { amount, share, label } = progress(slot);
  write(node.querySelector(".amount"), amount);
  bar(node.querySelector(".bar"), share, label, amount);
  write(node.querySelector(".who"), request ? [request.key, request.model].filter(Boolean).join(" · ") : "");
  mark(node.querySelector(".who"), "title", request ? `${request.id}: ${request.why}` : null);
  write(node.querySelector(".pace"), pace(slot, speed));
  const button = node.querySelector(".end");
  show(button, request !== undefined && request.phase !== "ending");
  mark(button, "aria-label", request ? `End the request of ${request.model} in ${node.querySelector(".slot-name").textContent}` : null);
}

/** How far a slot is, in words and as a share of the whole where there is one. */
function progress(slot) {
  const { state, prompt } = slot;
  if (state === "prefill" && prompt !== null && prompt.total > 0) {
    return { amount: `${number(prompt.processed)} / ${number(prompt.total)}`, share: prompt.processed / prompt.total, label: "Prompt read" };
  }
  if (state === "thinking") {
    const cap = slot.thinking_cap;
    const amount = cap === null ? number(slot.thought) : `${number(slot.thought)} / ${number(cap)}`;
    return { amount, share: cap === null ? null : slot.thought / cap, label: "Thought, of the cap" };
  }
  if (state === "answering") return { amount: count(slot.pieces - slot.thought, "token"), share: null };
  return { amount: "", share: null };
}

function bar(node, share, label, amount) {
  show(node, share !== null);
  const percent = share === null ? null : Math.min(100, Math.round(share * 100));
  mark(node, "role", share === null ? null : "progressbar");
  mark(node, "aria-label", share === null ? null : label);
  mark(node, "aria-valuenow", percent);
  mark(node, "aria-valuetext", share === null ? null : amount);
  node.firstElementChild.style.width = `${percent ?? 0}%`;
}

function pace(slot, speed) {
  if (slot.state === "draining") return "its request was ended; the server may still work on it";
  if (slot.state === "ending") return "its client may still be reading";
  if (slot.state === "answering" || slot.state === "thinking") {
    const said = speed === null ? "" : `${speed < 9.95 ? speed.toFixed(1) : number(speed)} tokens/s`;
    const thought = slot.state === "answering" && slot.thought > 0 ? `after ${number(slot.thought)} of thinking` : "";
    return [said, thought].filter(Boolean).join(" · ");
  }
  return "";
}
