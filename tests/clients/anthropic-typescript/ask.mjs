// Asks with Anthropic's TypeScript client. node ask.mjs BASE MODEL messages plain|streamed|helper|tools PIN
const [BASE, MODEL, , way, pin] = process.argv.slice(2);
const { default: Anthropic } = await import(`sdk-${pin}`);

// what to set
const client = new Anthropic({ baseURL: BASE, apiKey: "unused" });
// that is all

const messages = [{ role: "user", content: "hello" }];
const request = { model: MODEL, max_tokens: 24, messages };
const lookup = {
  name: "lookup",
  description: "looks something up",
  input_schema: { type: "object", properties: { query: { type: "string" } } },
};

const ways = {
  async plain() {
    const message = await client.messages.create(request);
    return { text: message.content[0].text, events: [] };
  },
  async streamed() {
    let text = "";
    const events = [];
    for await (const event of await client.messages.create({ ...request, stream: true })) {
      events.push(event.type);
      if (event.type === "content_block_delta") text += event.delta.text;
    }
    return { text, events };
  },
  async helper() {
    const events = [];
    const stream = client.messages.stream(request);
    for await (const event of stream) events.push(event.type);
    return { text: (await stream.finalMessage()).content[0].text, events };
  },
  async tools() {
    const first = await client.messages.create({ ...request, tools: [lookup] });
    const { id, name, input } = first.content.at(-1);
    messages.push({ role: "assistant", content: first.content });
    messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "two are free" }] });
    const second = await client.messages.create({ ...request, tools: [lookup] });
    return { text: second.content[0].text, tool: { name, input }, events: [] };
  },
};

process.stdout.write("asking\n");
process.stdout.write(JSON.stringify(await ways[way]()) + "\n");
