// Small plots over one time, with one cursor for all.
import { fill, h, setAttribute, setText } from "../h.js";
import { showClock, showDuration, showMinute, showNumber, showSize } from "../times.js";
import { say, sayOr } from "../words.js";

const WIDE = 600;
const TALL = 72;
const SPANS = { hour: 3600000, day: 86400000 };
const LEAST = 600000;
const STATES = ["opening", "relaying", "tooling", "holding", "closing"];
// No two alike.
const OUTCOMES = {
  due: "holding",
  result: "done",
  reminder_gone: "ink",
  by_hand: "tooling",
  taken_over: "relaying",
  replaced: "closing",
  client_gone: "gone",
  limit: "failed",
  draining: "opening",
};

const showRate = (n) =>
  say("health.per_second", { n: n === 0 ? "0" : n < 10 ? n.toFixed(1) : showNumber(Math.round(n)) });
const one = (name, values, state, dashed = false) => ({ name, values, state, dashed });

// Each: name, how a number is shown, whether lines are stacked, and its lines: { name, values, state }.
const PLOTS = [
  {
    name: "exchanges",
    show: showRate,
    lines: (s) => [one("ended", s.exchanges, "relaying"), one("failed", s.failed, "failed", true)],
  },
  {
    name: "live",
    show: showNumber,
    stacked: true,
    lines: (s) => STATES.map((state) => ({ ...one(state, s.live[state] ?? [], state), word: say(`state.${state}`) })),
  },
  {
    name: "first",
    show: showDuration,
    lines: (s) => [one("p50", s.first_p50, "relaying"), one("p95", s.first_p95, "holding", true)],
  },
  {
    name: "bytes",
    show: (n) => say("health.per_second", { n: showSize(Math.round(n)) }),
    lines: (s) => [one("bytes", s.bytes, "relaying")],
  },
  {
    name: "holds",
    show: showNumber,
    stacked: true,
    bars: true,
    lines: (s) =>
      Object.keys(s.holds).map((key) => ({
        ...one(key, s.holds[key], OUTCOMES[key] ?? "opening"),
        word: sayOr(`exchange.outcome_${key}`, key),
      })),
  },
  {
    name: "tokens",
    show: showNumber,
    lines: (s) => [one("tokens_in", s.tokens_in, "relaying"), one("tokens_out", s.tokens_out, "tooling", true)],
    tell: sayReported,
  },
  { name: "loop", show: showDuration, lines: (s) => [one("lag", s.loop_lag_ms, "closing")] },
  { name: "memory", show: showSize, lines: (s) => [one("rss", s.rss, "gone")] },
];

function sayReported(series) {
  const sum = (values) => values.reduce((all, n) => all + n, 0);
  return say("health.reported", {
    reported: showNumber(sum(series.reported_turns)),
    turns: showNumber(sum(series.turns)),
  });
}

/** { node, update(report) } of GET /api/console/metrics. */
export function makePlots() {
  const view = { report: null, at: null };
  const range = h("input", {
    type: "range",
    min: 0,
    step: 1,
    class: "cursor",
    "aria-label": say("health.cursor"),
    oninput: () => moveCursor(view, Number(range.value)),
  });
  view.range = range;
  view.time = h("output", { class: "small muted" });
  view.plots = PLOTS.map((plot) => makePlot(plot));
  const place = (event) => {
    const svg = event.target.closest("svg.plot");
    if (!svg || !view.report) return;
    const box = svg.getBoundingClientRect();
    moveCursor(view, findIndex(view.report, (event.clientX - box.left) / box.width));
  };
  const grid = h(
    "div",
    { class: "plots dims", onpointermove: place, onpointerleave: () => moveCursor(view, null) },
    view.plots.map((plot) => plot.node),
  );
  const node = h("div", {}, h("div", { class: "cursor-line" }, range, view.time), grid);
  return { node, update: (report) => update(view, report) };
}

function makePlot(plot) {
  const cursor = h("line", { y1: 0, y2: TALL, class: "plot-cursor" });
  const shapes = h("g");
  const svg = h(
    "svg",
    { viewBox: `0 0 ${WIDE} ${TALL}`, class: "plot", preserveAspectRatio: "none", role: "img" },
    shapes,
    cursor,
  );
  const keys = h("div", { class: "keys" });
  const top = h("span", { class: "small faint" });
  const note = h("span");
  const node = h(
    "figure",
    { class: "plot-box" },
    h("figcaption", {}, h("h3", {}, say(`health.plot_${plot.name}`)), top),
    svg,
    keys,
  );
  return { ...plot, node, svg, shapes, cursor, keys, top, note, shown: [] };
}

const lastOf = (report) => report.times.at(-1) ?? 0;
// Of a gateway that began lately, the time before is not drawn.
const spanOf = (report) => Math.max(LEAST, Math.min(SPANS[report.window], lastOf(report) - report.since));
const startOf = (report) => lastOf(report) - spanOf(report);
const placeOf = (report, i) => ((report.times[i] - startOf(report)) / spanOf(report)) * WIDE;

