// The state machine, drawn: of one exchange, lit where it went; and of the gateway, with counts.
import machine from "../machine.json" with { type: "json" };
import { h, setAttribute, setText } from "../h.js";
import { showNumber } from "../times.js";
import { say } from "../words.js";

const AT = {
  opening: [70, 92],
  relaying: [250, 92],
  tooling: [160, 28],
  holding: [160, 156],
  closing: [400, 92],
  done: [520, 92],
  failed: [400, 28],
  gone: [400, 156],
};
// How the edges run. Which there are is in machine.json, which a test compares with the gateway.
const RUNS = {
  "opening>relaying": "M 112 92 H 203",
  "relaying>opening": "M 212 104 C 180 126, 140 126, 108 104",
  "relaying>tooling": "M 238 78 C 226 46, 214 32, 204 29",
  "tooling>opening": "M 118 29 C 104 32, 92 48, 82 76",
  "relaying>holding": "M 238 106 C 226 138, 214 152, 204 155",
  "holding>opening": "M 118 155 C 104 152, 92 136, 82 108",
  "relaying>closing": "M 292 92 H 354",
  "closing>done": "M 442 92 H 474",
  "relaying>failed": "M 272 78 C 300 52, 330 34, 356 30",
  "relaying>gone": "M 272 106 C 300 132, 330 150, 356 154",
  "holding>closing": "M 196 166 C 290 178, 356 158, 386 108",
  "tooling>closing": "M 196 18 C 290 6, 356 26, 386 76",
  "opening>opening": "M 44 80 C 10 60, 10 124, 42 105",
  "opening>failed": "M 74 78 C 92 2, 290 -4, 366 16",
  "opening>gone": "M 74 106 C 92 182, 290 188, 366 168",
  "opening>closing": "M 108 80 C 180 48, 300 48, 368 77",
  "tooling>failed": "M 202 28 H 356",
  "holding>gone": "M 202 156 H 356",
  "tooling>gone": "M 196 38 C 260 70, 330 130, 368 144",
  "holding>failed": "M 196 146 C 260 114, 330 54, 368 40",
  "closing>failed": "M 404 77 C 408 66, 408 56, 405 45",
};
// Rare edges: only drawn where an answer took them.
const RARE = new Set([
  "opening>failed",
  "opening>gone",
  "opening>closing",
  "tooling>failed",
  "holding>gone",
  "tooling>gone",
  "holding>failed",
  "closing>failed",
]);
const EDGES = [...new Set(machine.moves.map((move) => `${move.from}>${move.to}`))];

/** How often an exchange took each edge. */
export function countMoves(trail) {
  const counts = {};
  const add = (edge, n = 1) => (counts[edge] = (counts[edge] ?? 0) + n);
  const states = trail.states.map(([, state]) => state);
  if (trail.ended !== null && states.at(-1) !== trail.state) states.push(trail.state);
  states.slice(1).forEach((state, i) => state !== states[i] && add(`${states[i]}>${state}`));
  const refused = trail.turns.reduce((sum, turn) => sum + Math.max(0, turn.tries.length - 1), 0);
  if (refused) add("opening>opening", refused);
  return counts;
}

/** The machine of one exchange. */
export function drawMachine(trail) {
  const counts = countMoves(trail);
  const seen = new Set([...trail.states.map(([, state]) => state), trail.state]);
  const label = say("exchange.machine_label", { state: say(`state.${trail.state}`) });
  const svg = h("svg", { viewBox: "0 0 580 184", class: "drawing machine", role: "img", "aria-label": label });
  const edges = EDGES.filter((edge) => RUNS[edge] && (counts[edge] || !RARE.has(edge)));
  for (const edge of edges.sort((a, b) => (counts[a] ?? 0) - (counts[b] ?? 0)))
    svg.append(...drawEdge(RUNS[edge], counts[edge] ?? 0));
  for (const state of Object.keys(AT)) svg.append(drawState(state, trail, seen.has(state)));
  for (const edge of edges) if (counts[edge] > 1) svg.append(drawCount(RUNS[edge], counts[edge]));
  return svg;
}

function drawState(state, trail, was) {
  const [x, y] = AT[state];
  const is = state === trail.state;
  const ground = is ? `f-${state}` : was ? `b-${state}` : "b-none";
  const word = is ? "lit-word" : was ? `t-${state} seen` : "";
  return h(
    "g",
    { class: is && trail.ended === null ? "lit" : null },
    h("rect", { x: x - 42, y: y - 14, width: 84, height: 28, rx: 14, class: ground }),
    h("text", { x, y: y + 4, "text-anchor": "middle", class: word }, say(`state.${state}`)),
  );
}

