/**
 * A client of the Messages API that shows the wait: the reference for Slotline's queue extension. Take this file as it
 * is; it needs nothing but `fetch`. `docs/queue-extension.md` says what the frames mean.
 *
 *     for await (const event of stream({ body: { model, max_tokens: 1024, messages }, signal })) …
 *
 * | event    | fields | |
 * | -------- | ------ | - |
 * | open     | request_id | the gateway has the request |
 * | queue    | position, length, estimated_wait_ms (or null) | first at once, then whenever the position changes |
 * | progress | stage ("loading", "prefill"), processed, total (or null) | a slot is ours, and no word has come yet |
 * | start    | id, model | the answer begins |
 * | thinking | text | a piece of the model's thoughts |
 * | text     | text | a piece of the answer |
 * | usage    | input_tokens, output_tokens (where known) | totals up to now |
 * | retry    | delay_ms, kind, status, message | nothing is lost: the same request goes out again after that time |
 * | stop     | reason | the last event of a whole answer |
 * | error    | kind, status, message, request_id, begun | the last event where it failed |
 *
 * The last event is `stop` or `error`, and there is none after `signal.abort()`. Leaving the loop, by `break` or by
 * aborting, closes the connection: who waited is out of the line, and who ran gives the slot back.
 */

const ATTEMPTS = 8; // failures in a row before we give up: a minute, for which the gateway keeps a place (`rejoin`)
const LONGEST = 15_000; // ms between two attempts, where the gateway does not say how long
const SILENCE = 45_000; // ms without a byte; the gateway sends one every 10 s, so the connection is dead by then
const LATER = new Set([429, 503, 529]); // "not now": the request was refused unread, and may come again

/**
 * `body`: as the Messages API wants it. `key`: where the gateway has keys. `again`: this very body was sent before (the
 * page was loaded anew), so an earlier copy that still waits is to give its place to this one.
 */
export async function* stream({ url = "/llm/v1/messages", key, body, signal, again = false }) {
  // Made once: a request is known again by its bytes, and only then stands where it stood.
  const bytes = new TextEncoder().encode(JSON.stringify({ ...body, stream: true }));
  let begun = false; // whether something of the answer has been shown
  let failures = 0;
  for (let count = again ? 1 : 0; !signal?.aborted; count++) {
    const since = Date.now();
    let failure = new Failure("connection", "the stream ended before the answer did");
    let ended = false;
    try {
      // After the last event the connection is read on to its end, so that the gateway sees nobody leave.
      for await (const event of attempt(url, headers(key, count), bytes, signal)) {
        begun ||= event.type === "thinking" || event.type === "text";
        ended = event.type === "stop" || event.type === "error";
        yield event.type === "error" ? { ...event, begun } : event;
      }
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      failure = error;
    }
    if (ended || signal?.aborted) return;
    // A second answer would not be the rest of the first one. So once a word is out, somebody has to decide.
    if (begun) failure = new Failure("broken_off", failure.message);
    if (Date.now() - since > LONGEST) failures = 0; // some proxies end every stream after a minute
    if (!failure.again || ++failures > ATTEMPTS) {
      yield { type: "error", ...failure.fields, begun };
      return;
    }
    const delay_ms = failure.delay ?? backoff(failures);
    yield { type: "retry", delay_ms, ...failure.fields };
    await pause(delay_ms, failure.kind === "connection", signal);
  }
}

function headers(key, count) {
  return {
    "content-type": "application/json",
    "anthropic-version": "2023-06-01",
    "x-slotline-queue": "event", // whatever the mount would send by itself
    "x-slotline-progress": "1",
    // Above 0: "I have sent this before". The gateway then ends the earlier copy, if its connection still looks open
    // from there, and lets this one stand in its place.
    "x-stainless-retry-count": String(count),
    ...(key && { "x-api-key": key }),
  };
}

/** One request, up to the end of its stream. Throws a Failure where there is no such end. */
async function* attempt(url, headers, body, signal) {
  const connection = new AbortController();
  const leave = () => connection.abort();
  signal?.addEventListener("abort", leave);
  /** What `promise` gives, unless it takes too long: a connection that died in its sleep never says so by itself. */
  const lively = async (promise) => {
    const timer = setTimeout(leave, SILENCE);
    try {
      return await promise;
    } catch (error) {
      throw new Failure("connection", String(error?.message ?? error));
    } finally {
      clearTimeout(timer);
    }
  };
  try {
    const answer = await lively(fetch(url, { method: "POST", headers, body, signal: connection.signal }));
    const request_id = answer.headers.get("request-id");
    if (!answer.ok) throw refusal(answer, request_id, await lively(answer.text()));
    yield { type: "open", request_id };
    const reader = answer.body.getReader();
    const frames = new Frames();
    let reason = null;
    for (let part; !(part = await lively(reader.read())).done; ) {
      for (const data of frames.push(part.value)) {
        const message = parsed(data);
        reason = message.delta?.stop_reason ?? reason;
        yield* events(message, reason, request_id);
      }
    }
  } finally {
    signal?.removeEventListener("abort", leave);
    leave(); // whoever left the loop above has left the line
  }
}

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    throw new Failure("api_error", `this is no Messages API: ${data.slice(0, 80)}`);
  }
}

