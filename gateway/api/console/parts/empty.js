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

/** The server's sentence, its code, and Retry. */
export function failure(error, retry) {
  return h(
    "div",
    { class: "empty", role: "alert" },
    h("p", {}, error.message),
    error.code ? h("p", { class: "small muted mono" }, error.code) : null,
    retry ? h("button", { type: "button", onclick: retry }, say("frame.retry")) : null,
  );
}
