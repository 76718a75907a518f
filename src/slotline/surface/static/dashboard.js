// The dashboard: what the gateway does just now, and did in the last hour. Each state is shown as it comes.

import { mark, show, write } from "./element.js";
import { Ending } from "./dashboard/ending.js";
import { ask, Feed, Standing } from "./dashboard/feed.js";
import { Line } from "./dashboard/line.js";
import { Notices } from "./dashboard/notices.js";
import { Overdue } from "./dashboard/overdue.js";
import { Plots } from "./dashboard/plots.js";
import { Upstreams } from "./dashboard/slots.js";
import { elsewhere, news, summary } from "./dashboard/summary.js";
import { about, duration } from "./dashboard/words.js";

const HISTORY = 10_000; // ms between two looks at the last hour …
const SOONER = 2000; // … and where a request has ended since

const at = (id) => document.getElementById(id);
const main = at("main");
const ending = new Ending();
const upstreams = new Upstreams(at("upstreams"), (request) => ending.ask(request));
const line = new Line(at("line"), (request) => ending.ask(request));
const overdue = new Overdue();
const plots = new Plots(at("hour"));
const feed = new Feed("api/events", took, stood);
const notices = new Notices(at("notices"), feed);

let state = null;
let used = false; // anything was ever asked of this gateway, as far as is known
let lookedAt = -Infinity; // at the last hour
let ended = false; // somebody has, since then

function took(told) {
  const said = news(state, told);
  overdue.mark(told.requests, performance.now());
  const now = new Set(told.requests.map((request) => request.id));
  ended ||= state !== null && state.requests.some((request) => !now.has(request.id));
  state = told;
  used ||= told.requests.length > 0;
  if (said.length > 0) write(at("news"), `${said.join(". ")}.`);
  draw();
  look();
}

/** The standing is another one. */
function stood() {
  if (feed.standing === Standing.LIVE) {
    if (state !== null) write(at("news"), "The gateway answers again.");
    lookedAt = -Infinity;
  } else {
    upstreams.interrupted();
    if (feed.standing === Standing.AWAY && state !== null) write(at("news"), "The gateway does not answer.");
    if (feed.standing === Standing.TOKEN || feed.standing === Standing.FORBIDDEN) state = null;
  }
  draw();
}

function draw() {
  const now = performance.now();
  const live = feed.standing === Standing.LIVE;
  notices.draw(now);
  mark(main, "data-stale", state !== null && !live);
  show(at("shown"), state !== null);
  if (state === null) {
    mark(main, "data-level", feed.standing === Standing.AWAY ? "bad" : "none");
    write(at("sentence"), { away: "Not connected", token: "A token is needed", forbidden: "Not shown here" }[feed.standing] ?? "Connecting");
    write(at("standing"), "");
    document.title = "Slotline";
    return;
  }
  const { text, level } = summary(state, live);
  mark(main, "data-level", live ? level : "none");
  write(at("sentence"), text.split(" · ").map(unbroken).join(" · "));
  document.title = `${live ? text : "Not connected"} · Slotline`;
  const { version, uptime_ms: up } = state.gateway;
  const old = feed.heardAt === null ? "" : ` for ${about(now - feed.heardAt)}`;
  write(at("standing"), `${live ? "Live" : `Stale${old}`} · Slotline ${version}, up for ${duration(up)}`);
  if (live) {
    upstreams.draw(state, now);
    line.draw(state);
    show(at("own"), elsewhere(state).size > 0);
  }
  show(at("first"), !used);
  plots.show(used);
  if (!used) write(at("first-curl"), curl(state));
}

/** A short part of a sentence stays in one line of the screen. */
const unbroken = (part) => (part.length <= 24 ? part.replaceAll(" ", "\u00a0") : part);

/** A first request, to be copied; names are put in quotes for JSON and for the shell. */
function curl({ upstreams: all }) {
  const model = all.flatMap((each) => each.models)[0] ?? "MODEL";
  const body = { model, max_tokens: 100, messages: [{ role: "user", content: "Say hello." }] };
  const url = new URL("v1/messages", document.baseURI);
  return `curl ${url} -H 'content-type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", String.raw`'\''`)}'`;
}

async function look() {
  const due = lookedAt + (ended ? SOONER : HISTORY);
  if (document.hidden || feed.standing !== Standing.LIVE || performance.now() < due) return;
  lookedAt = performance.now();
  ended = false;
  try {
    const response = await ask("api/history");
    if (!response.ok) return;
    const hour = await response.json();
    const { completed, left, refused, failed } = hour.minutes;
    used ||= [completed, left, refused, failed].flat().some((ended) => ended > 0);
    draw();
    plots.draw(hour);
  } catch {
    lookedAt = -Infinity; // the stream will tell that the gateway has gone
  }
}

at("first-copy").addEventListener("click", async ({ target }) => {
  try {
    await navigator.clipboard.writeText(at("first-curl").textContent);
    write(target, "Copied");
  } catch {
    getSelection().selectAllChildren(at("first-curl")); // without https only this machine's pages may write there
    write(target, "Selected");
  }
  setTimeout(() => write(target, "Copy"), 2000);
});

setInterval(() => {
  if (feed.standing !== Standing.LIVE) draw();
  look();
}, 1000);
stood();
feed.run();
