// Asks through openai-node what stdin says, and prints a line for each thing the SDK shows.
import { text } from "node:stream/consumers";
import OpenAI from "openai";

const { url, form, asks } = JSON.parse(await text(process.stdin));
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });

const forms = {
  async create(ask, tell) {
    const answer = await client.chat.completions.create(ask.body, ask.options);
    if (!ask.body.stream) return tell({ whole: answer });
    await follow(answer, ask, tell);
  },
  async stream(ask, tell) {
    const stream = client.chat.completions.stream(ask.body, ask.options);
    const left = await follow(stream, ask, tell);
    if (!left) tell({ whole: await stream.finalChatCompletion() });
  },
};

async function follow(stream, ask, tell) {
  let pieces = 0;
  for await (const chunk of stream) {
    tell({ chunk });
    pieces += chunk.choices[0]?.delta.content ? 1 : 0;
    if (pieces === ask.leave_after) return true;
  }
  return false;
}

function failure(error) {
  return { message: error.message, status: error.status ?? null, name: error.constructor.name };
}

for (const [index, ask] of asks.entries()) {
  const tell = (seen) =>
    console.log(JSON.stringify({ index, at: performance.now() / 1000, ...seen }));
  try {
    await forms[form](ask, tell);
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    tell({ failure: failure(error) });
  }
}
