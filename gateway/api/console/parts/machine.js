// The state machine, drawn: of one exchange, lit where it went; and of the gateway, with counts.
import machine from "../machine.json" with { type: "json" };
import { fill, h, setAttribute, setText } from "../h.js";
import { showNumber } from "../times.js";
import { say } from "../words.js";

// Where the states stand: in the machine of one exchange, in that of the gateway, and in both of them where there
// is little room. There they stand in three columns, so that their words stay legible.
const EXCHANGE = {
  view: "8 0 560 184", half: [46, 14],
  at: { opening: [70, 92], relaying: [250, 92], tooling: [160, 28], holding: [160, 156], closing: [400, 92], done: [520, 92], failed: [400, 28], gone: [400, 156] },
};
const GATEWAY = {
  view: "0 0 452 176", half: [41, 20],
  at: { opening: [50, 88], relaying: [196, 88], tooling: [123, 26], holding: [123, 150], closing: [306, 88], done: [404, 88], failed: [306, 26], gone: [306, 150] },
};
const COLUMNS = {
  view: "0 0 320 254",
  at: { opening: [43, 94], relaying: [168, 94], tooling: [96, 28], holding: [96, 160], closing: [277, 94], done: [277, 160], failed: [277, 28], gone: [168, 226] },
};

// Which edges there are is in machine.json, which a test compares with the gateway. Here is how each one runs: from
// which side of its state to which side of the next, and how far from the middle of that side (1: at its end).
const EDGES = [...new Set(machine.moves.map((move) => `${move.from}>${move.to}`))];
const WAYS = {
  "opening>opening": ["top", -0.75, "top", -0.4],
  "opening>relaying": ["right", -0.3, "left", -0.3],
  "relaying>opening": ["left", 0.4, "right", 0.4],
  "relaying>tooling": ["top", -0.4, "right", 0.1],
  "tooling>opening": ["left", 0, "top", 0.3],
  "relaying>holding": ["bottom", -0.4, "right", -0.1],
  "holding>opening": ["left", 0, "bottom", 0.3],
  "relaying>closing": ["right", 0, "left", 0],
  "closing>done": ["right", 0, "left", 0],
  "relaying>failed": ["top", 0.5, "left", 0],
  "relaying>gone": ["bottom", 0.5, "left", 0],
  "tooling>closing": ["right", -0.4, "left", -0.75],
  "holding>closing": ["right", 0.4, "left", 0.75],
  "opening>failed": ["right", -0.8, "left", 0.6],
  "opening>gone": ["right", 0.8, "left", -0.6],
  "opening>closing": ["top", 0.7, "top", -0.7],
  "tooling>failed": ["right", 0, "left", 0],
  "holding>gone": ["right", 0, "left", 0],
  "tooling>gone": ["right", 0.6, "top", -0.9],
  "holding>failed": ["right", -0.6, "bottom", -0.9],
  "closing>failed": ["top", 0, "bottom", 0],
};
const COLUMN_WAYS = {
  ...WAYS,
  "tooling>opening": ["left", 0, "top", -0.1],
  "holding>opening": ["left", 0, "bottom", -0.1],
  "tooling>closing": ["right", -0.5, "left", -0.85],
  "holding>closing": ["right", 0.5, "left", 0.85],
  "closing>done": ["bottom", 0, "top", 0],
  "relaying>gone": ["bottom", 0.2, "top", 0.2],
  "opening>gone": ["bottom", -0.5, "left", 0.2],
  "holding>gone": ["bottom", 0.3, "left", -0.2],
  "tooling>gone": ["right", 0.6, "top", 0.7],
};
// Rare edges: only drawn where an answer took them.
const RARE = new Set(["opening>failed", "opening>gone", "opening>closing", "tooling>failed", "holding>gone", "tooling>gone", "holding>failed", "closing>failed"]);
const USUAL = EDGES.filter((edge) => !RARE.has(edge));

const OUT = { left: [-1, 0], right: [1, 0], top: [0, -1], bottom: [0, 1] };
const STRAIGHT = ["right", 0, "left", 0];
const GAP = 3;

// The four points of an edge's curve: it leaves its state at a right angle, and so it comes to the next.
function runEdge(edge, { at, half, ways = WAYS }) {
  const [from, to] = edge.split(">");
  const [side, lane, toSide, toLane] = ways[edge] ?? STRAIGHT;
  const start = findPort(at[from], half, side, lane, 0);
  const end = findPort(at[to], half, toSide, toLane, GAP);
  return [start, bendFrom(start, end, side), bendFrom(end, start, toSide), end];
}

const findPort = ([x, y], [wide, tall], side, lane, gap) => {
  const [right, down] = OUT[side];
  return [x + right * (wide + gap) + (down ? lane * wide : 0), y + down * (tall + gap) + (right ? lane * tall : 0)];
};

function bendFrom(point, other, side) {
  const [right, down] = OUT[side];
  const [dx, dy] = [other[0] - point[0], other[1] - point[1]];
  const ahead = 0.55 * (right * dx + down * dy);
  // Back to the same side: an arch, as wide as it is far.
  const reach = ahead > GAP ? ahead : Math.max(26, Math.min(42, 0.18 * Math.hypot(dx, dy)));
  return [point[0] + right * reach, point[1] + down * reach];
}

