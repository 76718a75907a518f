/** One answer on the page, from its place in line to the line of numbers below it. It is told events, and draws. */
import { make } from "../element.js";
import { Timing } from "./facts.js";
import { Markdown } from "./markdown.js";
import { number, ordinal, place, retrying, stopped, tokens, trouble, wait } from "./words.js";

const DOTS = 12; // of the line, at most; a longer one is cut before its end

export class Answer {
  #event = { type: "asked" }; // the last one that changed what is going on
  #since; // when that came
  #begun = false;
  #thought = "";
  #drawnThought = 0; // how much of it is on the page
  #thoughts = 0; // pieces
  #timing;
  #maxTokens;
  #status = make("div", { class: "status" });
  #thoughtText = make("pre", { tabindex: 0 });
  #summary = make("summary");
  #thinking = make("details", { class: "thinking", hidden: true }, this.#summary, this.#thoughtText);
  #text = make("div", { class: "text" });
  #markdown = new Markdown(this.#text);
  #note = make("div", { class: "note", hidden: true });
  #facts = make("ul", { class: "facts", hidden: true });
  /** Its element; whoever shows it may add to it. */
  box = make("div", { class: "answer" }, this.#status, this.#thinking, this.#text, this.#note, this.#facts);

  constructor(maxTokens, now) {
    this.#maxTokens = maxTokens;
    this.#timing = new Timing(now);
    this.#since = now;
  }

  /** One that was kept. */
  static kept({ text, thinking, thoughts, facts, stop, error }) {
    const answer = new Answer(0, 0);
    answer.#markdown.append(text ?? "");
    answer.#thought = thinking ?? "";
    answer.#thoughts = thoughts ?? 0;
    answer.#begun = Boolean(text || thinking);
    answer.#event = { type: "ended" };
    answer.#end({ facts, stop, error });
    return answer;
  }

  /** Whether something of it is there. */
  get begun() {
    return this.#begun;
  }

  /** What the reader would be told who cannot see the page; "" where this event changed nothing worth a word. */
  on(event, now) {
    const before = this.#event;
    this.#timing.on(event, now);
    if (event.type === "thinking") {
      this.#thought += event.text;
      this.#thoughts += 1;
    }
    if (event.type === "text") this.#markdown.append(event.text);
    if (["open", "start", "usage"].includes(event.type)) {
      if (event.type !== "open" || before.type !== "retry") return "";
    }
    this.#begun ||= event.type === "thinking" || event.type === "text";
    this.#event = event;
    this.#since = now;
    return news(event, before);
  }

  /** Ends it. `stop`: the reason; `error`: the event; neither: the reader ended it. Returns what is to be kept. */
  finish({ stop, error }, now) {
    const kept = {
      text: this.#markdown.text,
      thinking: this.#thought,
      thoughts: this.#thoughts,
      facts: this.#begun ? this.#timing.facts(now) : [],
      stop: stop ? stopped(stop, this.#maxTokens) : error ? "" : this.#leftWords(),
      error: error ?? null,
    };
    this.#event = { type: "ended" };
    this.#end(kept);
    return kept;
  }

  /** Shows how things stand at `now`. */
  draw(now) {
    this.#drawStatus(now);
    if (this.#thought.length > this.#drawnThought) {
      this.#thoughtText.append(this.#thought.slice(this.#drawnThought));
      this.#drawnThought = this.#thought.length;
    }
    this.#thinking.hidden = !this.#thought;
    const still = this.#event.type === "thinking";
    this.#thinking.classList.toggle("going", still);
    this.#summary.textContent = `${still ? "Thinking" : "Thought"} · ${tokens(this.#thoughts)}`;
    if (this.#event.type === "text" || this.#event.type === "ended") this.#markdown.draw();
    if (still) this.#list([this.#timing.rate()]);
    if (this.#event.type === "text") this.#list([this.#timing.rate(), tokens(this.#timing.pieces)]);
  }

  /** For the title of the page: where it stands, in a word. */
  get short() {
    return this.#event.type === "queue" ? `${ordinal(this.#event.position)} in line` : "";
  }

  #drawStatus(now) {
    const [title, detail, extra] = this.#stage(now);
    this.#status.hidden = !title;
    if (!title) return;
    this.#status.dataset.stage = this.#event.stage ?? this.#event.type;
    const words = make("p", {}, make("strong", {}, title), detail ? ` · ${detail}` : "");
    this.#status.replaceChildren(...[extra?.before, words, extra?.after].filter(Boolean));
  }

  /** Title, detail, and what is drawn above and below them. */
  #stage(now) {
    const event = this.#event;
    switch (event.type) {
      case "asked":
      case "open":
        return ["Asking…"];
      case "queue": {
        const left = event.estimated_wait_ms === null ? null : event.estimated_wait_ms - (now - this.#since);
        return [place(event), wait(left), { before: dots(event) }];
      }
      case "retry":
        return retrying(event, event.delay_ms - (now - this.#since));
      case "progress": {
        if (event.stage === "loading") return ["Loading the model", "this can take a while"];
        if (!event.total) return ["Reading the prompt"];
        const share = { max: event.total, value: event.processed, "aria-label": "Prompt read" };
        return [
          "Reading the prompt",
          `${number(event.processed)} / ${number(event.total)}`,
          { after: make("progress", share) },
        ];
      }
      default:
        return [""];
    }
  }

  #leftWords() {
    if (this.#begun) return "You stopped this answer.";
    return this.#event.type === "queue" || this.#event.type === "retry"
      ? "You left the line. Your place is kept for a while: send again to have it back."
      : "You stopped this before the first word.";
  }

  #end({ facts, stop, error }) {
    this.draw(0);
    this.#list(facts ?? []);
    this.#note.hidden = !stop && !error;
    if (error) {
      const [title, advice] = trouble(error);
      const words = [error.message, error.request_id].filter(Boolean).join(" · ");
      this.#note.classList.add("bad");
      this.#note.replaceChildren(make("strong", {}, title), make("p", {}, advice), make("small", {}, words));
    } else this.#note.replaceChildren(stop ?? "");
  }

  #list(told) {
    const words = told.filter(Boolean);
    this.#facts.hidden = !words.length;
    this.#facts.replaceChildren(...words.map((each) => make("li", {}, each)));
  }
}

/** The line as a row of dots, the door on the left. */
function dots({ position, length }) {
  const row = make("div", { class: "dots", "aria-hidden": "true" });
  const shown = Math.min(Math.max(length, position), DOTS);
  const mine = Math.min(position, shown);
  for (let n = 1; n <= shown; n++) {
    row.append(make("span", { class: n === mine ? "mine" : n < mine ? "before" : null }));
  }
  return row;
}

function news(event, before) {
  switch (event.type) {
    case "queue":
      return `${place(event)}, ${wait(event.estimated_wait_ms)}`;
    case "retry":
      return retrying(event, event.delay_ms)[0];
    case "progress":
      return before.type === "progress" ? "" : event.stage === "loading" ? "Loading the model" : "Reading the prompt";
    case "thinking":
      return before.type === "thinking" ? "" : "Thinking";
    case "text":
      return before.type === "text" ? "" : "The answer begins";
    default:
      return "";
  }
}
