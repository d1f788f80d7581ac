// One glyph a state, told apart without colour; and the state as a word.
import { h, setText } from "../h.js";
import { sayOr } from "../words.js";

const line =
  (d, width = 2) =>
  () => [
    h("path", {
      d,
      fill: "none",
      stroke: "currentColor",
      "stroke-width": width,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
    }),
  ];
const solid = (d) => () => [h("path", { d, fill: "currentColor" })];
const ring = (r, more = {}) =>
  h("circle", { cx: 7, cy: 7, r, fill: "none", stroke: "currentColor", "stroke-width": 1.6, ...more });

const GLYPHS = {
  opening: () => [ring(5, { "stroke-dasharray": "2.4 2.2" })],
  relaying: solid("M3 2.6 L11.6 7 L3 11.4 Z"),
  tooling: solid("M7 1.4 L12.6 7 L7 12.6 L1.4 7 Z"),
  holding: solid("M2 2h2.6v10H2z M9.4 2h2.6v10H9.4z M7 5.7a1.3 1.3 0 1 0 0 2.6a1.3 1.3 0 1 0 0-2.6z"),
  closing: () => [ring(4.8), h("path", { d: "M7 2.2 A4.8 4.8 0 0 1 7 11.8 Z", fill: "currentColor" })],
  done: line("M2.4 7.4 L5.6 10.6 L11.8 3.6"),
  failed: line("M3 3 L11 11 M11 3 L3 11"),
  gone: line("M2 7 H9 M6.4 4 L9.4 7 L6.4 10 M12 2.4 V11.6", 1.7),
  on: () => [h("circle", { cx: 7, cy: 7, r: 3.4, fill: "currentColor" })],
  off: () => [ring(3.6, { "stroke-width": 1.5 })],
  warning: line("M7 2 L12.4 11.6 H1.6 Z M7 5.6 V8.2 M7 10 V10.05", 1.5),
  reminder: line("M7 3.8 V7 L9.2 8.6 M7 1.6 a5.4 5.4 0 1 0 0.01 0", 1.5),
};
// Job states that share an exchange state's glyph and colour.
const SAME = { failing: "failed", running: "relaying", cooling: "opening", ok: "done", error: "failed" };
/** The glyph that a state has. */
export const shapeOf = (state) => (GLYPHS[state] ? state : (SAME[state] ?? "on"));

/** The glyph of a state. */
export function glyph(state) {
  const shape = shapeOf(state);
  return h(
    "svg",
    { viewBox: "0 0 14 14", width: 14, height: 14, class: `glyph s-${shape}`, "aria-hidden": "true" },
    GLYPHS[shape](),
  );
}

/** Glyph and word; `pill` puts it on the state's soft ground. Words: state.NAME, or the given one. */
export function stateWord(state, { word = sayOr(`state.${state}`, state), pill = false } = {}) {
  return h("span", { class: stateClass(state, pill) }, glyph(state), h("span", { class: "word" }, word));
}

/** Turns such a node into another state. */
export function setState(node, state, { word = sayOr(`state.${state}`, state), pill = false } = {}) {
  if (node.dataset.state !== state) {
    node.dataset.state = state;
    node.className = stateClass(state, pill);
    node.firstChild.replaceWith(glyph(state));
  }
  setText(node.lastChild, word);
}

const stateClass = (state, pill) =>
  `state s-${shapeOf(state)}${pill ? " pill" : ""}${state === "on" || state === "off" ? " plain" : ""}`;
