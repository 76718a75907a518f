/** What the browser keeps for this page. It may refuse to, or be full: then things hold until the page is left. */

const NAMES = {
  chat: "slotline.chat", // the conversation
  before: "slotline.chat.before", // the one before it, so that "new chat" loses nothing
  settings: "slotline.chat.settings",
  key: "slotline.key",
  pending: "slotline.chat.pending", // this tab's question that has no answer yet
};

/** The value kept under `name`, or null. `store`: localStorage, or sessionStorage for what belongs to this tab. */
export function load(name, store = "localStorage") {
  try {
    return JSON.parse(window[store].getItem(NAMES[name]));
  } catch {
    return null;
  }
}

/** Whether it could be kept. null keeps nothing. */
export function save(name, value, store = "localStorage") {
  try {
    if (value === null) window[store].removeItem(NAMES[name]);
    else window[store].setItem(NAMES[name], JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** Calls `changed` when another tab has kept something else under `name`. */
export function watch(name, changed) {
  window.addEventListener("storage", (event) => {
    if (event.key === NAMES[name]) changed();
  });
}
