// Short notices at the bottom: what was done, with Undo, or what was refused.
import { h } from "../h.js";
import { say } from "../words.js";

let region = null;

/** Shows a notice for `seconds`. `undo` adds the button Undo; `bad` marks a refusal. */
export function toast(text, { undo = null, bad = false, seconds = 6 } = {}) {
  if (!region?.isConnected) region = document.body.appendChild(h("div", { class: "toasts", role: "status", "aria-live": "polite" }));
  const takeBack = () => {
    drop(notice);
    undo();
  };
  const notice = h(
    "div",
    { class: bad ? "toast bad" : "toast" },
    h("span", {}, text),
    undo ? h("button", { type: "button", onclick: takeBack }, say("frame.undo")) : null,
  );
  region.append(notice);
  // Not while somebody is about to press Undo.
  const leave = () => (notice.matches(":hover, :focus-within") ? setTimeout(leave, 1000) : drop(notice));
  setTimeout(leave, seconds * 1000);
}

function drop(notice) {
  const had = notice.contains(document.activeElement);
  notice.remove();
  if (had) document.querySelector("main")?.focus({ preventScroll: true });
}

/** Shows why something was refused. */
export const toastError = (error) => {
  if (error.name !== "AbortError")
    toast(error.code ? `${error.message} (${error.code})` : error.message, { bad: true, seconds: 8 });
};

/** Copies a text. Over plain http browsers give a page no clipboard, but what is marked can be copied. */
export async function copyText(text) {
  try {
    await (navigator.clipboard ? navigator.clipboard.writeText(text) : copyMarked(text));
    toast(say("frame.copied"), { seconds: 2 });
  } catch (error) {
    toastError(error);
  }
}

function copyMarked(text) {
  const before = document.activeElement;
  const field = h("textarea", { class: "visually-hidden" });
  field.value = text;
  document.body.append(field);
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  before.focus({ preventScroll: true });
  if (!isDone) throw new Error(text); // there it can be copied by hand
}
