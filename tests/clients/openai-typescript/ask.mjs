// Asks with OpenAI's TypeScript client. node ask.mjs BASE MODEL chat|responses plain|streamed|helper|tools PIN
const [BASE, MODEL, surface, way, pin] = process.argv.slice(2);
const { default: OpenAI } = await import(`sdk-${pin}`);

// what to set
const client = new OpenAI({ baseURL: BASE, apiKey: "unused" });
// that is all

const turns = [{ role: "user", content: "hello" }];
const asked = {
  chat: { model: MODEL, max_completion_tokens: 24, messages: turns },
  responses: { model: MODEL, max_output_tokens: 24, input: turns },
}[surface];
const lookup = {
  name: "lookup",
  description: "looks something up",
  parameters: { type: "object", properties: { query: { type: "string" } } },
};

const chat = {
  async plain() {
    return { text: (await client.chat.completions.create(asked)).choices[0].message.content, events: [] };
  },
  async streamed() {
    let text = "";
    const events = [];
    for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
      events.push(chunk.object);
      text += chunk.choices[0].delta.content ?? "";
    }
    return { text, events };
  },
  async helper() {
    const events = [];
    const stream = client.chat.completions.stream(asked);
    for await (const chunk of stream) events.push(chunk.object);
    return { text: await stream.finalContent(), events };
  },
  async tools() {
    const tools = [{ type: "function", function: lookup }];
    const { message } = (await client.chat.completions.create({ ...asked, tools })).choices[0];
    const call = message.tool_calls[0];
    turns.push(message, { role: "tool", tool_call_id: call.id, content: "two are free" });
    const text = (await client.chat.completions.create({ ...asked, tools })).choices[0].message.content;
    return { text, tool: { name: call.function.name, input: JSON.parse(call.function.arguments) }, events: [] };
  },
};

const responses = {
  async plain() {
    return { text: (await client.responses.create(asked)).output_text, events: [] };
  },
  async streamed() {
    let text = "";
    const events = [];
    for await (const event of await client.responses.create({ ...asked, stream: true })) {
      events.push(event.type);
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    return { text, events };
  },
  async helper() {
    const events = [];
    const stream = client.responses.stream(asked);
    for await (const event of stream) events.push(event.type);
    return { text: (await stream.finalResponse()).output_text, events };
  },
  async tools() {
    const tools = [{ type: "function", ...lookup }];
    const first = await client.responses.create({ ...asked, tools });
    const call = first.output.find((item) => item.type === "function_call");
    turns.push(...first.output, { type: "function_call_output", call_id: call.call_id, output: "two are free" });
    const text = (await client.responses.create({ ...asked, tools })).output_text;
    return { text, tool: { name: call.name, input: JSON.parse(call.arguments) }, events: [] };
  },
};

process.stdout.write("asking\n");
process.stdout.write(JSON.stringify(await { chat, responses }[surface][way]()) + "\n");
