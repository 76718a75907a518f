// Asks once with the vendor's TypeScript client and prints the message as JSON.
// node anthropic.mjs BASE_URL MODEL helper|raw|whole|tools|parsed MAX_TOKENS
import Anthropic from "@anthropic-ai/sdk";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";

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

// Streams a call, runs it, and hands its result back: both messages.
async function tools() {
  const tools = [{ name: "lookup", description: "looks up", input_schema: { type: "object", properties: {} } }];
  const first = await client.messages.stream({ ...request, tools }).finalMessage();
  const result = { type: "tool_result", tool_use_id: first.content.at(-1).id, content: "two" };
  const turns = [{ role: "assistant", content: first.content }, { role: "user", content: [result] }];
  const messages = [...request.messages, ...turns];
  return [first, await client.messages.create({ ...request, messages, tools })];
}

// An answer in a given shape, and what the client made of it.
async function parsed() {
  const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
  const message = await client.messages.parse({ ...request, output_config: { format: jsonSchemaOutputFormat(schema) } });
  return message.parsed_output;
}

const ways = {
  helper: () => client.messages.stream(request).finalMessage(),
  raw,
  whole: () => client.messages.create(request),
  tools,
  parsed,
};

process.stdout.write("asking\n");
process.stdout.write(JSON.stringify(await ways[way]()) + "\n");
