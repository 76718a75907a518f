/** How the page is read: where it is scrolled to, how much room a phone's keyboard leaves, what is read aloud. */

const NEAR = 48; // px from the end that still count as the end

/** Keeps the end in view for a reader who is there, and leaves one alone who has scrolled away. */
export class Scroll {
  #box;
  #button;
  #atEnd = true;

  constructor(box, button) {
    this.#box = box;
    this.#button = button;
    box.addEventListener("scroll", () => this.#look(), { passive: true });
    button.addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => this.follow()).observe(box);
  }

  /** Something may have grown. */
  follow() {
    if (this.#atEnd) this.#box.scrollTop = this.#box.scrollHeight;
    this.#show();
  }

  toEnd() {
    this.#atEnd = true;
    this.follow();
  }

  #look() {
    this.#atEnd = this.#box.scrollHeight - this.#box.scrollTop - this.#box.clientHeight < NEAR;
    this.#show();
  }

  #show() {
    this.#button.hidden = this.#atEnd;
  }
}

/** Where the browser lays its keyboard over the page, the page becomes as much shorter. */
export function fitToKeyboard() {
  const view = window.visualViewport;
  const fit = () => {
    const covered = window.innerHeight - view.height > 80 && view.scale === 1;
    document.documentElement.style.setProperty("--height", covered ? `${view.height}px` : "100dvh");
    if (covered) window.scrollTo(0, 0);
  };
  view?.addEventListener("resize", fit);
}

const PAUSE = 4_000; // ms at least between two pieces of news: a voice needs time, and only the newest is worth it
const spoken = new WeakMap();

/** Has `text` read aloud, politely. "" says nothing. */
export function announce(region, text) {
  if (!text) return;
  const state = spoken.get(region) ?? { at: -Infinity, timer: 0 };
  spoken.set(region, state);
  clearTimeout(state.timer);
  const say = () => {
    state.at = performance.now();
    region.textContent = text;
  };
  const early = state.at + PAUSE - performance.now();
  if (early <= 0) say();
  else state.timer = setTimeout(say, early);
}