function findIndex(report, part) {
  const wanted = startOf(report) + part * spanOf(report);
  let best = 0;
  report.times.forEach((time, i) => Math.abs(time - wanted) < Math.abs(report.times[best] - wanted) && (best = i));
  return best;
}

function update(view, report) {
  view.report = report;
  setAttribute(view.range, "max", Math.max(0, report.times.length - 1));
  for (const plot of view.plots) drawPlot(plot, report);
  moveCursor(view, view.at);
}

function drawPlot(plot, report) {
  plot.shown = plot.lines(report.series);
  const top = topOf(plot);
  setText(plot.top, top > 0 ? say("health.most", { n: plot.show(top) }) : "");
  setText(plot.note, plot.tell?.(report.series) ?? "");
  const below = report.times.map(() => 0);
  const draw = plot.bars ? drawBars : plot.stacked ? drawArea : drawLine;
  fill(
    plot.shapes,
    plot.shown.map((line) => draw(report, line, top, below)),
  );
  fill(
    plot.keys,
    plot.shown.map((line) =>
      h(
        "span",
        {},
        h(
          "svg",
          { viewBox: "0 0 12 8", width: 12, height: 8, "aria-hidden": "true" },
          h("line", {
            x1: 0,
            x2: 12,
            y1: 4,
            y2: 4,
            class: `key-line-mark k-${line.state}${line.dashed ? " dashed" : ""}`,
          }),
        ),
        line.word ?? say(`health.line_${line.name}`),
        h("b"),
      ),
    ),
    plot.note,
  );
  setAttribute(
    plot.svg,
    "aria-label",
    `${say(`health.plot_${plot.name}`)}: ${plot.shown.map((line) => `${line.word ?? say(`health.line_${line.name}`)} ${showValue(plot, line.values.at(-1))}`).join(", ")}`,
  );
}

function topOf(plot) {
  const length = plot.shown[0]?.values.length ?? 0;
  let top = 0;
  for (let i = 0; i < length; i += 1) {
    const here = plot.shown.map((line) => line.values[i] ?? 0);
    top = Math.max(top, plot.stacked ? here.reduce((sum, n) => sum + n, 0) : Math.max(...here));
  }
  return top;
}

const high = (n, top) => (TALL - 2 - (n / (top || 1)) * (TALL - 6)).toFixed(1);

// Where nothing was measured, the line has a gap.
function drawLine(report, line, top) {
  let d = "";
  const isGap = (n) => n === null || n === undefined;
  line.values.forEach((n, i) => {
    if (isGap(n)) return;
    d += `${isGap(line.values[i - 1]) ? "M" : "L"}${placeOf(report, i).toFixed(1)} ${high(n, top)}`;
    if (isGap(line.values[i - 1]) && isGap(line.values[i + 1])) d += "h3"; // alone, it would not be seen
  });
  return h("path", { d, class: `plot-line k-${line.state}${line.dashed ? " dashed" : ""}` });
}

// Rare events: a bar each, wide enough to be seen.
function drawBars(report, line, top, below) {
  const wide = Math.max(3, (report.step_ms / spanOf(report)) * WIDE);
  const bar = (n, i) =>
    h("rect", {
      x: (placeOf(report, i) - wide).toFixed(1),
      width: wide.toFixed(1),
      y: high(below[i] + n, top),
      height: (high(below[i], top) - high(below[i] + n, top)).toFixed(1),
    });
  const bars = line.values.map((n, i) => (n ? bar(n, i) : null));
  line.values.forEach((n, i) => (below[i] += n ?? 0));
  return h("g", { class: `f-${line.state}` }, bars);
}

function drawArea(report, line, top, below) {
  const floor = [...below];
  line.values.forEach((n, i) => (below[i] += n ?? 0));
  const edge = (values) => values.map((n, i) => `${placeOf(report, i).toFixed(1)} ${high(n, top)}`);
  const d = below.length ? `M${edge(below).join("L")}L${edge(floor).reverse().join("L")}Z` : "";
  return h("path", { d, class: `f-${line.state}` });
}

const showValue = (plot, n) => (n === null || n === undefined ? "–" : plot.show(n));

function moveCursor(view, at) {
  const { report } = view;
  view.at = at;
  if (!report?.times.length) return;
  const last = report.times.length - 1;
  const i = at === null || at > last ? last : at;
  view.range.value = i;
  const clock = report.window === "hour" ? showClock(report.times[i]) : showMinute(report.times[i]);
  setText(view.time, clock);
  setAttribute(view.range, "aria-valuetext", clock);
  const x = placeOf(report, i).toFixed(1);
  for (const plot of view.plots) {
    setAttribute(plot.cursor, "x1", x);
    setAttribute(plot.cursor, "x2", x);
    plot.shown.forEach((line, k) => setText(plot.keys.children[k].lastChild, showValue(plot, line.values[i])));
  }
}
