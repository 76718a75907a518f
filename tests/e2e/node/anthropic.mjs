// Asks once with the vendor's TypeScript client and prints the message as JSON.
// node anthropic.mjs BASE_URL MODEL helper|raw|whole MAX_TOKENS
import Anthropic from "@anthropic-ai/sdk";

const [baseURL, model, way, maxTokens] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey: "any", maxRetries: 0 });
const request = { model, max_tokens: Number(maxTokens), messages: [{ role: "user", content: "hello" }] };

async function raw() {
  const events = await client.messages.create({ ...request, stream: true });
  const texts = [];
  let message;
  for await (const event of events) {
    if (event.type === "message_start") message = event.message;
    if (event.type === "content_block_delta") texts.push(event.delta.text);
    if (event.type === "message_delta") {
      message.stop_reason = event.delta.stop_reason;
      message.usage = { ...message.usage, ...event.usage };
    }
  }
  return { ...message, content: [{ type: "text", text: texts.join("") }] };
}

const ways = {
  helper: () => client.messages.stream(request).finalMessage(),
  raw,
  whole: () => client.messages.create(request),
};

process.stdout.write("asking\n");
process.stdout.write(JSON.stringify(await ways[way]()) + "\n");
