// An exchange in a row of a list: its states, to scale, the long waits folded.
import { h, setAttribute } from "../h.js";
import { makeScale } from "./scale.js";

const WIDE = 300;
const ENDS = new Set(["done", "failed", "gone"]);

export const makeStrip = (tall = 14) =>
  h("svg", {
    viewBox: `0 0 ${WIDE} ${tall}`,
    height: tall,
    class: "strip",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });

/** Draws a row or a trail of the contract: states, ended, begun_at, and `until` of a hold in UTC ms. */
export function drawStrip(svg, row, now) {
  const parts = readParts(row, now);
  const start = parts[0]?.from ?? 0;
  const waits = parts.filter((one) => one.state === "holding").map((one) => [one.from, one.future ?? one.to]);
  const end = Math.max(parts.at(-1)?.to ?? 1, ...waits.map(([, to]) => to));
  const { place } = makeScale({ start, end, waits, left: 0, right: WIDE, fold: WIDE / 5 });
  const tall = Number(svg.getAttribute("height"));
  const held = parts.at(-1);
  if (held?.future > held?.to) parts.push({ ...held, from: held.to, to: held.future, ahead: true });
  while (svg.childElementCount > parts.length) svg.lastChild.remove();
  parts.forEach((part, i) => drawPart(svg.children[i] ?? svg.appendChild(h("rect")), part, place, tall));
}

function readParts(row, now) {
  const stop = row.ended ?? Math.max(0, now - row.begun_at);
  const states = row.states.filter(([, state]) => !ENDS.has(state));
  return states.map(([from, state], i) => {
    const last = i === states.length - 1;
    const future = last && state === "holding" && row.until && row.ended === null ? row.until - row.begun_at : null;
    return { from, state, to: Math.max(from, last ? stop : states[i + 1][0]), future };
  });
}

function drawPart(rect, { from, to, state, ahead }, place, tall) {
  const thin = state === "holding" || state === "opening";
  const x = place(from);
  setAttribute(rect, "x", x.toFixed(1));
  setAttribute(rect, "width", Math.max(place(to) - x - 1.5, 2.5).toFixed(1));
  setAttribute(rect, "y", thin ? tall / 2 - 2 : 2);
  setAttribute(rect, "height", thin ? 4 : tall - 4);
  setAttribute(rect, "rx", 1);
  setAttribute(rect, "class", ahead ? `f-${state} ahead` : `f-${state}`);
}
