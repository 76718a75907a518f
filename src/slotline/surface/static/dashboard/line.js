// Those who wait: a table for each line, the next one first, and no more rows than one can take in.

import { each, make, mark, show, write } from "../element.js";
import { elsewhere, isFull, named, waiting } from "./summary.js";
import { about, count, expected, number } from "./words.js";

const SHOWN = 8; // rows of a line that is not opened

const COLUMNS = [
  ["place", "Place", (request) => (request.position === null ? "–" : number(request.position))],
  ["model", "Model", (request) => request.model],
  ["key", "Key", (request) => request.key ?? "–"],
  ["class", "Class", (request) => request.class],
  ["waited", "Waited", (request) => about(request.waited_ms)],
  ["expected", "Expected in", (request) => expected(request) ?? "not known"],
  ["why", "Why", (request) => request.cause ?? request.why],
];

export class Line {
  #section;
  #end;
  #opened = new Set(); // lines of which all rows are shown

  /** `end(request)` is told of whom the operator wants to end. */
  constructor(section, end) {
    this.#section = section;
    this.#end = end;
  }

  draw(state) {
    const lines = grouped(state);
    each(
      this.#section,
      lines.length > 0 ? lines : [{ name: "", requests: [], upstreams: [], others: 0 }],
      (line) => line.name,
      (line) => this.#make(line),
      (node, line) => this.#fill(node, line, lines.length, state),
    );
  }

  #make(line) {
    const more = make("button", { type: "button", class: "more" });
    more.addEventListener("click", () => {
      if (!this.#opened.delete(line.name)) this.#opened.add(line.name);
      this.draw(more.drawn);
    });
    const head = make("tr", { role: "row" });
    for (const [name, title] of COLUMNS) head.append(make("th", { scope: "col", role: "columnheader", class: name }, title));
    head.append(make("th", { scope: "col", role: "columnheader", class: "act" }, make("span", { class: "heard" }, "End")));
    return make(
      "article",
      { class: "line panel" },
      make("header", {}, make("h2"), make("span", { class: "counts" })),
      make("p", { class: "cause muted" }),
      // The roles are those of the elements; they are said because narrow screens show the table as blocks.
      make("table", { role: "table" }, make("thead", { role: "rowgroup" }, head), make("tbody", { role: "rowgroup" })),
      more,
    );
  }

  #fill(node, line, lines, state) {
    const { requests, others } = line;
    const opened = this.#opened.has(line.name) || requests.length <= SHOWN + 1;
    const shown = opened ? requests : requests.slice(0, SHOWN);
    const served = state.upstreams.filter((upstream) => line.upstreams.includes(upstream.name));
    const full = served.length > 0 && served.every(isFull);
    write(node.querySelector("h2"), lines > 1 ? `In line for ${line.upstreams.join(" or ")}` : "In line");
    write(node.querySelector(".counts"), `${length(requests.length, others)}${full ? " · full" : ""}`);
    mark(node, "data-full", full);
    mark(node, "aria-label", node.querySelector("h2").textContent);
    const causes = new Set(shown.map((request) => request.cause));
    const [common] = causes.size === 1 ? causes : [null];
    const cause = node.querySelector(".cause");
    write(cause, requests.length === 0 ? (others === 0 ? "Nobody waits." : "") : common === null ? "" : `Why: ${common}.`);
    show(cause, cause.textContent !== "");
    const table = node.querySelector("table");
    show(table, requests.length > 0);
    mark(table, "data-keys", requests.some((each) => each.key !== null));
    mark(table, "data-causes", common === null);
    mark(table, "data-classes", requests.some((each) => each.class !== "interactive"));
    mark(table, "aria-label", `Who is ${node.querySelector("h2").textContent.toLowerCase()}`);
    each(
      table.querySelector("tbody"),
      shown,
      (request) => request.id,
      () => row(this.#end),
      fill,
    );
    const more = node.querySelector(".more");
    more.drawn = state;
    show(more, requests.length > SHOWN + 1);
    write(more, opened ? `Show the first ${SHOWN}` : `and ${count(requests.length - SHOWN, "more", "more")}`);
    mark(more, "aria-expanded", opened ? "true" : "false");
  }
}

/** The lines that somebody stands in, at whichever gateway, the longest first. */
function grouped(state) {
  const lines = new Map();
  const others = elsewhere(state);
  const known = (upstreams) => {
    const name = named(upstreams);
    if (!lines.has(name)) lines.set(name, { name, upstreams, requests: [], others: others.get(name) ?? 0 });
    return lines.get(name);
  };
  for (const request of waiting(state)) known(request.upstreams).requests.push(request);
  for (const { upstreams, length } of state.lines) if (length > 0) known(upstreams);
  const size = ({ requests, others: more }) => requests.length + more;
  return [...lines.values()].sort((one, other) => size(other) - size(one));
}

/** How many wait, and where: `own` at this gateway, `others` at others. */
function length(own, others) {
  if (own + others === 0) return "";
  const where = others === 1 ? "at another gateway" : "at other gateways";
  const part = own === 0 ? (others === 1 ? `, ${where}` : `, all ${where}`) : `, ${number(others)} of them ${where}`;
  return `${number(own + others)} waiting${others === 0 ? "" : part}`;
}

function row(end) {
  const node = make("tr", { role: "row" });
  for (const [name, title] of COLUMNS) node.append(make("td", { role: "cell", class: name, "data-title": title }));
  const button = make("button", { type: "button", class: "end" }, "End");
  button.addEventListener("click", () => end(node.request));
  node.append(make("td", { role: "cell", class: "act" }, button));
  return node;
}

function fill(node, request) {
  node.request = request;
  COLUMNS.forEach(([, , said], place) => write(node.children[place], said(request)));
  mark(node, "title", request.id);
  const place = request.position === null ? "" : ` at place ${number(request.position)}`;
  mark(node.querySelector(".end"), "aria-label", `End the request of ${request.model}${place}`);
}
