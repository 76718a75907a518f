// What the chat page says, keeps and measures; nothing of it needs a page. Run by test_modules.py.
import assert from "node:assert/strict";
import { test } from "node:test";

const at = (name) => new URL(`../../../src/slotline/surface/static/chat/${name}.js`, import.meta.url);
const words = await import(at("words"));
const { Timing } = await import(at("facts"));
const { fresh, isConversation, request } = await import(at("conversation"));

test("places are ordinals", () => {
  const said = [1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111, 1003].map(words.ordinal);
  assert.equal(said.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 101st 111th 1,003rd");
});

test("a place is told with its line, and the first one in words", () => {
  assert.equal(words.place({ position: 3, length: 5 }), "3rd of 5 in line");
  assert.equal(words.place({ position: 1, length: 5 }), "You are next in line");
});

test("an expected wait is no more exact than it is known, and honest where it is not", () => {
  assert.equal(words.wait(12400), "about 13 s");
  assert.equal(words.wait(1), "about 1 s");
  assert.equal(words.wait(400_000), "about 7 min");
  assert.match(words.wait(0), /^longer than expected/);
  assert.match(words.wait(-9000), /^longer than expected/);
  assert.match(words.wait(null), /^no estimate yet/);
});

test("times that passed are told in what suits them", () => {
  assert.deepEqual([1, 999, 1000, 9940, 9960, 119_400, 250_000].map(words.duration), ["1 ms", "999 ms", "1.0 s", "9.9 s", "10 s", "119 s", "4 min 10 s"]);
});

test("the end of an answer is told where it is not the usual one", () => {
  assert.equal(words.stopped("end_turn", 10), "");
  assert.match(words.stopped("max_tokens", 1024), /limit of 1,024 tokens/);
  assert.match(words.stopped("of_the_future", 1), /of_the_future/);
});

test("every kind of error has a title and an advice", () => {
  const kinds = ["broken_off", "connection", "authentication_error", "permission_error", "not_found_error", "request_too_large"];
  kinds.push("rate_limit_error", "overloaded_error", "timeout_error", "invalid_request_error", "api_error", "of_the_future");
  for (const kind of kinds) {
    const [title, advice] = words.trouble({ kind, message: "" });
    assert.ok(title.length > 10 && advice.endsWith("."), kind);
  }
  assert.match(words.trouble({ kind: "invalid_request_error", message: "prompt is too long: 9 > 8" })[0], /too long/);
});

test("the parts of a wait are told apart where the gateway did so", () => {
  const timing = new Timing(0);
  timing.on({ type: "queue" }, 100);
  timing.on({ type: "progress", stage: "prefill" }, 4100);
  timing.on({ type: "text" }, 5000);
  timing.on({ type: "text" }, 6000);
  timing.on({ type: "usage", output_tokens: 21 }, 6000);
  assert.deepEqual(timing.facts(6100), ["20 tokens/s", "21 tokens", "waited 4.1 s", "prompt read in 900 ms", "first token after 5.0 s", "6.1 s in all"]);
});

test("without progress frames nothing is claimed about where the wait ended", () => {
  const timing = new Timing(0);
  timing.on({ type: "queue" }, 100);
  timing.on({ type: "text" }, 5000);
  assert.deepEqual(timing.facts(5000), ["1 token", "first token after 5.0 s", "5.0 s in all"]);
});

test("a conversation asks in turn, and an unanswered question goes along with the next", () => {
  const chat = { id: "chat-1", turns: [] };
  chat.turns.push({ question: "a", answer: { text: "A" } }, { question: "b", answer: { text: "" } });
  chat.turns.push({ question: "c", answer: null });
  const settings = { model: "m", system: " be kind ", maxTokens: 5, thinking: true };
  assert.deepEqual(request(chat, settings), {
    model: "m",
    max_tokens: 5,
    system: "be kind",
    thinking: { type: "adaptive" },
    messages: [
      { role: "user", content: "a" },
      { role: "assistant", content: "A" },
      { role: "user", content: "b\n\nc" },
    ],
    metadata: { user_id: "chat-1" },
  });
  assert.ok(!("system" in request(chat, { ...settings, system: " " })));
});

test("what was kept is only taken where it is a conversation", () => {
  assert.ok(isConversation(fresh()));
  assert.notEqual(fresh().id, fresh().id);
  for (const other of [null, 1, "x", {}, { id: 1, turns: [] }, { id: "a", turns: [{}] }, { id: "a", turns: [null] }]) {
    assert.ok(!isConversation(other), JSON.stringify(other));
  }
});
