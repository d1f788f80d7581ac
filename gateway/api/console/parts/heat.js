// The load of the next 24 hours: one bar a quarter of an hour.
import { get } from "../api.js";
import { fill, h, setText } from "../h.js";
import { currentZone, now, showMinute, showNumber, toMs } from "../times.js";
import { say, sayCount } from "../words.js";

const QUARTER = 900000;
const WIDTH = 960;
const TALL = 40;

/** The panel of the jobs below `path`; `read()` asks the server again, `close()` ends its request. */
export function makeHeat(path) {
  const note = h("span", { class: "right small muted" });
  const body = h("div", { class: "pad heat-body" });
  const node = h("section", { class: "panel dims heat" }, h("header", {}, h("h2", {}, say("jobs.next_day")), h("span", { class: "small muted hide-s" }, say("jobs.next_day_note", { zone: currentZone() })), note), body);
  let asked = null;
  const read = async () => {
    asked?.abort();
    asked = new AbortController();
    const from = Math.floor(now() / QUARTER) * QUARTER;
    try {
      const { data } = await get(`${path}/calendar`, { from, to: from + 96 * QUARTER, bucket_ms: QUARTER }, asked.signal);
      draw(data);
    } catch (error) {
      if (error.name !== "AbortError") setText(note, error.message);
    }
  };
  const draw = ({ from, bucket_ms: step, counts, total }) => {
    const most = Math.max(...counts);
    const peak = toMs(from) + counts.indexOf(most) * step;
    const told = total ? sayCount("jobs.runs", total, { peak: showMinute(peak), most: showNumber(most) }) : say("jobs.no_runs");
    setText(note, told);
    fill(body, drawBars(toMs(from), step, counts, most, told), drawHours(toMs(from), step * counts.length));
  };
  return { node, read, close: () => asked?.abort() };
}

function drawBars(from, step, counts, most, told) {
  const wide = WIDTH / counts.length;
  const bar = (n, i) => {
    const tall = n ? 4 + (n / most) * (TALL - 6) : 0;
    const hint = h("title", {}, say("jobs.bar", { time: showMinute(from + i * step), n: showNumber(n) }));
    return [
      n ? h("rect", { x: i * wide + 1, y: TALL - tall, width: wide - 2, height: tall, rx: 1.5, class: "bar", opacity: 0.45 + 0.55 * (n / most) }) : null,
      h("rect", { x: i * wide, y: 0, width: wide, height: TALL, class: "bar-area" }, hint),
    ];
  };
  return h("svg", { class: "drawing bars", viewBox: `0 0 ${WIDTH} ${TALL + 1}`, preserveAspectRatio: "none", role: "img", "aria-label": `${say("jobs.next_day")}: ${told}` }, counts.map(bar), h("line", { x1: 0, x2: WIDTH, y1: TALL + 0.5, y2: TALL + 0.5, class: "axis" }));
}

const drawHours = (from, length) => h("div", { class: "hours small muted", "aria-hidden": "true" }, [0, 1, 2, 3, 4, 5, 6].map((i) => h("span", {}, showMinute(from + (length * i) / 6))));
