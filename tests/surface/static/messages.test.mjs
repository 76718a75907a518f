// The reference client by itself: what it makes of bytes, and what it does about connections. Run by test_modules.py.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";

const { Frames, stream } = await import(new URL("../../../src/slotline/surface/static/messages.js", import.meta.url));

const BODY = { model: "stub", max_tokens: 9, messages: [{ role: "user", content: "grüße" }] };
const frame = (data, end = "\n") => `event: ${data.type}${end}data: ${JSON.stringify(data)}${end}${end}`;
const QUEUE = (position) => frame({ type: "queue", position, queue_length: 5, estimated_wait_ms: 12400 });
const PROGRESS = frame({ type: "progress", stage: "prefill", processed: 6100, total: 8123 });
const DELTA = (delta) => frame({ type: "content_block_delta", index: 0, delta });
const TEXT = (text) => DELTA({ type: "text_delta", text });
const START = frame({ type: "message_start", message: { id: "msg_1", model: "stub", usage: { input_tokens: 7, output_tokens: 0 } } });
const END =
  frame({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } }) +
  frame({ type: "message_stop" });
const OPEN = { type: "open", request_id: "req_1" };
const STARTED = [
  { type: "start", id: "msg_1", model: "stub" },
  { type: "usage", input_tokens: 7, output_tokens: 0 },
];
const ENDED = [
  { type: "usage", input_tokens: undefined, output_tokens: 2 },
  { type: "stop", reason: "end_turn" },
];