const numbers = (d) => d.match(/-?\d+(\.\d+)?/g).map(Number);

function drawEdge(d, times) {
  const kind = times ? "edge went" : "edge";
  const n = numbers(d);
  const straight = d.includes("H");
  const [x, y] = straight ? [n.at(-1), n[1]] : n.slice(-2);
  const [fromX, fromY] = straight ? [n[0], n[1]] : n.slice(-4, -2);
  const angle = Math.atan2(y - fromY, x - fromX);
  const at = (turn) => `${(x - 7 * Math.cos(angle + turn)).toFixed(1)} ${(y - 7 * Math.sin(angle + turn)).toFixed(1)}`;
  return [h("path", { d, class: kind }), h("path", { d: `M ${at(0.5)} L ${x} ${y} L ${at(-0.5)}`, class: kind })];
}

function drawCount(d, times) {
  const n = numbers(d);
  const [x, y] = d.includes("H")
    ? [(n[0] + n[2]) / 2, n[1] - 7]
    : [(n[0] + 3 * n[2] + 3 * n[4] + n[6]) / 8, (n[1] + 3 * n[3] + 3 * n[5] + n[7]) / 8 - 5];
  return h("text", { x, y, "text-anchor": "middle", class: "strong halo" }, `×${times}`);
}

const HERE = {
  opening: [50, 88],
  relaying: [196, 88],
  tooling: [123, 26],
  holding: [123, 150],
  closing: [306, 88],
  done: [404, 88],
  failed: [306, 26],
  gone: [306, 150],
};
const LINES = [
  "M 91 88 H 151",
  "M 180 68 C 176 44, 172 32, 166 28",
  "M 81 28 C 70 34, 62 50, 57 66",
  "M 180 108 C 176 132, 172 144, 166 148",
  "M 81 148 C 70 142, 62 126, 57 110",
  "M 238 88 H 261",
  "M 348 88 H 359",
  "M 216 68 C 228 44, 244 32, 261 28",
  "M 216 108 C 228 132, 244 144, 261 148",
  "M 156 98 C 134 114, 112 114, 92 98",
];

/** The machine of the gateway: { node, update(counts, chosen) }. A click on a state calls `choose(state)`. */
export function makePopulation(choose) {
  const node = h("svg", {
    viewBox: "0 0 452 176",
    class: "drawing population",
    role: "group",
    "aria-label": say("live.now"),
  });
  for (const d of LINES) node.append(...drawEdge(d, 0));
  const boxes = Object.fromEntries(Object.keys(HERE).map((state) => [state, makeBox(state, choose)]));
  node.append(...Object.values(boxes).map((box) => box.node));
  const update = (counts, chosen) => {
    for (const [state, box] of Object.entries(boxes)) writeBox(box, state, counts[state] ?? 0, state === chosen);
  };
  return { node, update };
}

function makeBox(state, choose) {
  const [x, y] = HERE[state];
  const rect = h("rect", { x: x - 41, y: y - 20, width: 82, height: 40, rx: 9 });
  const figure = h("text", { x, y: y - 2, "text-anchor": "middle", class: "figure" }, "0");
  const word = h("text", { x, y: y + 13, "text-anchor": "middle" }, say(`state.${state}`));
  const press = (event) => {
    if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(state);
  };
  const node = h(
    "g",
    { role: "button", tabindex: 0, class: "box", onclick: press, onkeydown: press },
    rect,
    figure,
    // Not seen, but heard: else the number and the word would be one.
    " ",
    word,
  );
  return { node, rect, figure, word };
}

function writeBox(box, state, n, chosen) {
  const kind = n ? `t-${state}` : "";
  setText(box.figure, showNumber(n));
  setAttribute(box.figure, "class", `figure ${kind}`);
  setAttribute(box.word, "class", kind);
  setAttribute(box.rect, "class", `${n ? `b-${state}` : "b-none"}${chosen ? " chosen" : ""}`);
  setAttribute(box.node, "aria-pressed", String(chosen));
  setAttribute(box.node, "aria-label", `${showNumber(n)} ${say(`state.${state}`)}`);
}
