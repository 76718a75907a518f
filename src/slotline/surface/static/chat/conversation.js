/**
 * A conversation: turns of a question and its answer. Values only; nothing here touches the page or the network.
 *
 * A turn: `{ question, answer }`; an answer: `{ text, thinking, facts, stop, error }`, or null while there is none.
 */

export function fresh() {
  return { id: `chat-${token()}`, turns: [] };
}

/** Random, and also to be had where the page is not served securely and `crypto.randomUUID` is missing. */
function token() {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Whether `value`, out of the browser's storage, is a conversation. */
export function isConversation(value) {
  return (
    typeof value?.id === "string" &&
    Array.isArray(value.turns) &&
    value.turns.every((turn) => typeof turn?.question === "string")
  );
}

/**
 * The request that asks for an answer to the last turn. The same conversation and settings make the same bytes, which
 * is how the gateway knows a request again.
 */
export function request(conversation, { model, system, maxTokens, thinking }) {
  return {
    model,
    max_tokens: maxTokens,
    ...(system.trim() && { system: system.trim() }),
    thinking: { type: thinking ? "adaptive" : "disabled" },
    messages: messages(conversation.turns),
    metadata: { user_id: conversation.id }, // the same words in two chats are two requests; it names nobody
  };
}

/** Many models want questions and answers in turn, so questions that never got an answer go along with the next one. */
function messages(turns) {
  const said = [];
  let asked = [];
  for (const { question, answer } of turns) {
    asked.push(question);
    if (!answer?.text?.trim()) continue;
    said.push({ role: "user", content: asked.join("\n\n") }, { role: "assistant", content: answer.text });
    asked = [];
  }
  if (asked.length) said.push({ role: "user", content: asked.join("\n\n") });
  return said;
}
