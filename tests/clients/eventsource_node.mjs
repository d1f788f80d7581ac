// Asks through eventsource what stdin says, and prints a line for each event it shows.
import { text } from "node:stream/consumers";
import { EventSource } from "eventsource";

const { url, asks } = JSON.parse(await text(process.stdin));

function read(ask, tell) {
  let refused = "";
  const post = async (address, options) => {
    const headers = { ...options.headers, "content-type": "application/json" };
    const body = JSON.stringify(ask.body);
    const response = await fetch(address, { ...options, method: "POST", headers, body });
    if (!response.ok) refused = await response.text();
    return response;
  };
  const source = new EventSource(`${url}/v1/chat/completions`, { fetch: post });
  let pieces = 0;
  return new Promise((leave) => {
    source.addEventListener("message", ({ data }) => {
      tell({ event: data });
      pieces += data.startsWith("{") && JSON.parse(data).choices?.[0]?.delta.content ? 1 : 0;
      if (pieces === ask.leave_after) leave();
    });
    // The end of a stream is an error to it too; only here can be seen that nothing follows it.
    source.addEventListener("error", ({ code }) => {
      if (refused) tell({ refusal: { status: code, body: refused } });
      leave();
    });
  }).finally(() => source.close());
}

for (const [index, ask] of asks.entries()) {
  await read(ask, (seen) =>
    console.log(JSON.stringify({ index, at: performance.now() / 1000, ...seen })),
  );
}
// It would still wait for the moment to connect again.
process.exit();
