// Has one client run its own tools for the prompt that stdin gives, and prints what came of it.
import { text } from "node:stream/consumers";
import { models } from "./ai_models.mjs";

const { form, url, model, prompt, tools } = JSON.parse(await text(process.stdin));
const headers = { "x-session-id": model };
const ran = [];

function run(name, given) {
  ran.push([name, given]);
  return `${name} of ${Object.values(given)[0]}`;
}

const forms = {
  async "anthropic-ts"() {
    const { default: Anthropic } = await import("@anthropic-ai/sdk");
    const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
    const offered = tools.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters }));
    const messages = [{ role: "user", content: prompt }];
    for (;;) {
      const body = { model, max_tokens: 1000, messages, tools: offered };
      const { content } = await client.messages.stream(body, { headers }).finalMessage();
      const calls = content.filter((block) => block.type === "tool_use");
      if (!calls.length) return content.map((block) => block.text).join("");
      const results = calls.map(({ id, name, input }) => ({
        type: "tool_result",
        tool_use_id: id,
        content: run(name, input),
      }));
      messages.push({ role: "assistant", content }, { role: "user", content: results });
    }
  },
  async "openai-node"() {
    const { default: OpenAI } = await import("openai");
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
    const offered = tools.map((tool) => ({
      type: "function",
      function: { ...tool, parse: JSON.parse, function: (given) => run(tool.name, given) },
    }));
    const messages = [{ role: "user", content: prompt }];
    const body = { model, messages, tools: offered, stream: true };
    return client.chat.completions.runTools(body, { headers }).finalContent();
  },
};

async function looped() {
  const { jsonSchema, stepCountIs, streamText, tool } = await import("ai");
  const offered = tools.map(({ name, description, parameters }) => [
    name,
    tool({
      description,
      inputSchema: jsonSchema(parameters),
      execute: (given) => run(name, given),
    }),
  ]);
  const problems = [];
  const result = streamText({
    model: await models[form](url, model),
    prompt,
    headers,
    tools: Object.fromEntries(offered),
    stopWhen: stepCountIs(5),
    // Else it refers to what was said by its id, which only an upstream of Responses keeps.
    providerOptions: { openai: { store: false } },
    maxRetries: 0,
    onError: ({ error }) => problems.push(error),
  });
  await result.consumeStream();
  if (problems.length) throw problems[0];
  return result.text;
}

const said = await (form in models ? looped() : forms[form]());
console.log(JSON.stringify({ said, ran }));
