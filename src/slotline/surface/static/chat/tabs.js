/**
 * What the tabs of one browser know of each other: in which conversations a question is being answered. A lock says so,
 * as it also ends with its tab. Browsers have locks only on this machine's pages and on those served securely; on
 * others no tab knows of another.
 */
const name = (id) => `slotline.answering.${id}`;

/** Tells the other tabs that a question in conversation `id` is being answered, until the returned function is called. */
export function hold(id) {
  let release;
  const over = new Promise((resolve) => (release = resolve));
  navigator.locks?.request(name(id), { mode: "shared" }, () => over);
  return release;
}

/** Whether some tab holds `id`. If so, `over` is called once none does. */
export async function isHeld(id, over) {
  if (!navigator.locks) return false;
  const { held, pending } = await navigator.locks.query();
  const found = [...held, ...pending].some((lock) => lock.name === name(id) && lock.mode === "shared");
  if (found) navigator.locks.request(name(id), over);
  return found;
}