/** The events that one message of the stream means. What is unknown means none, as the API's rules want it. */
function* events(message, reason, request_id) {
  switch (message.type) {
    case "queue": {
      const { position, queue_length: length, estimated_wait_ms } = message;
      yield { type: "queue", position, length, estimated_wait_ms };
      break;
    }
    case "progress":
      yield { type: "progress", stage: message.stage, processed: message.processed, total: message.total };
      break;
    case "message_start":
      yield { type: "start", id: message.message.id, model: message.message.model };
      break;
    case "content_block_delta":
      if (message.delta.thinking) yield { type: "thinking", text: message.delta.thinking };
      if (message.delta.text) yield { type: "text", text: message.delta.text };
      break;
    case "message_stop":
      yield { type: "stop", reason };
      break;
    case "error":
      yield { type: "error", kind: message.error.type, message: message.error.message, request_id };
      break;
  }
  const usage = message.message?.usage ?? message.usage;
  if (usage) yield { type: "usage", input_tokens: usage.input_tokens, output_tokens: usage.output_tokens };
}

/**
 * Server-sent events: bytes in, the data of each whole event out. The bytes may be split anywhere, also inside of a
 * character or of a line's end. Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
 */
export class Frames {
  #decoder = new TextDecoder();
  #rest = ""; // of a line that has not come to its end
  #data = [];
  #afterCR = false; // a line feed at the beginning of what comes next ends no line of its own

  push(bytes) {
    let text = this.#decoder.decode(bytes, { stream: true });
    if (!text) return [];
    const dropped = this.#afterCR && text[0] === "\n";
    this.#afterCR = text.endsWith("\r");
    if (dropped) text = text.slice(1);
    const lines = text.split(/\r\n|\r|\n/); // only the new text is searched, however long an event grows
    lines[0] = this.#rest + lines[0];
    this.#rest = lines.pop();
    return lines.map((line) => this.#line(line)).filter((data) => data !== null);
  }

  #line(line) {
    if (line === "") {
      const data = this.#data.length ? this.#data.join("\n") : null;
      this.#data = [];
      return data;
    }
    // Comments begin with a colon; names of events and ids say nothing that the data does not say itself.
    if (line === "data") this.#data.push("");
    else if (line.startsWith("data:")) this.#data.push(line.slice(line[5] === " " ? 6 : 5));
    return null;
  }
}

class Failure extends Error {
  constructor(kind, message, { status, delay, request_id } = {}) {
    super(message);
    this.kind = kind;
    this.delay = delay; // ms after which the gateway wants to be asked again
    this.again = kind === "connection" || LATER.has(status);
    this.fields = { kind, status, message, request_id };
  }
}

/** A status in place of a stream. Its body is the API's error, or what some proxy on the way has to say. */
function refusal(answer, request_id, text) {
  let error;
  try {
    error = JSON.parse(text).error;
  } catch {
    error = null;
  }
  const message = error?.message ?? `HTTP status ${answer.status}`;
  const delay = retryAfter(answer.headers.get("retry-after"));
  return new Failure(error?.type ?? "api_error", message, { status: answer.status, delay, request_id });
}

/** ms from now, of seconds or a date; undefined for neither. https://www.rfc-editor.org/rfc/rfc9110#name-retry-after */
function retryAfter(value) {
  if (!value) return undefined;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(ms, 0);
}

/** Twice as long each time, and never the same for two: those who were dropped together do not come back together. */
function backoff(failures) {
  return Math.min(500 * 2 ** (failures - 1), LONGEST) * (0.75 + Math.random() / 2);
}

/** Ends early when the reader has had enough, or, where it is the network that failed, when there is one again. */
function pause(ms, untilOnline, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      globalThis.removeEventListener?.("online", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    if (untilOnline) globalThis.addEventListener?.("online", done);
    if (signal?.aborted) done();
  });
}
