// Short notices at the bottom: what was done, with Undo, or what was refused.
import { h } from "../h.js";
import { say } from "../words.js";

let region = null;

/** Shows a notice for `seconds`. `undo` adds the button Undo; `bad` marks a refusal. */
export function toast(text, { undo = null, bad = false, seconds = 6 } = {}) {
  region ??= document.body.appendChild(h("div", { class: "toasts", role: "status", "aria-live": "polite" }));
  const takeBack = () => {
    notice.remove();
    undo();
  };
  const notice = h(
    "div",
    { class: bad ? "toast bad" : "toast" },
    h("span", {}, text),
    undo ? h("button", { type: "button", onclick: takeBack }, say("frame.undo")) : null,
  );
  region.append(notice);
  setTimeout(() => notice.remove(), seconds * 1000);
}

/** Shows why something was refused. */
export const toastError = (error) => {
  if (error.name !== "AbortError")
    toast(error.code ? `${error.message} (${error.code})` : error.message, { bad: true, seconds: 8 });
};
