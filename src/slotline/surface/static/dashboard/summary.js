// The whole state in one sentence, how bad it is, and what of a change is worth saying aloud.

import { capital, count, expected, number } from "./words.js";

const sum = (values) => values.reduce((total, value) => total + value, 0);

/** Those who stand in line, the next one first. */
export const waiting = (state) =>
  state.requests
    .filter((request) => request.phase === "waiting")
    .sort((one, other) => (one.position ?? Infinity) - (other.position ?? Infinity));

/** The name of a line: it is the same one in whatever order its upstreams are. */
export const named = (upstreams) => [...upstreams].sort().join(" or ");

/** Those who wait at other gateways with the same line, which a gateway knows only the number of: line → how many. */
export function elsewhere(state) {
  const own = new Map();
  const standing = ({ upstream, position, phase }) => upstream === null && (position !== null || phase === "ending");
  for (const { upstreams } of state.requests.filter(standing)) own.set(named(upstreams), (own.get(named(upstreams)) ?? 0) + 1);
  const more = state.lines.map(({ upstreams, length }) => [named(upstreams), length - (own.get(named(upstreams)) ?? 0)]);
  return new Map(more.filter(([, count]) => count > 0));
}

/** Whether nobody more may wait for this upstream. */
export const isFull = (upstream) => upstream.queue > 0 && upstream.waiting >= upstream.queue;

/** Nothing is sent to it at present. */
export const isBroken = (upstream) => upstream.state === "down" || upstream.out_of_order_ms !== null;

/**
 * The sentence, and its level: `good` (a slot is free), `busy`, `warn`, `bad`. `live`: the state is of now, so that what
 * is expected can still be.
 */
export function summary(state, live) {
  const { upstreams } = state;
  if (upstreams.length === 0) return { text: "No upstream is configured", level: "bad" };
  const broken = upstreams.filter(isBroken);
  const loading = upstreams.filter((each) => each.state === "loading" && !isBroken(each));
  const parts = [
    ...(state.gateway.draining ? ["shutting down"] : []),
    ...unwell(broken, upstreams, "down"),
    ...unwell(loading, upstreams, "loading"),
    ...(broken.length + loading.length < upstreams.length ? [slots(upstreams)] : []),
    ...others(upstreams),
    ...line(state, live),
  ];
  return { text: start(parts.join(" · "), upstreams), level: level(state, broken) };
}

/** A sentence begins with a capital letter, unless it begins with a name. */
const start = (text, upstreams) => (upstreams.some(({ name }) => text.startsWith(name)) ? text : capital(text));

function unwell(some, all, word) {
  if (some.length === 0) return [];
  if (some.length <= 2) return [`${some.map((each) => each.name).join(" and ")} ${some.length === 1 ? "is" : "are"} ${word}`];
  return [`${some.length === all.length ? "all" : `${some.length} of`} ${all.length} upstreams are ${word}`];
}

function slots(upstreams) {
  const total = sum(upstreams.map((each) => each.slots.total));
  const busy = sum(upstreams.map((each) => each.slots.busy + each.slots.draining));
  const free = sum(upstreams.map((each) => each.slots.free));
  if (free === total) return `${every(total)} free`;
  if (busy === total) return `${every(total)} busy`;
  return `${number(busy)} of ${count(total, "slot")} busy`;
}

function others(upstreams) {
  const theirs = upstreams.flatMap((each) => each.slots.each).filter((slot) => slot.state === "outside").length;
  return theirs === 0 ? [] : [`${number(theirs)} in use by others`];
}

function every(total) {
  if (total === 1) return "the slot is";
  return total === 2 ? "both slots" : `all ${number(total)} slots`;
}

function line(state, live) {
  const length = sum(state.lines.map((each) => each.length));
  if (length === 0) return ["nobody waits"];
  const first = state.requests.filter((each) => each.position === 1 && each.estimated_wait_ms !== null);
  const [soonest] = first.sort((one, other) => one.estimated_wait_ms - other.estimated_wait_ms);
  const full = state.upstreams.some(isFull);
  return [
    `${number(length)} waiting${full ? ", and the line is full" : ""}`,
    ...(soonest && live ? [next(soonest)] : []),
  ];
}

function next(request) {
  if (request.overdue) return "next takes longer than expected";
  return `next ${request.estimated_wait_ms < 1000 ? "" : "in "}${expected(request)}`;
}

function level(state, broken) {
  const usable = sum(state.upstreams.map(({ slots: { free, busy, draining } }) => free + busy + draining));
  if (broken.length > 0 && usable === 0) return "bad";
  if (broken.length > 0 || state.gateway.draining || state.upstreams.some(isFull)) return "warn";
  if (state.lines.length === 0 && state.upstreams.some((each) => each.slots.free > 0)) return "good";
  return state.upstreams.some((each) => each.state === "loading") ? "warn" : "busy";
}

/** What happened between two states that somebody wants to know who does not look. */
export function news(before, after) {
  if (before === null) return [];
  const known = new Map(before.upstreams.map((each) => [each.name, each]));
  const said = after.upstreams.filter((each) => known.has(each.name)).flatMap((each) => changes(known.get(each.name), each));
  if (after.gateway.draining && !before.gateway.draining) said.push("The gateway is shutting down");
  return said;
}

function changes(was, is) {
  const said = [];
  if (isBroken(is) && !isBroken(was)) said.push(`${is.name} is down${is.reason && `: ${is.reason}`}`);
  else if (is.state !== was.state && is.state === "loading") said.push(`${is.name} is loading`);
  else if (is.state === "up" && !isBroken(is) && (isBroken(was) || was.state === "loading")) said.push(`${is.name} is up`);
  if (isFull(is) && !isFull(was)) said.push(`The line for ${is.name} is full`);
  if (!isFull(is) && isFull(was)) said.push(`The line for ${is.name} has room again`);
  return said;
}
