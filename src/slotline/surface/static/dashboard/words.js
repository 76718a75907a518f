// Numbers and durations as people say them, the same as in the gateway's own sentences.

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export const number = (value) => whole.format(Math.round(value));

/** 0.4 s, 43 s, 12 min, 3 h 20 min. */
export function duration(ms) {
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 119.5) return `${seconds.toFixed(0)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** The same for what changes each second: without tenths. */
export const about = (ms) => (ms < 9950 ? `${Math.floor(Math.max(0, ms) / 1000)} s` : duration(ms));

/** When somebody who waits has a slot; null: not known. `overdue`: that it is to be at once was said a while ago. */
export function expected({ estimated_wait_ms: ms, overdue }) {
  if (ms === null) return null;
  if (overdue) return "longer than expected";
  return ms < 1000 ? "any moment" : about(ms);
}

/** 1 slot, 2 slots. */
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

/** The time of day; `seconds`: Unix time. */
export const time = (seconds) => clock.format(seconds * 1000);

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The first few of many names. */
export function some(names, most) {
  const more = names.length - most;
  return names.slice(0, most).join(", ") + (more > 0 ? ` and ${count(more, "more", "more")}` : "");
}
