// Has one client read the answer that stdin asks for, and prints what the client made of it.
import { text } from "node:stream/consumers";
import { models } from "./ai_models.mjs";

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
    const texts = content.filter((block) => block.type === "text").map((block) => block.text);
    return {
      texts,
      calls: content.length - texts.length,
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
    const texts = output
      .filter((item) => item.type === "message")
      .map((item) => item.content[0].text);
    return {
      texts,
      calls: output.length - texts.length,
      stop: status,
      id,
      input: usage.input_tokens,
      output: usage.output_tokens,
      begun: count("response.created"),
      ended: count("response.completed"),
    };
  },
};

async function streamed() {
  const { streamText } = await import("ai");
  const problems = [];
  const onError = ({ error }) => problems.push(error);
  const asked = { model: await models[form](url, model), prompt, headers };
  const result = streamText({ ...asked, maxRetries: 0, onError });
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
    calls: kinds.filter((kind) => kind.startsWith("tool-")).length,
    stop: await result.finishReason,
    id: response.id,
    input: usage.inputTokens,
    output: usage.outputTokens,
    begun: kinds.filter((kind) => kind === "start-step").length,
    ended: kinds.filter((kind) => kind === "finish-step").length,
  };
}

const heard = await (form in models ? streamed() : forms[form]());
console.log(JSON.stringify(heard));
