// The last hour: how requests ended, how long they had waited, how full it was. Each plot says in a sentence what it
// shows, and has its numbers in a table, for those who do not see it.

import { make, mark, show, write } from "../element.js";
import { count, duration, number, time } from "./words.js";

const HEIGHT = 170;
const HOUR = 3600;
const STEPS = [1, 2, 5].flatMap((step) => [step, step * 10, step * 100, step * 1000]).concat(30, 60, 300, 600, 1800, 3600).sort((one, other) => one - other);

const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
const most = (values) => values.reduce((top, value) => Math.max(top, value ?? 0), 0);
const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const faded = (name) => () => `${colour(name)()}55`; // the theme's colours are #rrggbb

/** When each of `length` spans of so many seconds began, by Unix time. */
const spans = (length, seconds, beganMsAgo) => {
  const last = (Date.now() - beganMsAgo) / 1000;
  return Array.from({ length }, (_, place) => last - (length - 1 - place) * seconds);
};

/** Rows of a table from spans: `per` of them in each, those of which `row` is null left out. */
function rows(at, per, row) {
  const made = [];
  for (let from = 0; from < at.length; from += per) {
    const cells = row((values) => values.slice(from, from + per));
    if (cells !== null) made.push([time(at[from]), ...cells]);
  }
  return made.reverse();
}

const ENDS = [
  ["completed", "answering"],
  ["left", "free"],
  ["refused", "warn"],
  ["failed", "bad"],
];

/** Each plot: its title, its parts with their colours, and what it makes of the hour. */
const PLOTS = [
  {
    title: "Requests ended, by the minute",
    keys: ENDS.map(([name, tint]) => ({ name, tint, look: "block" })),
    series: () => [...ENDS].reverse().map(([, tint]) => ({ fill: colour(tint), stroke: colour(tint), width: 0, paths: uPlot.paths.bars({ size: [0.75, 24], align: 1 }), points: { show: false } })),
    top: 4,
    gutter: 32,
    label: number,
    columns: ["From", ...ENDS.map(([name]) => name)],
    read({ minutes, minutes_began_ms_ago: began }) {
      const at = spans(minutes.completed.length, 60, began);
      const stacked = [];
      let below = at.map(() => 0);
      for (const [name] of ENDS) stacked.unshift((below = below.map((value, place) => value + minutes[name][place])));
      const totals = ENDS.map(([name]) => [name, sum(minutes[name])]);
      const all = sum(totals.map(([, value]) => value));
      const parts = totals.filter(([, value]) => value > 0).map(([name, value]) => `${number(value)} ${name}`);
      return {
        data: [at, ...stacked],
        said: all === 0 ? "Nothing has ended." : `${count(all, "request")} ended: ${parts.join(", ")}.`,
        at: (place) => ENDS.map(([name]) => [name, minutes[name][place]]).filter(([, value]) => value > 0).map(([name, value]) => `${value} ${name}`).join(", ") || "none",
        table: () => rows(at, 5, (of) => ENDS.map(([name]) => number(sum(of(minutes[name]))))),
      };
    },
  },
  {
    title: "Time in line, by the minute",
    keys: [
      { name: "half waited at most", tint: "prefill", look: "stroke" },
      { name: "95 of 100", tint: "thinking", look: "dashes" },
    ],
    series: () => [
      { stroke: colour("prefill"), width: 2, spanGaps: true, points: { show: true, size: 5, fill: colour("prefill") } },
      { stroke: colour("thinking"), width: 2, dash: [5, 4], spanGaps: true, points: { show: true, size: 5, fill: colour("thinking") } },
    ],
    top: 1,
    gutter: 52,
    label: (value) => (value === 0 ? "0" : duration(value * 1000).replace(/\.0 s$/, " s")),
    columns: ["Minute", "half waited at most", "95 of 100"],
    read({ minutes, minutes_began_ms_ago: began }) {
      const at = spans(minutes.completed.length, 60, began);
      const seconds = (values) => values.map((value) => (value === null ? null : value / 1000));
      const said = (value) => (value === null ? "–" : duration(value));
      const longest = most(minutes.wait_p95_ms);
      return {
        data: [at, seconds(minutes.wait_p50_ms), seconds(minutes.wait_p95_ms)],
        said: minutes.wait_p95_ms.every((value) => value === null)
          ? "Nobody has waited."
          : longest < 50 ? "Everybody had a slot at once." : `At the worst minute, 95 of 100 waited ${duration(longest)} at most.`,
        at: (place) => (minutes.wait_p50_ms[place] === null ? "none" : `half ${said(minutes.wait_p50_ms[place])}, 95 of 100 ${said(minutes.wait_p95_ms[place])}`),
        table: () => rows(at, 1, (of) => (of(minutes.wait_p50_ms)[0] === null ? null : [said(of(minutes.wait_p50_ms)[0]), said(of(minutes.wait_p95_ms)[0])])),
      };
    },
  },
  {
    title: "Slots and line",
    keys: [
      { name: "slots busy", tint: "answering", look: "block" },
      { name: "all slots", tint: "free", look: "dashes" },
      { name: "waiting", tint: "draining", look: "stroke" },
    ],
    series: () => {
      const paths = uPlot.paths.stepped({ align: 1 });
      return [
        { stroke: colour("answering"), fill: faded("answering"), width: 1, paths, points: { show: false } },
        { stroke: colour("free"), width: 1, dash: [5, 4], paths, points: { show: false } },
        { stroke: colour("draining"), width: 2, paths, points: { show: false } },
      ];
    },
    top: 2,
    gutter: 32,
    label: number,
    columns: ["From", "slots busy", "waiting"],
    read({ looks, looks_began_ms_ago: began }) {
      const at = spans(looks.slots.length, 10, began);
      const known = looks.busy.filter((value) => value !== null);
      const share = known.length === 0 ? 0 : (100 * sum(known)) / Math.max(1, sum(looks.slots));
      return {
        data: [at, looks.busy, looks.slots, looks.waiting],
        said: `${number(share)} % of the slots were busy, and ${number(most(looks.waiting))} waited at most.`,
        at: (place) => (looks.busy[place] === null ? "not known" : `${looks.busy[place]} of ${looks.slots[place]} busy, ${looks.waiting[place]} waiting`),
        table: () => rows(at, 30, (of) => [number(most(of(looks.busy))), number(most(of(looks.waiting)))]),
      };
    },
  },
];

