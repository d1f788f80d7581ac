// A job in a list: its columns, its state in words, its last runs as ticks.
import { fill, h, setAttribute, setText } from "../h.js";
import { menuButton } from "./menu.js";
import { setState, stateWord } from "./state.js";
import { currentZone, setMoving, setStill, showAge, showClock, showDuration, showMinute, showTime, toMs } from "../times.js";
import { currentLanguage, locale, say, sayCount } from "../words.js";

/** When it runs, in the current language, with its zone if it has one. */
export function whenOf(job) {
  const words = job.words[currentLanguage()];
  return job.schedule.tz && job.schedule.kind !== "every" ? say("jobs.in_zone", { words, zone: job.schedule.tz }) : words;
}

const showDate = (time) => new Date(toMs(time)).toLocaleDateString(locale(), { day: "numeric", month: "short", timeZone: currentZone() });

/** Why it is off: after failures, after its one time, or by a person. */
export function whyOff(job) {
  if (job.consecutive_failures > 0 && job.disabled_reason) return sayCount("jobs.after_failures", job.consecutive_failures);
  if (job.disabled_reason) return job.disabled_reason;
  if (job.schedule.kind === "at" && job.last_run_at) return say("jobs.after_once");
  return say("jobs.by_owner", { time: showDate(job.updated_at) });
}

/** The line below the state: [glyph, word, why]. */
export function stateOf(job, queued = false) {
  if (queued && job.state !== "running") return ["opening", say("jobs.queued"), ""];
  if (job.state === "off") return [job.disabled_reason ? "failed" : "off", say("state.off"), whyOff(job)];
  if (job.state === "failing") return ["failing", say("state.failing"), sayCount("jobs.in_a_row", job.consecutive_failures)];
  return [job.state, say(`state.${job.state}`), job.state === "running" && job.consecutive_failures > 0 ? sayCount("jobs.in_a_row", job.consecutive_failures) : ""];
}

/** What each status of a run looks like: glyph, and [top, height] of its tick. */
export const RUN_GLYPHS = { ok: "done", error: "failed", running: "relaying", skipped: "opening", interrupted: "failed", missed: "gone" };
const TICKS = { done: [5, 9], failed: [2, 12], relaying: [5, 9], opening: [8, 6], gone: [10, 4] };

/** The last 12 runs; what failed stands out by height, too. */
export function drawTicks(svg, statuses) {
  const paths = {};
  statuses.forEach((status, i) => {
    const shape = RUN_GLYPHS[status] ?? "opening";
    const [top, tall] = TICKS[shape];
    paths[shape] = `${paths[shape] ?? ""}M${(12 - statuses.length + i) * 7} ${top}h5v${tall}h-5z`;
  });
  fill(svg, Object.entries(paths).map(([shape, d]) => h("path", { d, class: `f-${shape}` })));
  const bad = statuses.filter((status) => RUN_GLYPHS[status] === "failed").length;
  setAttribute(svg, "aria-label", statuses.length ? say("jobs.ticks", { n: statuses.length, bad }) : say("jobs.never"));
}

export const makeTicks = () => h("svg", { width: 84, height: 16, viewBox: "0 0 84 16", class: "ticks", role: "img" });

const two = (first = {}) => h("div", { class: "two" }, h("span", first), h("span"));

