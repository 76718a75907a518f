/**
 * The chat page: what the reader does, and what the page does about it. Wait and answer come from `messages.js`, are
 * shown by `chat/answer.js`, and kept by `chat/conversation.js`; this file only joins them.
 */
import { Answer } from "./chat/answer.js";
import { fresh, isConversation, request } from "./chat/conversation.js";
import { Gateway } from "./chat/gateway.js";
import { announce, fitToKeyboard, Scroll } from "./chat/reading.js";
import { load, save, watch } from "./chat/storage.js";
import { hold, isHeld } from "./chat/tabs.js";
import { make } from "./element.js";
import { stream } from "./messages.js";

const KEPT = 60_000; // ms for which the gateway keeps the place of who has gone (`rejoin`)
const LOOK_AGAIN = 5_000; // ms between two looks for a model, while there is none
const EXAMPLES = [
  "Explain in three sentences how a queue keeps things fair.",
  "Write a short story about a fox who has to wait.",
  "Show me how to reverse a string in Python.",
];
const NO_ANSWER = "No answer came to this.";
const TITLE = document.title;
const TOUCH = matchMedia("(pointer: coarse)");

const $ = (id) => document.getElementById(id);
const gateway = new Gateway();
const scroll = new Scroll($("scroll"), $("newest"));
let chat = load("chat");
if (!isConversation(chat)) chat = fresh();
let settings = { model: "", system: "", maxTokens: 1024, thinking: true, ...load("settings") };
let active = null; // while there is a request: { controller, answer, turn }
let asking = Promise.resolve(); // over when that is over
let editing = false;
let elsewhere = false; // the last question is being answered in another tab
let looking; // the timer of the next look for a model

// ---- the conversation on the page -----------------------------------------------------------------------------------

function showAll() {
  elsewhere = false;
  $("turns").replaceChildren(...chat.turns.map((turn) => shown(turn, turn.answer && Answer.kept(turn.answer))));
  refresh();
  scroll.toEnd();
  lookAtTabs();
}

/** Where the last question has no answer here, another tab may be about to have one. */
async function lookAtTabs() {
  const turn = chat.turns.at(-1);
  const unanswered = () => !active && turn === chat.turns.at(-1) && turn?.answer === null;
  if (!unanswered()) return;
  const held = await isHeld(chat.id, adopt);
  if (!unanswered()) return;
  elsewhere = held;
  $("turns").lastElementChild.querySelector(".note").textContent = held ? "Being answered in another tab." : NO_ANSWER;
  refresh();
}

/** Another tab has kept something, or is done. */
function adopt() {
  const other = load("chat");
  if (active || editing || !isConversation(other)) return void lookAtTabs();
  chat = other;
  showAll();
}

/** One turn: the question, and its answer if there is one. */
function shown(turn, answer) {
  const question = make("div", { class: "question" }, make("h2", { class: "heard" }, "You"), turn.question);
  const none = () => make("div", { class: "answer" }, make("div", { class: "note" }, NO_ANSWER));
  const box = answer?.box ?? none();
  box.prepend(make("h2", { class: "heard" }, "Answer"));
  return make("article", { class: "turn" }, question, box);
}

/** What the buttons offer, as things stand now. */
function refresh() {
  const last = chat.turns.at(-1);
  $("empty").hidden = Boolean(last) || !$("nothing").hidden || !$("key-form").hidden;
  $("send").hidden = Boolean(active);
  $("stop").hidden = !active;
  $("send").disabled = !settings.model || $("model").disabled || elsewhere;
  $("new").disabled = !last;
  $("editing").hidden = !editing;
  $("forget-key").hidden = !gateway.key;
  const before = load("before");
  $("back").hidden = !isConversation(before) || before.turns.length === 0;
  if (!$("back").hidden) $("back").textContent = `Back to “${before.turns[0].question.slice(0, 60)}”`;
  for (const old of document.querySelectorAll(".actions")) old.remove();
  const article = $("turns").lastElementChild;
  article?.classList.toggle("old", editing);
  if (article && !active && !elsewhere && $("key-form").hidden) article.append(actions(last));
}

function actions(turn) {
  const row = make("div", { class: "actions" });
  const offer = (words, does, looks = "plain") => row.append(button(words, does, looks));
  const whole = turn.answer?.text && !turn.answer.error;
  if (!whole) offer("Send again", again, null);
  if (turn.answer?.text) offer("Copy", (event) => copy(turn.answer.text, event.currentTarget));
  if (whole) offer("Another answer", again);
  offer("Edit message", edit);
  return row;
}