class Plot {
  #kind;
  #node;
  #plot = null;
  #drawn = null;

  constructor(kind, parent) {
    this.#kind = kind;
    const table = make("table", {}, make("caption", { class: "heard" }, kind.title), make("thead", {}, make("tr", {}, ...kind.columns.map((title) => make("th", { scope: "col" }, title)))), make("tbody"));
    const details = make("details", {}, make("summary", {}, "As a table"), make("div", { class: "scrolled", tabindex: "0", role: "region", "aria-label": `${kind.title}, as a table` }, table));
    details.addEventListener("toggle", () => this.#fillTable());
    this.#node = make(
      "figure",
      { class: "plot panel" },
      make("figcaption", {}, make("h3", {}, kind.title), make("p", { class: "said muted" })),
      make("div", { class: "canvas", role: "img" }),
      make("ul", { class: "keys", "aria-hidden": "true" }, ...kind.keys.map(({ name, tint, look }) => make("li", {}, make("span", { class: `swatch ${look}`, "data-tint": tint }), name))),
      details,
    );
    parent.append(this.#node);
    new ResizeObserver(() => this.#fit()).observe(this.#canvas);
  }

  get #canvas() {
    return this.#node.querySelector(".canvas");
  }

  draw(hour) {
    this.#drawn = this.#kind.read(hour);
    this.#say(null);
    mark(this.#canvas, "aria-label", `${this.#kind.title}: ${this.#drawn.said}`);
    if (this.#plot === null) this.#make();
    else this.#plot.setData(this.#drawn.data);
    this.#fillTable();
  }

  redraw() {
    this.#plot?.redraw(false);
  }

  #make() {
    if (this.#canvas.clientWidth === 0) return; // it is not shown yet; `#fit` comes back
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: colour("muted"), font, grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
    this.#plot = new uPlot(
      {
        width: this.#canvas.clientWidth,
        height: HEIGHT,
        padding: [8, 8, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: {
          x: { range: () => [Date.now() / 1000 - HOUR, Date.now() / 1000] },
          y: { range: (_, low, high) => [0, Math.max(this.#kind.top, (high ?? 0) * 1.1)] },
        },
        axes: [
          { ...axis, size: 28, space: 64, values: (_, at) => at.map(time) },
          { ...axis, size: this.#kind.gutter, space: 32, incrs: STEPS, values: (_, values) => values.map(this.#kind.label) },
        ],
        series: [{}, ...this.#kind.series()],
        hooks: { setCursor: [(plot) => this.#say(plot.cursor.idx)] },
      },
      this.#drawn.data,
      this.#canvas,
    );
  }

  #fit() {
    const width = this.#canvas.clientWidth;
    if (this.#plot === null && this.#drawn !== null) this.#make();
    else if (this.#plot !== null && width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT });
  }

  /** The numbers under the pointer, or what there is to say of the whole hour. */
  #say(place) {
    const { data, at, said } = this.#drawn;
    write(this.#node.querySelector(".said"), place === null || place === undefined ? said : `${time(data[0][place])} · ${at(place)}`);
  }

  #fillTable() {
    if (this.#drawn === null || !this.#node.querySelector("details").open) return;
    const made = this.#drawn.table().map(([first, ...others]) => make("tr", {}, make("th", { scope: "row" }, first), ...others.map((text) => make("td", {}, text))));
    this.#node.querySelector("tbody").replaceChildren(...made);
  }
}

export class Plots {
  #section;
  #plots;

  constructor(section) {
    this.#section = section;
    this.#plots = PLOTS.map((kind) => new Plot(kind, section.querySelector(".plots")));
    const redraw = () => this.#plots.forEach((plot) => plot.redraw());
    document.addEventListener("themechange", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }

  draw(hour) {
    for (const plot of this.#plots) plot.draw(hour);
  }

  /** Whether there is anything to show. */
  show(shown) {
    show(this.#section, shown);
  }
}
