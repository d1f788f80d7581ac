// Dialogs: a native <dialog>, so the focus stays inside and Esc closes it.
import { h, icon } from "../h.js";
import { say } from "../words.js";

/** Opens a dialog and resolves with the value of the chosen action, "" if it was closed.
 *
 * actions: { text, value, kind: "primary" | "danger" | "", focus, run }. `run` may refuse to close by
 * returning false (or a promise of it).
 */
export function openDialog({ title, body, actions = [], wide = false }) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { class: wide ? "dialog wide" : "dialog", "aria-label": title });
    const shut = (value) => dialog.close(value);
    const buttons = actions.map((action) => makeButton(action, shut));
    dialog.append(
      h(
        "header",
        {},
        h("h2", {}, title),
        h(
          "button",
          { class: "quiet square", type: "button", "aria-label": say("frame.close"), onclick: () => shut("") },
          icon("close"),
        ),
      ),
      h("div", { class: "dialog-body" }, body),
      buttons.length ? h("footer", {}, buttons) : "",
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
    dialog.addEventListener("keydown", (event) => event.key === "Tab" && turnAround(dialog, event));
    dialog.addEventListener("click", (event) => event.target === dialog && shut(""));
    document.body.append(dialog);
    dialog.showModal();
    buttons[actions.findIndex((action) => action.focus)]?.focus();
  });
}

// Tab goes round in the dialog; by itself the browser would leave it after the last button.
function turnAround(dialog, event) {
  const stops = [...dialog.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter(
    (one) => !one.disabled && one.checkVisibility(),
  );
  const [edge, next] = event.shiftKey ? [stops[0], stops.at(-1)] : [stops.at(-1), stops[0]];
  if (document.activeElement !== edge) return;
  event.preventDefault();
  next.focus();
}

function makeButton(action, shut) {
  let isBusy = false;
  // Not disabled meanwhile: that would take the focus from it.
  const press = async () => {
    if (isBusy) return;
    isBusy = true;
    const done = (await action.run?.()) !== false;
    isBusy = false;
    if (done) shut(action.value ?? "");
  };
  const button = h("button", { type: "button", class: action.kind || null, onclick: press }, action.text);
  return button;
}

/** Asks before something that cannot be undone; the focus is on Cancel. Resolves true or false. */
export async function confirmDialog({ title, text, yes }) {
  const actions = [
    { text: say("frame.cancel"), value: "", focus: true },
    { text: yes, value: "yes", kind: "danger" },
  ];
  return (await openDialog({ title, body: h("p", {}, text), actions })) === "yes";
}