function button(words, does, looks = null) {
  const made = make("button", { type: "button", class: looks }, words);
  made.addEventListener("click", does);
  return made;
}

// ---- asking ---------------------------------------------------------------------------------------------------------

function send(text) {
  if (active || $("send").disabled) return;
  if (editing) chat.turns.pop();
  if (editing) $("turns").lastElementChild.remove();
  editing = false;
  chat.turns.push({ question: text.trim(), answer: null });
  $("turns").append(shown(chat.turns.at(-1), null));
  asking = ask();
}

/** Asks for the last answer once more; who left the line has the old place back, if it is still kept. */
function again() {
  if (active || $("send").disabled) return;
  const left = !chat.turns.at(-1).answer?.text;
  chat.turns.at(-1).answer = null;
  asking = ask({ again: left });
}

async function ask(more = {}) {
  const turn = chat.turns.at(-1);
  const answer = new Answer(settings.maxTokens, performance.now());
  const controller = new AbortController();
  $("turns").lastElementChild.replaceWith(shown(turn, answer));
  active = { controller, answer, turn };
  elsewhere = false;
  const release = hold(chat.id);
  keep();
  refresh();
  scroll.toEnd();
  draw();
  const clock = setInterval(draw, 1000); // for what counts down between two events
  const end = {};
  const wanted = { url: gateway.url, key: gateway.key, body: request(chat, settings), signal: controller.signal };
  try {
    for await (const event of stream({ ...wanted, ...more })) {
      if (event.type === "stop") end.stop = event.reason ?? "nothing";
      else if (event.type === "error") end.error = event;
      else announce($("news"), answer.on(event, performance.now()));
      document.title = [answer.short, TITLE].filter(Boolean).join(" · ");
      draw();
    }
  } catch (error) {
    console.error(error); // nothing that was foreseen, so it is this page's own
    end.error = { kind: "page", message: String(error) };
  } finally {
    clearInterval(clock);
    turn.answer = answer.finish(end, performance.now());
    active = null;
    ended(turn, end);
    release();
  }
}

function ended(turn, { error }) {
  keep();
  refresh();
  scroll.follow();
  document.title = document.hidden ? `Answered · ${TITLE}` : TITLE;
  $("told").textContent = turn.answer.text; // whole, and only now
  const failed = error && "This did not work; the reason stands below your message";
  announce($("news"), failed || turn.answer.stop || "The answer is complete");
  if (error?.status === 401) askForKey(Boolean(gateway.key), () => again());
  if (error?.status === 404) look();
  const free = [document.body, $("stop")].includes(document.activeElement); // whoever is elsewhere stays there
  if (free && !TOUCH.matches) $("message").focus({ preventScroll: true });
}

document.addEventListener("visibilitychange", () => {
  if (!active) document.title = TITLE;
  if (!document.hidden) lookAtTabs();
});

let drawing = false;
function draw() {
  if (drawing) return;
  drawing = true; // at most once for each picture that the screen shows, however many pieces come
  requestAnimationFrame(() => {
    drawing = false;
    active?.answer.draw(performance.now());
    scroll.follow();
  });
}

function keep() {
  const fits = save("chat", chat);
  if (!fits) announce($("news"), "This browser keeps this conversation no longer than until you leave the page");
}

/** The page is left: what came of an answer is kept, and a place in line is asked for anew when it is back in time. */
addEventListener("pagehide", () => {
  if (!active) return;
  if (active.answer.begun) {
    active.turn.answer = active.answer.finish({ error: { kind: "broken_off" } }, performance.now());
  } else save("pending", { id: chat.id, at: Date.now() }, "sessionStorage");
  keep();
});

function resume() {
  const pending = load("pending", "sessionStorage");
  save("pending", null, "sessionStorage");
  const mine = pending?.id === chat.id && Date.now() - pending.at < KEPT;
  if (mine && !active && chat.turns.at(-1)?.answer === null) asking = ask({ again: true });
}

// ---- models and keys ------------------------------------------------------------------------------------------------

