// Asks once with OpenAI's TypeScript client and prints what it made of the answer, as JSON.
// node openai.mjs BASE_URL MODEL chat|responses helper|raw|whole MAX_TOKENS
import OpenAI from "openai";

const [baseURL, model, surface, way, maxTokens] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${baseURL}/v1`, apiKey: "any", maxRetries: 0 });
const turns = [{ role: "user", content: "hello" }];

const chat = {
  request: { model, max_completion_tokens: Number(maxTokens), messages: turns },
  async helper() {
    const events = client.chat.completions.stream({ ...this.request, stream_options: { include_usage: true } });
    return this.told(await events.finalChatCompletion());
  },
  async raw() {
    const whole = { texts: [] };
    const asked = { ...this.request, stream: true, stream_options: { include_usage: true } };
    for await (const chunk of await client.chat.completions.create(asked)) {
      whole.usage = chunk.usage ?? whole.usage;
      for (const choice of chunk.choices) {
        whole.texts.push(choice.delta.content ?? "");
        whole.end = choice.finish_reason ?? whole.end;
      }
    }
    return { text: whole.texts.join(""), end: whole.end, input: whole.usage.prompt_tokens, output: whole.usage.completion_tokens };
  },
  async whole() {
    return this.told(await client.chat.completions.create(this.request));
  },
  told({ choices, usage }) {
    const [{ message, finish_reason: end }] = choices;
    return { text: message.content, end, input: usage.prompt_tokens, output: usage.completion_tokens };
  },
};

const responses = {
  request: { model, max_output_tokens: Number(maxTokens), input: turns },
  async helper() {
    return this.told(await client.responses.stream(this.request).finalResponse());
  },
  async raw() {
    const texts = [];
    let last;
    for await (const event of await client.responses.create({ ...this.request, stream: true })) {
      if (event.type === "response.output_text.delta") texts.push(event.delta);
      last = event;
    }
    return { ...this.told(last.response), text: texts.join("") };
  },
  async whole() {
    return this.told(await client.responses.create(this.request));
  },
  told({ output, status: end, usage }) {
    const parts = output.flatMap((item) => item.content ?? []);
    const text = parts.filter(({ type }) => type === "output_text").map((part) => part.text).join("");
    return { text, end, input: usage.input_tokens, output: usage.output_tokens };
  },
};

process.stdout.write("asking\n");
process.stdout.write(JSON.stringify(await { chat, responses }[surface][way]()) + "\n");
