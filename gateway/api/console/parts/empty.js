// What stands where nothing is (yet): an empty place, grey lines while loading, an error with Retry.
import { h } from "../h.js";
import { say } from "../words.js";

/** One sentence and the next step. */
export const empty = (sentence, ...next) => h("div", { class: "empty" }, h("p", {}, sentence), next);

/** Grey lines of the final shape; CSS shows them only after 200 ms. */
export function loading(lines = 4) {
  const rows = Array.from({ length: lines }, () => h("div", { class: "bone" }));
  return h("div", { class: "bones", role: "status", "aria-label": say("frame.loading") }, rows);
}

const RETRIES = new Map();

/** Tries all again that failed and is still shown: the line is back. */
export function retryAll() {
  const shown = [...RETRIES].filter(([node]) => node.isConnected);
  RETRIES.clear();
  for (const [, retry] of shown) retry();
}

/** The server's sentence, its code, and Retry. One that the server did not say is tried again by itself. */
export function failure(error, retry) {
  const node = h(
    "div",
    { class: "empty", role: "alert" },
    h("p", {}, error.message),
    error.code ? h("p", { class: "small muted mono" }, error.code) : null,
    retry ? h("button", { type: "button", onclick: retry }, say("frame.retry")) : null,
  );
  for (const old of RETRIES.keys()) if (!old.isConnected) RETRIES.delete(old);
  if (retry) RETRIES.set(node, retry);
  return node;
}