/** The columns. `view`: isPicked(id), isQueued(id), isOn(job), isAsleep() (no job runs), actions. */
export const JOB_COLUMNS = (view) => [
  { name: "pick", title: "", make: () => makePick(view), key: (job) => `${job.job_id} ${view.isPicked(job.job_id)} ${job.name}`, write: (node, job) => writePick(view, node, job) },
  { name: "name", title: say("jobs.col_name"), make: () => h("div", { class: "two" }, h("b"), h("span")), key: (job) => `${job.name} ${job.user_id} ${whenOf(job)}`, write: (node, job) => writeName(view, node, job) },
  { name: "state", title: say("jobs.col_state"), make: () => h("div", { class: "two" }, stateWord("on"), h("span")), key: (job) => `${stateOf(job, view.isQueued(job))}`, write: (node, job) => writeState(view, node, job) },
  { name: "next", title: say("jobs.col_next"), make: () => two({ class: "moving countdown" }), key: (job) => `${job.state} ${job.next_run_at} ${job.running_at} ${job.waits_ms} ${view.isAsleep()} ${view.day()}`, write: (node, job) => writeNext(node, job, view.isAsleep()) },
  { name: "last", title: say("jobs.col_last"), make: () => two({ class: "moving" }), key: (job) => `${job.last_run_at} ${job.last_status}`, write: writeLast },
  { name: "result", title: say("jobs.col_result"), make: () => h("div", { class: "result" }, makeTicks(), h("span", { class: "small bad-text cut" })), key: (job) => `${job.last_runs} ${job.last_error}`, write: writeResult },
  { name: "acts", title: "", make: () => makeActs(view), key: (job) => `${job.job_id} ${job.name} ${view.isOn(job)}`, write: (node, job) => writeActs(view, node, job) },
];

function makePick(view) {
  const box = h("input", { type: "checkbox", tabindex: -1, onclick: (event) => view.pick(box.job, event.shiftKey) });
  return h("label", { class: "pick" }, box);
}

function writePick(view, node, job) {
  node.firstChild.job = job;
  node.firstChild.checked = view.isPicked(job.job_id);
  setAttribute(node.firstChild, "aria-label", say("jobs.pick", job));
}

function writeName(view, node, job) {
  setText(node.firstChild, job.name);
  setText(node.lastChild, [whenOf(job), job.user_id === view.app.me.owner ? "" : job.user_id].filter(Boolean).join(" · "));
  node.title = `${job.name}\n${whenOf(job)}`;
}

function writeState(view, node, job) {
  const [state, word, why] = stateOf(job, view.isQueued(job));
  setState(node.firstChild, state, { word });
  setText(node.lastChild, why);
}

/** Countdown and time, or how long it has been running. */
export function writeNext(node, job, isAsleep) {
  const [first, second] = node.children;
  if (job.state === "running") {
    setMoving(first, "since", job.running_at, "jobs.for");
    setText(second, job.due_at ? say("jobs.due", { time: showClock(job.due_at) }) : say("jobs.since", { time: showClock(job.running_at) }));
  } else if (isAsleep || !job.enabled || !job.next_run_at) {
    setStill(first, "–");
    setText(second, "");
  } else {
    setMoving(first, "until", job.next_run_at);
    const time = job.waits_ms ? showMinute(job.next_run_at) : showTime(job.next_run_at);
    setText(second, job.waits_ms ? say("jobs.waits", { time, wait: job.waits_ms < 60000 ? showDuration(job.waits_ms) : showAge(job.waits_ms) }) : time);
  }
}

function writeLast(node, job) {
  const [first, second] = node.children;
  if (job.last_run_at) setMoving(first, "age", job.last_run_at);
  else setStill(first, "–");
  setText(second, job.last_status ? say(`job.run_${job.last_status}`) : "");
}

function writeResult(node, job) {
  drawTicks(node.firstChild, job.last_runs ?? []);
  setText(node.lastChild, job.last_status === "error" ? job.last_error ?? "" : "");
  node.title = job.last_error ?? "";
}

function makeActs(view) {
  const job = () => node.job;
  const node = h(
    "div",
    { class: "acts" },
    h("button", { type: "button", class: "quiet square play", onclick: () => view.run(job()) }),
    h("button", { type: "button", class: "switch", role: "switch", onclick: () => view.toggle(job()) }),
    menuButton("", () => view.menu(job()), "⋯"),
  );
  return node;
}

function writeActs(view, node, job) {
  node.job = job;
  const [run, toggle, more] = node.children;
  setAttribute(run, "aria-label", say("jobs.run_named", job));
  setAttribute(run, "title", say("jobs.run"));
  setAttribute(toggle, "aria-label", say("jobs.on_named", job));
  setAttribute(toggle, "aria-checked", String(view.isOn(job)));
  setAttribute(more, "aria-label", say("jobs.more_named", job));
}

