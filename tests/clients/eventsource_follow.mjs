// Follows with eventsource what stdin names, for as long as it is let, and prints all it is shown.
import { text } from "node:stream/consumers";
import { EventSource } from "eventsource";

const KINDS = ["open", "error", "message", "reminder.due"];

for (const { name, address, body } of JSON.parse(await text(process.stdin))) {
  const headers = { "content-type": "application/json" };
  const post = (url, options) => fetch(url, { ...options, method: "POST", headers, body });
  const source = new EventSource(address, body && { fetch: post });
  for (const kind of KINDS)
    source.addEventListener(kind, ({ lastEventId = "", data = "" }) =>
      console.log(JSON.stringify({ name, kind, id: lastEventId, data })),
    );
}
