// The keyboard: single keys of the frame and of the page, their help, and the switch that turns them off.
import { h } from "./h.js";
import { openDialog } from "./parts/dialog.js";
import { readSetting, writeSetting } from "./settings.js";
import { say } from "./words.js";

const PLACES = { l: "live", c: "chat", s: "sessions", t: "tools", j: "jobs", h: "health" };
// These work although single keys are off: they are no letters that speech input may say.
const ALWAYS = new Set(["Escape", "Enter", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]);

/** Bindings of the present page: { key, say: "live.key_pause", run(event) }. A run that returns false lets the key through. */
export class Keys {
  #page = [];
  #waitsForPlace = -Infinity;
  #go;

  constructor(go) {
    this.#go = go;
    document.addEventListener("keydown", (event) => this.#take(event));
  }

  /** Puts these bindings in place of those of the page before. */
  setPage(bindings) {
    this.#page = bindings;
  }

  #take(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
    if (document.querySelector("dialog[open], [popover]:popover-open")) return;
    if (!ALWAYS.has(event.key) && readSetting("keys") === "off") return;
    if (this.#run(event)) event.preventDefault();
    // Out of the search, so that the next letter is a key again.
    if (event.key === "Escape" && event.target.type === "search") document.querySelector("main").focus({ preventScroll: true });
  }

  #run(event) {
    const waited = performance.now() - this.#waitsForPlace < 1500;
    this.#waitsForPlace = -Infinity;
    if (waited && PLACES[event.key]) return (this.#go(PLACES[event.key]), true);
    if (event.key === "g") return ((this.#waitsForPlace = performance.now()), true);
    if (event.key === "?") return (this.showHelp(), true);
    if (event.key === "/") return focusSearch();
    const binding = this.#page.find((one) => one.key === event.key);
    return binding ? binding.run(event) !== false : false;
  }

  showHelp() {
    const line = (keys, text) =>
      h(
        "div",
        { class: "key-line" },
        h(
          "span",
          {},
          keys.map((key) => h("kbd", {}, key)),
        ),
        text,
      );
    const places = Object.entries(PLACES).map(([key, page]) => line(["g", key], say(`frame.${page}`)));
    const page = this.#page.filter((one) => one.say).map((one) => line([showKey(one.key)], say(one.say)));
    const box = h("input", { type: "checkbox", onchange: () => writeSetting("keys", box.checked ? "on" : "off") });
    box.checked = readSetting("keys") !== "off";
    openDialog({
      title: say("frame.keys"),
      body: [
        h(
          "div",
          { class: "key-list" },
          page,
          line(["/"], say("frame.key_search")),
          line(["?"], say("frame.key_help")),
          places,
        ),
        h("label", { class: "check" }, box, say("frame.keys_on")),
      ],
      actions: [{ text: say("frame.close"), value: "close" }],
    });
  }
}

const NAMES = { Escape: "Esc", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };
const showKey = (key) => NAMES[key] ?? key;

const isTyping = ({ key, target }) =>
  target.closest?.(key === "Escape" ? "select" : "input:not([type=checkbox]), textarea, select") !== null;

function focusSearch() {
  const field = document.querySelector("main input[type=search]");
  field?.focus();
  field?.select();
  return field !== null;
}