async function look() {
  clearTimeout(looking);
  const { names, why, status } = await gateway.models();
  if (status === 401) return askForKey(Boolean(gateway.key), look);
  $("nothing").hidden = names.length > 0;
  $("nothing-why").textContent = why;
  $("model").disabled = names.length === 0;
  $("model").replaceChildren(...(names.length ? names : ["no model"]).map((name) => make("option", {}, name)));
  if (names.length) {
    if (!names.includes(settings.model)) settings.model = names[0];
    $("model").value = settings.model;
    resume();
  } else looking = setTimeout(look, LOOK_AGAIN);
  refresh();
}

let afterKey;
function askForKey(wrong, then) {
  afterKey = then;
  $("key-form").hidden = false;
  $("key-why").textContent = wrong
    ? "The key that you gave is not one of this gateway's."
    : "Ask whoever runs it for one. It begins with sl-.";
  refresh();
  scroll.toEnd();
  $("key").focus();
}

function useKey(event) {
  event.preventDefault();
  gateway.useKey($("key").value.trim(), $("keep-key").checked);
  $("key").value = "";
  $("key-form").hidden = true;
  refresh();
  afterKey();
}

function forgetKey() {
  gateway.useKey(null);
  look();
}

// ---- what the reader does -------------------------------------------------------------------------------------------

async function startNew() {
  active?.controller.abort();
  await asking;
  if (chat.turns.length) save("before", chat);
  open(fresh());
}

function open(conversation) {
  chat = conversation;
  editing = false;
  $("told").textContent = "";
  keep();
  showAll();
  if (!TOUCH.matches) $("message").focus();
}

function edit() {
  editing = true;
  $("message").value = chat.turns.at(-1).question;
  refresh();
  $("message").focus();
}

function cancelEdit() {
  editing = false;
  $("message").value = "";
  refresh();
  $("message").focus();
}

function submit(event) {
  event?.preventDefault();
  if (!$("max-tokens").checkValidity()) {
    showSettings(true);
    $("max-tokens").reportValidity();
    return;
  }
  const text = $("message").value;
  if (active || !text.trim() || $("send").disabled) return;
  $("message").value = "";
  send(text);
}

function showSettings(shown) {
  $("settings").hidden = !shown;
  $("open-settings").setAttribute("aria-expanded", String(shown));
}

/** Enter sends, where there is another key for a new line; not while an input method still composes a word. */
function onMessageKey(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229 || TOUCH.matches) return;
  event.preventDefault();
  submit();
}

function onKey(event) {
  if (event.key !== "Escape" || event.isComposing) return;
  if (active) active.controller.abort();
  else if (editing) cancelEdit();
}

function remember() {
  settings = {
    model: $("model").value,
    system: $("system").value,
    maxTokens: $("max-tokens").valueAsNumber || settings.maxTokens,
    thinking: $("thinking").checked,
  };
  save("settings", settings);
}

async function copy(text, button) {
  const words = (button.dataset.words ??= button.textContent); // a second click finds "Copied" there
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy by hand"; // no clipboard for pages that are not served securely
  }
  setTimeout(() => (button.textContent = words), 2000);
}

function copyCode(event) {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button.closest(".code").querySelector("code").textContent, button);
}

function wire() {
  $("system").value = settings.system;
  $("max-tokens").value = settings.maxTokens;
  $("thinking").checked = settings.thinking;
  $("examples").replaceChildren(
    ...EXAMPLES.map((text) => make("li", {}, button(text, () => send(text)))),
  );
  $("composer").addEventListener("submit", submit);
  $("key-form").addEventListener("submit", useKey);
  $("message").addEventListener("keydown", onMessageKey);
  document.addEventListener("keydown", onKey);
  $("turns").addEventListener("click", copyCode);
  $("stop").addEventListener("click", () => active?.controller.abort());
  $("new").addEventListener("click", startNew);
  $("back").addEventListener("click", () => open(load("before")));
  $("cancel-edit").addEventListener("click", cancelEdit);
  $("forget-key").addEventListener("click", forgetKey);
  $("open-settings").addEventListener("click", () => showSettings($("settings").hidden));
  for (const id of ["model", "system", "max-tokens", "thinking"]) $(id).addEventListener("change", remember);
  watch("chat", adopt);
  addEventListener("online", () => $("nothing").hidden || look());
  fitToKeyboard();
}

wire();
showAll();
look();
if (!TOUCH.matches) $("message").focus();
