/**
 * Markdown that grows, as elements. No text ever becomes HTML here: each element is made by its name, from a list, so
 * whatever a model says, it cannot put anything else into the page. Images and relative addresses stay text or become
 * links, since a page that loads what a model names tells others who reads it.
 */
import { make } from "../element.js";
import markdownit from "../vendor/markdown-it.esm.min.js";

const TAGS = new Set(
  "a blockquote br code em h1 h2 h3 h4 h5 h6 hr li ol p pre s strong table tbody td th thead tr ul".split(" "),
);
const ALIGNED = /^text-align:(left|center|right)$/;

const parser = markdownit({ html: false, linkify: true, breaks: true });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false }); // only what says itself that it is an address
parser.validateLink = (url) => /^(https?:\/\/|mailto:)/i.test(url.trim());

/** One text that grows at its end, shown in `box`. */
export class Markdown {
  #box;
  #text = "";
  #done = 0; // up to here the text is shown for good
  #open = []; // the elements of what comes after that, made anew at each drawing
  #references = {}; // addresses that the text before defines for its links

  constructor(box) {
    this.#box = box;
  }

  get text() {
    return this.#text;
  }

  append(text) {
    this.#text += text;
  }

  /**
   * Shows what has come. Blocks before the last one cannot change any more, and are not looked at again: so a long
   * answer costs no more for each of its pieces than a short one.
   */
  draw() {
    const rest = this.#text.slice(this.#done);
    const env = { references: { ...this.#references } }; // a copy: an address that is half there must not stay
    const tokens = parser.parse(rest, env);
    const last = tokens.findLastIndex((token) => token.level === 0 && token.map);
    const line = last < 0 ? 0 : tokens[last].map[0];
    for (const old of this.#open) old.remove();
    this.#box.append(built(line ? tokens.slice(0, last) : []));
    const open = built(line ? tokens.slice(last) : tokens);
    this.#open = [...open.childNodes];
    this.#box.append(open);
    if (line) this.#fix(rest.slice(0, offset(rest, line)));
  }

  #fix(text) {
    this.#done += text.length;
    if (!text.includes("]:")) return;
    const env = { references: this.#references };
    parser.parse(text, env);
    this.#references = env.references;
  }
}

/** Where line number `line` begins; the parser counts `\r\n`, `\r` and `\n` alike. */
function offset(text, line) {
  const ends = /\r\n|\r|\n/g;
  for (let n = 0; n < line; n++) ends.exec(text);
  return line ? ends.lastIndex : 0;
}

function built(tokens) {
  const root = document.createDocumentFragment();
  let at = root;
  for (const token of tokens) {
    if (token.type === "inline") at.append(built(token.children));
    else if (token.type === "fence" || token.type === "code_block") at.append(codeBlock(token));
    else if (token.hidden) continue; // paragraphs of a tight list
    else if (token.nesting < 0) at = at.parentNode;
    else {
      const made = element(token);
      at.append(made);
      if (token.nesting > 0) at = made;
    }
  }
  for (const table of root.querySelectorAll("table")) scrollable(table);
  return root;
}

function element(token) {
  if (token.type === "image") return picture(token);
  if (token.type === "softbreak") return document.createTextNode("\n");
  if (!TAGS.has(token.tag)) return document.createTextNode(token.content);
  const aligned = ALIGNED.exec(token.attrGet("style") ?? "");
  const plain = { class: aligned?.[1], start: token.attrGet("start") };
  const attributes = token.tag === "a" ? away(token.attrGet("href")) : plain;
  return make(token.tag, attributes, token.content); // its own content is that of code within a line
}

const away = (href) => ({ href, target: "_blank", rel: "noopener noreferrer nofollow" });

/** The address of an image, for whoever wants to go there. */
function picture(token) {
  const href = token.attrGet("src");
  return make("a", away(href), `Image: ${token.content || href}`);
}

function codeBlock(token) {
  const language = make("span", {}, token.info.trim().split(/\s/)[0]);
  const copy = make("button", { type: "button", "data-copy": "", "aria-label": "Copy this code" }, "Copy");
  const code = make("pre", { tabindex: 0 }, make("code", {}, token.content)); // scrolls with the keyboard, too
  return make("div", { class: "code" }, make("div", {}, language, copy), code);
}

/** A wide table scrolls by itself, and leaves the page where it is. */
function scrollable(table) {
  const box = make("div", { class: "wide", tabindex: 0 });
  table.replaceWith(box);
  box.append(table);
}
