/** Everything the chat page says in words that depends on numbers. Text in, text out. */

const NUMBER = new Intl.NumberFormat("en");

export const number = (n) => NUMBER.format(n);

/** 1st, 2nd, 3rd, 4th, 11th, 21st. */
export function ordinal(n) {
  const teen = n % 100 >= 11 && n % 100 <= 13;
  return `${number(n)}${(!teen && { 1: "st", 2: "nd", 3: "rd" }[n % 10]) || "th"}`;
}

/** A time that has passed: 840 ms, 3.2 s, 75 s, 4 min 10 s. */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  return s < 120 ? `${s} s` : `${Math.floor(s / 60)} min ${s % 60} s`;
}

/** A time to come, no more exact than it is known. */
export function expected(ms) {
  const s = Math.ceil(ms / 1000);
  return s <= 90 ? `${s} s` : `${Math.round(s / 60)} min`;
}

export function place({ position, length }) {
  if (position === 1) return "You are next in line";
  return `${ordinal(position)} of ${number(Math.max(length, position))} in line`;
}

/** `left`: ms until the expected time, below 0 once it has passed; null where there is no estimate. */
export function wait(left) {
  if (left === null) return "no estimate yet, as nothing has been measured so far";
  if (left <= 0) return "longer than expected; it should not be long now";
  return `about ${expected(left)}`;
}

export function speed(tokens, ms) {
  const rate = (tokens / ms) * 1000;
  return `${rate < 10 ? rate.toFixed(1) : number(Math.round(rate))} tokens/s`;
}

export function tokens(n) {
  return n === 1 ? "1 token" : `${number(n)} tokens`;
}

/** What there is to say about the way in which an answer ended; "" for the usual one. */
export function stopped(reason, maxTokens) {
  switch (reason) {
    case "end_turn":
    case "stop_sequence":
      return "";
    case "max_tokens":
      return `Cut off: the answer reached the limit of ${tokens(maxTokens)}. You can allow more under Settings.`;
    case "model_context_window_exceeded":
      return "Cut off: the conversation fills all that the model can read. Start a new chat to go on.";
    case "refusal":
      return "The model declined to answer.";
    default:
      return `The answer ended with ${reason ?? "no reason given"}.`;
  }
}

const AGAIN = "Send again; if it happens often, tell whoever runs the gateway.";
const TROUBLES = {
  broken_off: [
    "The connection broke off in the middle of the answer",
    "What stands above is not all of it. Send again to get another answer, from its beginning.",
  ],
  connection: ["The gateway cannot be reached", "Check the network, then send again."],
  authentication_error: ["A key is needed", "Enter one below."],
  permission_error: ["Your key may not use this model", "Choose another model, or use another key."],
  not_found_error: ["This model is not there any more", "Choose another one, then send again."],
  request_too_large: ["This message is too large", "Edit it to make it shorter."],
  rate_limit_error: [
    "Your key has as many requests waiting as it may",
    "Wait until one of them has its answer, then send again.",
  ],
  overloaded_error: ["There is no room at the moment", "Send again in a while."],
  timeout_error: ["The model's server went silent", AGAIN],
  invalid_request_error: ["The request was refused", "The reason stands below; change it, then send again."],
  page: ["This page made a mistake", "Load it anew, then send again."],
  api_error: ["The model's server failed", AGAIN],
};

/** What went wrong, and what to do about it: a title and an advice. The gateway's own words are shown beside them. */
export function trouble({ kind, message = "" }) {
  if (/prompt is too long/i.test(message))
    return ["This conversation is too long for the model", "Start a new chat, or make your message shorter."];
  return TROUBLES[kind] ?? TROUBLES.api_error;
}

/** Why a request is sent once more, and when: `left` ms from now. */
export function retrying({ kind, status, message = "" }, left) {
  const why =
    kind === "connection"
      ? "The connection is lost"
      : status === 529
        ? "The line is full"
        : status === 429
          ? "Your key has as many requests waiting as it may"
          : `Not now: ${message}`;
  const kept = kind === "connection" ? "your place is kept for a while, " : "";
  return [why, left > 0 ? `${kept}trying again in ${expected(left)}` : `${kept}trying again now`];
}