/** Whether a drawing of this width needs the compact form; larger text needs it sooner. */
export const isCompact = (width, wide) => width < (wide * parseFloat(getComputedStyle(document.documentElement).fontSize)) / 16;

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

/** The machine of one exchange, in a place of this width. */
export function drawMachine(trail, width = 560) {
  const compact = isCompact(width, 520);
  const layout = compact ? { ...COLUMNS, half: [42, 14], ways: COLUMN_WAYS } : EXCHANGE;
  const counts = countMoves(trail);
  const seen = new Set([...trail.states.map(([, state]) => state), trail.state]);
  const label = say("exchange.machine_label", { state: say(`state.${trail.state}`) });
  const svg = h("svg", { viewBox: layout.view, class: `drawing machine${compact ? " compact" : ""}`, role: "img", "aria-label": label });
  const edges = EDGES.filter((edge) => counts[edge] || !RARE.has(edge));
  for (const edge of edges.sort((a, b) => (counts[a] ?? 0) - (counts[b] ?? 0))) svg.append(...drawEdge(edge, layout, counts[edge] ?? 0));
  for (const state of Object.keys(layout.at)) svg.append(drawState(state, layout, trail, seen.has(state)));
  for (const edge of edges) if (counts[edge] > 1) svg.append(drawCount(edge, layout, counts[edge]));
  return svg;
}

function drawState(state, { at, half }, trail, was) {
  const [x, y] = at[state];
  const is = state === trail.state;
  const ground = is ? `b-${state} k-${state} present` : was ? `b-${state}` : "b-none";
  const word = was ? `t-${state} seen` : "";
  return h(
    "g",
    { class: is && trail.ended === null ? "lit" : null },
    h("rect", { x: x - half[0], y: y - half[1], width: 2 * half[0], height: 2 * half[1], rx: 14, class: ground, "data-state": state }),
    h("text", { x, y: y + 4, "text-anchor": "middle", class: word }, say(`state.${state}`)),
  );
}

const write = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;

function drawEdge(edge, layout, times) {
  const [start, bend, toBend, end] = runEdge(edge, layout);
  const kind = times ? "edge went" : "edge";
  const angle = Math.atan2(end[1] - toBend[1], end[0] - toBend[0]);
  const barb = (turn) => write([end[0] - 7 * Math.cos(angle + turn), end[1] - 7 * Math.sin(angle + turn)]);
  return [
    h("path", { d: `M ${write(start)} C ${write(bend)}, ${write(toBend)}, ${write(end)}`, class: kind, "data-edge": edge, "data-count": times }),
    h("path", { d: `M ${barb(0.5)} L ${write(end)} L ${barb(-0.5)}`, class: `${kind} head` }),
  ];
}

// Above the middle of its edge; below that of one which leads back.
function drawCount(edge, layout, times) {
  const points = runEdge(edge, layout);
  const [x, y] = [0, 1].map((i) => (points[0][i] + 3 * points[1][i] + 3 * points[2][i] + points[3][i]) / 8);
  const below = points[3][0] < points[0][0] && points[3][1] === points[0][1];
  return h("text", { x, y: y + (below ? 14 : -5), "text-anchor": "middle", class: "strong halo", "data-times": edge }, `×${times}`);
}

/** The machine of the gateway: { node, update(counts, chosen) }. A click on a state calls `choose(state)`. */
export function makePopulation(choose) {
  const node = h("svg", {
    class: "drawing population",
    role: "group",
    "aria-label": say("live.now"),
  });
  const lines = h("g");
  const boxes = Object.fromEntries(Object.keys(GATEWAY.at).map((state) => [state, makeBox(state, choose)]));
  node.append(lines, ...Object.values(boxes).map((box) => box.node));
  const arrange = (compact) => {
    // On phones a thumb meets the boxes.
    const layout = compact ? { ...COLUMNS, half: [41, 25], ways: COLUMN_WAYS } : GATEWAY;
    node.classList.toggle("compact", compact);
    setAttribute(node, "viewBox", layout.view);
    fill(lines, USUAL.filter((edge) => edge !== "opening>opening").map((edge) => drawEdge(edge, layout, 0)));
    for (const [state, box] of Object.entries(boxes)) {
      setAttribute(box.node, "transform", `translate(${layout.at[state]})`);
      setAttribute(box.rect, "y", -layout.half[1]);
      setAttribute(box.rect, "height", 2 * layout.half[1]);
    }
  };
  arrange(false);
  new ResizeObserver(() => arrange(isCompact(node.parentNode?.clientWidth - 32, 400))).observe(node);
  const update = (counts, chosen) => {
    for (const [state, box] of Object.entries(boxes)) writeBox(box, state, counts[state] ?? 0, state === chosen);
  };
  return { node, update };
}

function makeBox(state, choose) {
  const rect = h("rect", { x: -41, width: 82, rx: 9, "data-state": state });
  const figure = h("text", { y: -2, "text-anchor": "middle", class: "figure" }, "0");
  const word = h("text", { y: 13, "text-anchor": "middle" }, say(`state.${state}`));
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
