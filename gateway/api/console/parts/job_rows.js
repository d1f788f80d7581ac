// A job in a list: its columns, its state in words, its last runs as ticks.
import { h, setAttribute, setText } from "../h.js";
import { menuButton } from "./menu.js";
import { shapeOf } from "./state.js";
import { currentZone, now, setMoving, setStill, showAge, showClock, showDuration, showMinute, showTime, toMs } from "../times.js";
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
  if (job.schedule.kind === "at" && job.last_status === "ok") return say("jobs.after_once");
  if (job.disabled_reason) return job.disabled_reason;
  return say("jobs.by_owner", { time: showDate(job.updated_at) });
}

/** The line below the state: [glyph, word, why]. */
export function stateOf(job, queued = false) {
  if (queued && job.state !== "running") return ["opening", say("jobs.queued"), ""];
  if (job.state === "off") return [job.disabled_reason && job.consecutive_failures > 0 ? "failed" : "off", say("state.off"), whyOff(job)];
  if (job.state === "failing") return ["failing", say("state.failing"), sayCount("jobs.in_a_row", job.consecutive_failures)];
  return [job.state, say(`state.${job.state}`), job.state === "running" && job.consecutive_failures > 0 ? sayCount("jobs.in_a_row", job.consecutive_failures) : ""];
}

/** What each status of a run looks like: glyph, and [top, height] of its tick. */
export const RUN_GLYPHS = { ok: "done", error: "failed", running: "relaying", skipped: "opening", interrupted: "failed", missed: "gone" };
const TICKS = { done: [5, 9], failed: [2, 12], relaying: [5, 9], opening: [8, 6], gone: [10, 4] };

// The last 12 runs; what failed stands out by height, too. A background, so that it is one element.
function drawTicks(node, statuses) {
  const tick = (status, i) => {
    const shape = RUN_GLYPHS[status] ?? "opening";
    const [top, tall] = TICKS[shape];
    return `linear-gradient(var(--${shape}-fill) 0 0) ${i * 7}px ${top}px / 5px ${tall}px no-repeat`;
  };
  node.style.background = statuses.map(tick).join();
  node.style.width = `${statuses.length * 7}px`;
  const bad = statuses.filter((status) => RUN_GLYPHS[status] === "failed").length;
  setAttribute(node, "aria-label", statuses.length ? say("jobs.ticks", { n: statuses.length, bad }) : say("jobs.never"));
}

const line = (text) => text.replace(/\s+/g, " ");

/** The columns, with few elements: a cell's second line is text after a line break, its glyph a part of the style.
 *
 * `view`: app, rowOf(node), day(), isPicked(id), isQueued(job), isOn(job), isAsleep() (no job runs), and what a person does: pick, run,
 * toggle, menu.
 */
export const JOB_COLUMNS = (view) => [
  { name: "pick", title: "", make: () => makePick(view), key: (job) => `${job.job_id} ${view.isPicked(job.job_id)} ${job.name}`, write: (node, job) => writePick(view, node, job) },
  { name: "name", title: say("jobs.col_name"), text: (job) => `${line(job.name)}\n${whenOf(job)}${job.user_id === view.app.me.owner ? "" : ` · ${job.user_id}`}` },
  { name: "state", title: say("jobs.col_state"), key: (job) => stateOf(job, view.isQueued(job)).join(), write: (cell, job) => writeState(view, cell, job) },
  { name: "next", title: say("jobs.col_next"), key: (job) => `${job.state} ${job.next_run_at} ${job.running_at} ${job.waits_ms} ${view.isAsleep()} ${view.day()}`, write: (cell, job) => writeNext(cell, job, view.isAsleep()) },
  { name: "last", title: say("jobs.col_last"), text: (job) => (job.last_run_at ? `${showAge(now() - toMs(job.last_run_at))}\n${job.last_status ? say(`job.run_${job.last_status}`) : ""}` : "–") },
  { name: "result", title: say("jobs.col_result"), make: () => [h("span", { class: "ticks", role: "img" }), document.createTextNode("")], key: (job) => `${job.last_runs} ${job.last_error} ${job.last_status}`, write: writeResult },
  { name: "acts", title: "", make: () => makeActs(view), key: (job) => `${job.job_id} ${job.name} ${view.isOn(job)}`, write: (node, job) => writeActs(view, node.parentNode, job) },
];

function makePick(view) {
  const box = h("input", { type: "checkbox", tabindex: -1, onclick: (event) => view.pick(view.rowOf(box), event.shiftKey) });
  return box;
}

function writePick(view, box, job) {
  box.checked = view.isPicked(job.job_id);
  setAttribute(box, "aria-label", say("jobs.pick", job));
}

function writeState(view, cell, job) {
  const [state, word, why] = stateOf(job, view.isQueued(job));
  setText(cell, ` ${word}\n${why}`);
  setAttribute(cell, "class", `c-state s-${shapeOf(state)}`);
}

/** Countdown and time, or how long it has been running, as two lines of text. */
export function writeNext(cell, job, isAsleep) {
  if (job.state === "running") return setMoving(cell, "since", job.running_at, "jobs.for", `\n${say("jobs.due", { time: showClock(job.run_due_at ?? job.running_at) })}`);
  if (isAsleep || !job.enabled || !job.next_run_at) return setStill(cell, "–");
  const wait = job.waits_ms < 60000 ? showDuration(job.waits_ms ?? 0) : showAge(job.waits_ms);
  setMoving(cell, "until", job.next_run_at, "", `\n${job.waits_ms ? say("jobs.waits", { time: showMinute(job.next_run_at), wait }) : showTime(job.next_run_at)}`);
}

function writeResult(ticks, job) {
  drawTicks(ticks, job.last_runs ?? []);
  ticks.nextSibling.data = job.last_status === "error" ? `\n${line(job.last_error ?? "")}` : "";
  setAttribute(ticks.parentNode, "title", job.last_error);
}

function makeActs(view) {
  const job = () => view.rowOf(run); // as it is now, though none of these was written since
  const run = h("button", { type: "button", class: "quiet square play", title: say("jobs.run"), onclick: () => view.run(job()) });
  return [run, h("button", { type: "button", class: "switch", role: "switch", onclick: () => view.toggle(job()) }), menuButton("", () => view.menu(job()), "⋯")];
}

function writeActs(view, cell, job) {
  const [run, toggle, more] = cell.children;
  setAttribute(run, "aria-label", say("jobs.run_named", job));
  setAttribute(toggle, "aria-label", say("jobs.on_named", job));
  setAttribute(toggle, "aria-checked", String(view.isOn(job)));
  setAttribute(more, "aria-label", say("jobs.more_named", job));
}
