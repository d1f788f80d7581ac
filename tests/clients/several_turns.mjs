// Has one client read the answer that stdin asks for, and prints what the client made of it.
import { text } from "node:stream/consumers";

// It warns of models it does not know, on stdout.
globalThis.AI_SDK_LOG_WARNINGS = false;

const { form, url, model, session, prompt } = JSON.parse(await text(process.stdin));
const headers = { "x-session-id": session };
const messages = [{ role: "user", content: prompt }];

const forms = {
  async "anthropic-ts"() {
    const { default: Anthropic } = await import("@anthropic-ai/sdk");
    const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
    const stream = client.messages.stream({ model, max_tokens: 1000, messages }, { headers });
    const kinds = [];
    for await (const event of stream) kinds.push(event.type);
    const { content, stop_reason, id, usage } = await stream.finalMessage();
    const count = (kind) => kinds.filter((seen) => seen === kind).length;
    return {
      texts: content.map((block) => block.text),
      stop: stop_reason,
      id,
      input: usage.input_tokens,
      output: usage.output_tokens,
      begun: count("message_start"),
      ended: count("message_stop"),
    };
  },
  async "openai-responses"() {
    const { default: OpenAI } = await import("openai");
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
    const stream = client.responses.stream({ model, input: prompt }, { headers });
    const kinds = [];
    for await (const event of stream) kinds.push(event.type);
    const { output, status, id, usage } = await stream.finalResponse();
    const count = (kind) => kinds.filter((seen) => seen === kind).length;
    return {
      texts: output.map((item) => item.content[0].text),
      stop: status,
      id,
      input: usage.input_tokens,
      output: usage.output_tokens,
      begun: count("response.created"),
      ended: count("response.completed"),
    };
  },
  async "ai-anthropic"() {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    return streamed(createAnthropic({ baseURL: `${url}/v1`, apiKey: "none" })(model));
  },
  async "ai-openai"() {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return streamed(createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" }).responses(model));
  },
};

async function streamed(languageModel) {
  const { streamText } = await import("ai");
  const problems = [];
  const onError = ({ error }) => problems.push(error);
  const result = streamText({ model: languageModel, prompt, headers, maxRetries: 0, onError });
  const kinds = [];
  const texts = new Map();
  for await (const part of result.fullStream) {
    kinds.push(part.type);
    if (part.type === "text-start") texts.set(part.id, "");
    if (part.type === "text-delta") texts.set(part.id, texts.get(part.id) + part.text);
  }
  if (problems.length) throw problems[0];
  const [usage, response] = [await result.usage, await result.response];
  return {
    texts: [...texts.values()],
    stop: await result.finishReason,
    id: response.id,
    input: usage.inputTokens,
    output: usage.outputTokens,
    begun: kinds.filter((kind) => kind === "start-step").length,
    ended: kinds.filter((kind) => kind === "finish-step").length,
  };
}

console.log(JSON.stringify(await forms[form]()));