/** A server that treats its requests one after the other as `scripts` say; `seen` is what came, `gone` who left. */
async function serving(t, ...scripts) {
  const seen = [];
  const gone = [];
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const script = scripts[seen.length];
    seen.push({ headers: request.headers, body: Buffer.concat(parts).toString() });
    response.on("close", () => gone.push(seen.length));
    if (script) await script(response);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}/llm/v1/messages`, seen, gone };
}

const head = (response) => response.writeHead(200, { "content-type": "text/event-stream", "request-id": "req_1" });
const whole = (...frames) => (response) => head(response).end(frames.join(""));
const cut = (...frames) => (response) => head(response).write(frames.join(""), () => response.destroy());
const refused = (status, error, headers = {}) => (response) =>
  response.writeHead(status, { "request-id": "req_1", ...headers }).end(JSON.stringify({ type: "error", error }));

async function all(options) {
  const events = [];
  for await (const event of stream(options)) events.push(event);
  return events;
}

// ---- bytes ----------------------------------------------------------------------------------------------------------

for (const end of ["\n", "\r\n", "\r"]) {
  const text = [": keep-alive", "", "event: ping", "data: one", "data:two", "data", "", "id: 7", "", "data: grüße 🦊", "", "data: cut"];
  const bytes = new TextEncoder().encode(text.join(end));
  const meant = ["one\ntwo\n", "grüße 🦊"];
  test(`frames are the same wherever their bytes are split, with ${JSON.stringify(end)} at the end of lines`, () => {
    assert.deepEqual(new Frames().push(bytes), meant);
    const single = new Frames();
    assert.deepEqual([...bytes].flatMap((byte) => single.push(Uint8Array.of(byte))), meant);
    for (let at = 0; at <= bytes.length; at++) {
      const frames = new Frames();
      assert.deepEqual([...frames.push(bytes.subarray(0, at)), ...frames.push(bytes.subarray(at))], meant, `at ${at}`);
    }
  });
}

test("a large event costs no more for coming in small pieces", () => {
  const frames = new Frames();
  const piece = new TextEncoder().encode("x".repeat(64));
  frames.push(new TextEncoder().encode("data: "));
  const before = performance.now();
  for (let n = 0; n < 50_000; n++) assert.equal(frames.push(piece).length, 0);
  assert.equal(frames.push(new TextEncoder().encode("\n\n"))[0].length, 50_000 * 64);
  assert.ok(performance.now() - before < 1500);
});

// ---- events ---------------------------------------------------------------------------------------------------------

test("a wait and an answer are told in plain objects", async (t) => {
  const thought = DELTA({ type: "thinking_delta", thinking: "hm" });
  const beat = DELTA({ type: "thinking_delta", thinking: "" });
  const unknown = frame({ type: "of_the_future" });
  const { url, seen } = await serving(t, whole(QUEUE(2), ": keep-alive\n\n", QUEUE(1), PROGRESS, START, beat, thought, unknown, TEXT("grün"), END));
  assert.deepEqual(await all({ url, body: BODY, key: "sl-1" }), [
    OPEN,
    { type: "queue", position: 2, length: 5, estimated_wait_ms: 12400 },
    { type: "queue", position: 1, length: 5, estimated_wait_ms: 12400 },
    { type: "progress", stage: "prefill", processed: 6100, total: 8123 },
    ...STARTED,
    { type: "thinking", text: "hm" },
    { type: "text", text: "grün" },
    ...ENDED,
  ]);
  const [{ headers, body }] = seen;
  assert.equal(headers["x-slotline-progress"], "1");
  assert.equal(headers["x-slotline-queue"], "event");
  assert.equal(headers["x-stainless-retry-count"], "0");
  assert.equal(headers["x-api-key"], "sl-1");
  assert.deepEqual(JSON.parse(body), { ...BODY, stream: true });
});

test("an error inside of the stream is its last event", async (t) => {
  const error = frame({ type: "error", error: { type: "timeout_error", message: "silent" } });
  const { url, seen } = await serving(t, whole(START, TEXT("a"), error));
  const told = { type: "error", kind: "timeout_error", message: "silent", request_id: "req_1", begun: true };
  assert.deepEqual((await all({ url, body: BODY })).at(-1), told);
  assert.equal(seen.length, 1);
});

test("what is no Messages API is told as such", async (t) => {
  const { url } = await serving(t, whole("data: <html>\n\n"));
  const last = (await all({ url, body: BODY })).at(-1);
  assert.equal(last.kind, "api_error");
  assert.match(last.message, /<html>/);
});

// ---- connections ----------------------------------------------------------------------------------------------------

for (const [name, broken] of [["cut off", cut(QUEUE(3))], ["ended", whole(QUEUE(3))]]) {
  test(`a wait that is ${name} goes on with the same bytes, which say that they come again`, async (t) => {
    const { url, seen } = await serving(t, broken, broken, whole(QUEUE(2), START, TEXT("a"), END));
    const events = await all({ url, body: BODY });
    const names = events.map((event) => event.type).join(" ");
    assert.equal(names, "open queue retry open queue retry open queue start usage text usage stop");
    assert.equal(events[2].kind, "connection");
    assert.ok(events[2].delay_ms < events[5].delay_ms * 1.7 && events[2].delay_ms <= 625, "sooner at first");
    assert.equal(new Set(seen.map((each) => each.body)).size, 1);
    assert.deepEqual(seen.map((each) => each.headers["x-stainless-retry-count"]), ["0", "1", "2"]);
  });

  test(`an answer that is ${name} in its middle is told, and not asked for again`, async (t) => {
    const { url, seen } = await serving(t, name === "ended" ? whole(START, TEXT("a")) : cut(START, TEXT("a")));
    const last = (await all({ url, body: BODY })).at(-1);
    assert.equal(last.type, "error");
    assert.equal(last.kind, "broken_off");
    assert.equal(last.begun, true);
    assert.equal(seen.length, 1);
  });
}

test("a page that was loaded anew says that it repeats itself", async (t) => {
  const { url, seen } = await serving(t, whole(START, END));
  await all({ url, body: BODY, again: true });
  assert.equal(seen[0].headers["x-stainless-retry-count"], "1");
});

for (const status of [429, 503, 529]) {
  test(`${status} is tried again after the time that it names`, async (t) => {
    const full = refused(status, { type: "overloaded_error", message: "full" }, { "retry-after": "0" });
    const { url, seen } = await serving(t, full, full, whole(START, END));
    const events = await all({ url, body: BODY });
    assert.deepEqual(events.map((event) => event.type), ["retry", "retry", "open", "start", "usage", "usage", "stop"]);
    assert.deepEqual(events[0], { type: "retry", delay_ms: 0, kind: "overloaded_error", status, message: "full", request_id: "req_1" });
    assert.equal(seen.length, 3);
  });
}

test("retry-after may be a date", async (t) => {
  const later = new Date(Date.now() + 60_000).toUTCString();
  const { url } = await serving(t, refused(529, { type: "overloaded_error", message: "full" }, { "retry-after": later }));
  const gone = new AbortController();
  for await (const event of stream({ url, body: BODY, signal: gone.signal })) {
    assert.ok(event.delay_ms > 50_000 && event.delay_ms <= 60_000);
    gone.abort();
  }
});

test("it does not try for ever", async (t) => {
  const full = refused(529, { type: "overloaded_error", message: "full" }, { "retry-after": "0" });
  const { url, seen } = await serving(t, ...Array(20).fill(full));
  const last = (await all({ url, body: BODY })).at(-1);
  assert.deepEqual(last, { type: "error", kind: "overloaded_error", status: 529, message: "full", request_id: "req_1", begun: false });
  assert.equal(seen.length, 9);
});

for (const [status, kind] of [[400, "invalid_request_error"], [401, "authentication_error"], [404, "not_found_error"], [502, "api_error"]]) {
  test(`${status} is told at once`, async (t) => {
    const { url, seen } = await serving(t, refused(status, { type: kind, message: "why" }));
    assert.deepEqual(await all({ url, body: BODY }), [{ type: "error", kind, status, message: "why", request_id: "req_1", begun: false }]);
    assert.equal(seen.length, 1);
  });
}

test("a proxy's page in place of an error is told by its status", async (t) => {
  const { url } = await serving(t, (response) => response.writeHead(502).end("<html>Bad gateway</html>"));
  const [error] = await all({ url, body: BODY });
  assert.equal(error.message, "HTTP status 502");
});

// ---- leaving --------------------------------------------------------------------------------------------------------

test("an abort ends the loop without a word, and closes the connection", async (t) => {
  const { url, gone } = await serving(t, (response) => head(response).write(QUEUE(1)));
  const leaving = new AbortController();
  const events = [];
  for await (const event of stream({ url, body: BODY, signal: leaving.signal })) {
    events.push(event.type);
    if (event.type === "queue") leaving.abort();
  }
  assert.deepEqual(events, ["open", "queue"]);
  while (!gone.length) await new Promise(setImmediate);
});

test("whoever breaks off the loop has left, too", async (t) => {
  const { url, gone } = await serving(t, (response) => head(response).write(QUEUE(1)));
  for await (const event of stream({ url, body: BODY })) if (event.type === "queue") break;
  while (!gone.length) await new Promise(setImmediate);
});

test("an abort ends a pause between two attempts", async (t) => {
  const { url } = await serving(t, refused(529, { type: "overloaded_error", message: "full" }, { "retry-after": "60" }));
  const leaving = new AbortController();
  const events = [];
  for await (const event of stream({ url, body: BODY, signal: leaving.signal })) {
    events.push(event.type);
    setTimeout(() => leaving.abort(), 5);
  }
  assert.deepEqual(events, ["retry"]);
});

test("what was aborted before is not sent", async (t) => {
  const { url, seen } = await serving(t);
  assert.deepEqual(await all({ url, body: BODY, signal: AbortSignal.abort() }), []);
  assert.equal(seen.length, 0);
});

test("a connection on which nothing comes any more is given up, and the wait goes on with another one", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { url, seen } = await serving(t, (response) => head(response).write(QUEUE(3)), whole(START, TEXT("a"), END));
  const events = [];
  const done = (async () => {
    for await (const event of stream({ url, body: BODY })) events.push(event.type);
  })();
  const until = async (condition) => {
    while (!condition()) await new Promise(setImmediate);
  };
  await until(() => events.at(-1) === "queue");
  await new Promise(setImmediate);
  t.mock.timers.tick(44_000);
  await new Promise(setImmediate);
  assert.equal(events.at(-1), "queue");
  t.mock.timers.tick(2_000);
  await until(() => events.at(-1) === "retry");
  await new Promise(setImmediate);
  t.mock.timers.tick(1_000);
  await done;
  assert.equal(events.join(" "), "open queue retry open start usage text usage stop");
  assert.equal(seen.length, 2);
});
