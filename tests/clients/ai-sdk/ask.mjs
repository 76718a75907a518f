// Asks with Vercel's AI SDK. node ask.mjs BASE MODEL messages|chat|responses plain|streamed|tools MAJOR
const [BASE, MODEL, surface, way, major] = process.argv.slice(2);
const { generateText, jsonSchema, stepCountIs, streamText, tool } = await import(`ai-${major}`);
const { createAnthropic } = await import(`ai-${major}-anthropic`);
const { createOpenAI } = await import(`ai-${major}-openai`);
const { createOpenAICompatible } = await import(`ai-${major}-compatible`);

let options = {};
const made = {
  messages() {
    // what to set: messages
    const provider = createAnthropic({ baseURL: BASE, apiKey: "unused" });
    // that is all

    return provider(MODEL);
  },
  chat() {
    // what to set: chat
    const provider = createOpenAICompatible({ name: "slotline", baseURL: BASE });
    // that is all

    return provider(MODEL);
  },
  responses() {
    // what to set: responses
    const provider = createOpenAI({ baseURL: BASE, apiKey: "unused" });
    const providerOptions = { openai: { store: false } }; // version 5 sends references to what it thinks is kept
    // that is all

    options = { providerOptions };
    return provider(MODEL);
  },
};
const model = made[surface]();
const asked = { model, prompt: "hello", maxOutputTokens: 24, ...options };
const called = [];
const lookup = tool({
  description: "looks something up",
  inputSchema: jsonSchema({ type: "object", properties: { query: { type: "string" } } }),
  execute(input) {
    called.push({ name: "lookup", input });
    return "two are free";
  },
});

const ways = {
  async plain() {
    return { text: (await generateText(asked)).text, events: [] };
  },
  async streamed() {
    let text = "";
    const events = [];
    const failed = [];
    const onError = ({ error }) => failed.push(error);
    const { stream, fullStream } = streamText({ ...asked, onError });
    for await (const part of stream ?? fullStream) {
      events.push(part.type);
      if (part.type === "text-delta") text += part.text;
    }
    if (failed.length) throw failed[0]; // streamText itself does not
    return { text, events };
  },
  async tools() {
    const tools = { lookup };
    const { text } = await generateText({ ...asked, tools, stopWhen: stepCountIs(2) });
    return { text, tool: called[0], events: [] };
  },
};

process.stdout.write("asking\n");
process.stdout.write(JSON.stringify(await ways[way]()) + "\n");
