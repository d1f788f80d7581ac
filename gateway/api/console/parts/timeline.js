// One answer over its turns, drawn from its trail. The same picture live and afterwards.
import { h } from "../h.js";
import { showClock, showDuration, showLeft } from "../times.js";
import { say } from "../words.js";
import { makeScale } from "./scale.js";
import { isRefused } from "./story.js";

const GUTTER = 156;
const TOP = 30;
const LANE = 44;
const CLIENT = TOP + 10;
const STATE = TOP + 30;
const TURNS = TOP + 56;
const STEPS = [
  10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 60000, 120000, 300000, 600000, 1800000, 3600000,
];
const CLOSE = 60;
const ENDS = new Set(["done", "failed", "gone"]);

/** Draws a trail: { svg, place(ms), isFolded }. `at` is now in ms since it began; `trueScale` folds nothing. */
export function drawTimeline(trail, { width, at: clock, trueScale }) {
  // The page's clock may be a little behind the server's: what is told has happened.
  const at = Math.max(clock, trail.states.at(-1)?.[0] ?? 0);
  const height = TURNS + trail.turns.length * LANE + 14;
  const isLive = trail.ended === null;
  const stop = trail.ended ?? at;
  const waits = trail.holds.map((hold) =>
    hold.ended === null && isLive ? [hold.at, Math.max(hold.until, at), width * 0.28] : [hold.at, hold.ended ?? stop],
  );
  const end = Math.max(stop, 1, ...waits.map(([, to]) => to));
  const fold = trueScale ? 0 : Math.min(150, width / 4);
  const scale = makeScale({ end, waits, left: GUTTER, right: width - 24, fold });
  const label = say("exchange.timeline_label", { n: trail.turns.length });
  const svg = h("svg", {
    class: "drawing timeline",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": label,
    "data-scale": JSON.stringify(scale.knots.map(([ms, x]) => [Math.round(ms), Math.round(x * 100) / 100])),
  });
  const d = { svg, trail, stop, at, isLive, width, height, ...scale };
  svg.append(
    h(
      "defs",
      {},
      h(
        "pattern",
        { id: "wait", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        h("line", { x1: 0, y1: 0, x2: 0, y2: 6, class: "k-opening wide" }),
      ),
    ),
  );
  drawRuler(d);
  drawFolds(d);
  drawClient(d);
  drawStates(d);
  trail.turns.forEach((turn, i) => drawTurn(d, turn, TURNS + i * LANE));
  if (isLive) drawNow(d);
  return { svg, place: scale.place, isFolded: scale.folds.length > 0 };
}

// What a shape stands for and when that was: its middle is there, or its left edge where it lasts.
const mark = (name, at) => ({ "data-mark": name, "data-at": Math.round(at) });

function drawRuler({ svg, place, per, folds, end, width, height, isLive, at }) {
  const step = STEPS.find((one) => one * per >= 74) ?? 7200000;
  for (let ms = 0; ms <= end; ms += step) {
    const x = place(ms);
    if (folds.some(([from, to]) => ms > from - 1 && ms < to - 1) || x > width - 32) continue;
    svg.append(h("line", { x1: x, x2: x, y1: TOP - 6, y2: height - 8, class: "rule" }));
    if (!isLive || Math.abs(x - place(at)) > 36)
      svg.append(h("text", { x, y: TOP - 12, "text-anchor": "middle", ...mark("tick", ms) }, showMark(ms, step)));
  }
}

function showMark(ms, step) {
  if (ms >= 60000) return showLeft(ms);
  return say("frame.span_s", { n: ms === 0 ? 0 : (ms / 1000).toFixed(step < 100 ? 2 : step < 1000 ? 1 : 0) });
}

function drawFolds({ svg, place, folds, height }) {
  const base = height - 8;
  for (const [from, to] of folds) {
    const edges = [place(from), place(to)];
    svg.append(
      h("rect", {
        x: edges[0],
        y: TOP - 6,
        width: edges[1] - edges[0],
        height: base - TOP + 6,
        class: "b-holding half",
      }),
    );
    for (const x of edges) {
      let path = `M ${x} ${TOP - 6}`;
      for (let y = TOP - 6, side = 1; y < base; y += 6, side = -side)
        path += ` L ${x + side * 2.5} ${Math.min(y + 6, base)}`;
      svg.append(h("path", { d: path, class: "k-holding jagged" }));
    }
  }
}

function drawLabel(svg, y, text, more) {
  svg.append(h("text", { x: 0, y: y + 4, class: "strong" }, fit(text, 22)));
  if (more) svg.append(h("text", { x: 0, y: y + 18 }, fit(more, 22), h("title", {}, more)));
}

const fit = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function drawClient({ svg, trail, place, stop, at }) {
  const y = CLIENT;
  drawLabel(svg, y, say("exchange.client"));
  svg.append(h("line", { x1: place(0), x2: place(stop), y1: y, y2: y, class: "inkline thin" }));
  for (const turn of trail.turns) {
    if (turn.first !== null && turn.bytes)
      svg.append(
        h("line", {
          x1: place(turn.first),
          x2: Math.max(place(turn.ended ?? at), place(turn.first) + 2),
          y1: y,
          y2: y,
          class: "inkline thick",
          ...mark("bytes", turn.first),
        }),
      );
  }
  for (const beat of trail.beats)
    svg.append(
      h(
        "circle",
        { cx: place(beat), cy: y, r: 2.6, class: "inkline beat", ...mark("beat", beat) },
        h("title", {}, say("exchange.heartbeat")),
      ),
    );
  for (const moment of trail.splices) drawSplice(svg, place(moment), y, moment);
  if (trail.first !== null) drawFirstByte(svg, place(trail.first), y, trail.first);
  if (trail.ended !== null)
    svg.append(
      h(
        "rect",
        {
          x: place(trail.ended) - 5,
          y: y - 5,
          width: 10,
          height: 10,
          class: `f-${trail.state}`,
          ...mark("end", trail.ended),
        },
        h("title", {}, say(`state.${trail.state}`)),
      ),
    );
}

function drawFirstByte(svg, x, y, first) {
  svg.append(
    h("path", { d: `M ${x - 5} ${y - 13} h 10 l -5 8 Z`, class: "inkfill", ...mark("first_byte", first) }),
    h("text", { x: x + 8, y: y - 6, class: "ink halo" }, say("exchange.first_byte_at", { time: showDuration(first) })),
  );
}

function drawSplice(svg, x, y, moment) {
  const cross = h("path", {
    d: `M ${x - 5} ${y - 5} L ${x + 5} ${y + 5} M ${x + 5} ${y - 5} L ${x - 5} ${y + 5}`,
    class: "eraser",
  });
  svg.append(
    cross,
    h(
      "path",
      { d: `M ${x - 5} ${y - 5} v 10 L ${x + 5} ${y - 5} v 10 Z`, class: "inkfill", ...mark("splice", moment) },
      h("title", {}, say("exchange.splice")),
    ),
  );
}

function drawStates({ svg, trail, place, stop }) {
  drawLabel(svg, STATE, say("exchange.state"));
  const states = trail.states.filter(([, state]) => !ENDS.has(state));
  states.forEach(([from, state], i) => {
    const to = states[i + 1]?.[0] ?? stop;
    const x = place(from);
    const title = h("title", {}, `${say(`state.${state}`)} ${showDuration(to - from)}`);
    const shape = { x, y: STATE - 5, width: Math.max(place(to) - x, 2), height: 12, rx: 2, class: `f-${state}` };
    svg.append(h("rect", { ...shape, ...mark(`state ${state}`, from) }, title));
  });
}

function drawTurn(d, turn, y) {
  const { svg, trail } = d;
  drawLabel(svg, y + 10, `${turn.n} ${sayWhy(turn)}`, turn.tries.at(-1)?.route);
  for (const one of turn.tries) drawTry(d, turn, one, y);
  if (turn.first !== null) drawFlow(d, turn, y);
  for (const tool of trail.tools.filter((one) => one.turn === turn.n)) drawTool(d, tool, y + 14);
  for (const hold of trail.holds.filter((one) => one.turn === turn.n)) drawHold(d, hold, y);
}

/** Why a turn was asked, in two words. */
export function sayWhy(turn) {
  const [round, rounds] = turn.round ?? [];
  return round ? `${say(`exchange.why_${turn.why}`)} ${round}/${rounds}` : say(`exchange.why_${turn.why}`);
}

function drawTry({ svg, place, at }, turn, one, y) {
  const refused = isRefused(one);
  const x = place(one.at);
  const end = Math.max(place(refused ? one.ended : (turn.first ?? turn.ended ?? at)), x + 3);
  svg.append(
    h("rect", {
      x,
      y: y + 4,
      width: end - x,
      height: 20,
      rx: 3,
      class: refused ? "b-failed" : "waiting-bar",
      fill: refused ? null : "url(#wait)",
      ...mark(refused ? "try" : "wait", one.at),
    }),
  );
  if (!refused) return;
  const code = `${one.route} ${one.status || one.code}`;
  svg.append(
    h(
      "path",
      {
        d: `M ${place(one.ended) - 4} ${y + 10} l 8 8 m 0 -8 l -8 8`,
        class: "k-failed wide",
        ...mark("refused", one.ended),
      },
      h("title", {}, `${one.route}: ${one.status || ""} ${one.code}`),
    ),
  );
  svg.append(h("text", { x, y: y + 38, class: "t-failed" }, code));
}

function drawFlow(d, turn, y) {
  const { svg, place, at, trail } = d;
  const x = place(turn.first);
  const end = Math.max(place(turn.ended ?? at), x + 3);
  svg.append(
    h("rect", { x, y: y + 4, width: end - x, height: 20, rx: 3, class: turn.bytes ? "b-relaying" : "b-tooling" }),
  );
  if (turn.bytes) svg.append(h("path", { d: areaOf(turn, place, y + 24, end), class: "f-relaying", "data-flow": turn.n }));
  const asked = turn.tries.at(-1)?.at ?? 0;
  svg.append(
    h(
      "path",
      { d: `M ${x} ${y + 2} v 24`, class: "post", ...mark("first_frame", turn.first) },
      h("title", {}, say("exchange.first_frame_after", { time: showDuration(turn.first - asked) })),
    ),
  );
  if (turn.ended !== null && !trail.tools.some((tool) => tool.turn === turn.n)) drawResult(d, turn, x, y + 38);
}

// The points of a flow, from its begin to its end. Two that are close together would say nothing but that.
function readFlow(turn) {
  const all = turn.flow.filter(([ms]) => ms > turn.first);
  if (turn.ended !== null && turn.ended > (all.at(-1)?.[0] ?? turn.first)) all.push([turn.ended, turn.bytes]);
  const near = Math.max(CLOSE, ((all.at(-1)?.[0] ?? 0) - turn.first) / 40);
  const points = [[turn.first, 0]];
  for (const point of all) {
    const isNear = point[0] - points.at(-1)[0] < near;
    if (isNear && points.length > 1) points.pop();
    if (!isNear || points.length > 1 || point === all.at(-1)) points.push(point);
  }
  return points;
}

// Bytes per time between two points of the flow, as an area of at most 17 px.
function areaOf(turn, place, base, end) {
  const points = readFlow(turn);
  const rates = points
    .slice(1)
    .map(([ms, bytes], i) => [
      (ms + points[i][0]) / 2,
      Math.max(0, bytes - points[i][1]) / Math.max(ms - points[i][0], 1),
    ]);
  const most = Math.max(...rates.map(([, rate]) => rate), 1e-9);
  // One rate alone is only an average: it is not drawn as high as a peak.
  const top = (rate) => (base - (rates.length > 1 ? rate / most : 0.6) * 17).toFixed(1);
  const start = place(turn.first);
  const line = rates.map(([ms, rate]) => `L ${place(ms).toFixed(1)} ${top(rate)}`).join(" ");
  return `M ${start} ${base} L ${start} ${top(rates[0]?.[1] ?? 0)} ${line} L ${end} ${top(rates.at(-1)?.[1] ?? 0)} L ${end} ${base} Z`;
}

function drawResult({ svg, width, trail }, turn, x, y) {
  const tokens = turn.usage ? say("exchange.tokens_short", { n: turn.usage.output }) : "";
  const text = [showDuration(turn.ended - turn.first), tokens, turn.stop].filter(Boolean).join(", ");
  const refused = turn.tries.some(isRefused);
  const left = refused ? Math.max(x, GUTTER + turn.tries[0].route.length * 7 + 60) : x;
  svg.append(
    h(
      "text",
      {
        x: Math.min(left, width - 20 - text.length * 6.4),
        y,
        class: turn.stop === "broke" || (trail.state === "failed" && turn.stop === "") ? "t-failed" : null,
      },
      text,
    ),
  );
}

function drawTool({ svg, place }, tool, y) {
  const x = place(tool.at);
  const name = [tool.name, tool.action].filter(Boolean).join(" ");
  svg.append(
    h("path", {
      d: `M ${x} ${y - 6} l 6 6 l -6 6 l -6 -6 Z`,
      class: tool.ok === false ? "f-failed" : "f-tooling",
      ...mark("tool", tool.at),
    }),
    h(
      "text",
      { x: x + 10, y: y + 4, class: `${tool.ok === false ? "t-failed" : "t-tooling"} halo` },
      tool.ms === null ? name : `${name}, ${showDuration(tool.ms)}`,
    ),
  );
}

function drawHold(d, hold, y) {
  const { svg, place, at, trail } = d;
  const mid = y + 14;
  const isLive = hold.ended === null && trail.ended === null;
  const to = hold.ended ?? (isLive ? Math.max(hold.until, at) : trail.ended);
  const x = place(hold.at);
  const end = place(to);
  svg.append(h("line", { x1: x, x2: end, y1: mid, y2: mid, class: "k-holding ghost" }));
  const ends = [mark("hold", hold.at), mark(isLive ? "due" : "hold_end", to)];
  [x, end].forEach((post, i) =>
    svg.append(h("rect", { x: post - 1.5, y: mid - 9, width: 3, height: 18, rx: 1, class: "f-holding", ...ends[i] })),
  );
  if (isLive) svg.append(h("line", { x1: x, x2: place(at), y1: mid, y2: mid, class: "k-holding held" }));
  const text = isLive
    ? say("live.goes_on_in", { time: showLeft(hold.until - at) })
    : say("exchange.held_for", { time: showDuration((hold.ended ?? trail.ended) - hold.at) });
  const wide = widthOf(text) + 18;
  const centre = !isLive || end - place(at) > wide + 16 ? ((isLive ? place(at) : x) + end) / 2 : (x + place(at)) / 2;
  if (end - x < wide && !isLive) return void svg.append(h("text", { x: x + 2, y: y + 38, class: "t-holding" }, text));
  svg.append(
    h("rect", { x: centre - wide / 2, y: mid - 11, width: wide, height: 22, rx: 11, class: "b-holding" }),
    h("text", { x: centre, y: mid + 4, "text-anchor": "middle", class: "t-holding seen" }, text),
  );
  if (isLive)
    svg.append(
      h(
        "text",
        { x: end - 6, y: y + 38, "text-anchor": "end", class: "t-holding" },
        say("exchange.due_at", { time: showClock(trail.begun_at + hold.until) }),
      ),
    );
}

const widthOf = (text) => [...text].reduce((sum, letter) => sum + (letter > "⺀" ? 12 : 6.8), 0);

function drawNow({ svg, place, at, height }) {
  const x = place(at);
  svg.append(
    h("line", { x1: x, x2: x, y1: TOP - 8, y2: height - 8, class: "now", ...mark("now", at) }),
    h("text", { x, y: TOP - 12, "text-anchor": "middle", class: "strong" }, say("exchange.now")),
  );
}
