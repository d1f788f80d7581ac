// A button that opens a short list of actions.
import { h, icon } from "../h.js";

/** items: { text, run, danger, disabled }, or a function that returns them when the menu opens. */
export function menuButton(label, items, face = icon("more")) {
  const button = h(
    "button",
    { type: "button", class: "quiet square", "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": label },
    face,
  );
  button.addEventListener("click", (event) => {
    event.stopPropagation();
    openMenu(button, label, typeof items === "function" ? items() : items);
  });
  return button;
}

/** Opens a menu below (or above) a node. */
export function openMenu(anchor, label, items) {
  const menu = h("div", { class: "menu", role: "menu", "aria-label": label, popover: "auto" });
  const choose = (item) => {
    menu.hidePopover();
    item.run();
  };
  for (const item of items) {
    const kind = item.danger ? "menu-item danger" : "menu-item";
    menu.append(
      h(
        "button",
        { type: "button", role: "menuitem", class: kind, disabled: item.disabled, onclick: () => choose(item) },
        item.text,
      ),
    );
  }
  menu.addEventListener("keydown", (event) => moveFocus(menu, event));
  menu.addEventListener("click", (event) => event.stopPropagation());
  menu.addEventListener("toggle", (event) => {
    anchor.setAttribute("aria-expanded", String(event.newState === "open"));
    if (event.newState === "closed") menu.remove();
  });
  document.body.append(menu);
  menu.showPopover();
  place(menu, anchor);
  menu.querySelector("button:not([disabled])")?.focus();
}

function place(menu, anchor) {
  const at = anchor.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const below = at.bottom + 4 + height < innerHeight;
  menu.style.left = `${Math.max(8, Math.min(at.right - width, innerWidth - width - 8))}px`;
  menu.style.top = `${below ? at.bottom + 4 : Math.max(8, at.top - 4 - height)}px`;
}

// From where, and how far.
const STEPS = { ArrowDown: [null, 1], ArrowUp: [null, -1], Home: [0, 0], End: [-1, 0] };

function moveFocus(menu, event) {
  if (event.key === "Tab") menu.hidePopover(); // on from the button that opened it
  const step = STEPS[event.key];
  if (!step) return;
  event.preventDefault();
  const all = [...menu.querySelectorAll("button:not([disabled])")];
  const from = step[0] ?? all.indexOf(document.activeElement);
  all.at((from + step[1]) % all.length)?.focus();
}
