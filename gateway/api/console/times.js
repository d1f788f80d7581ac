// Times: the server's clock, zones, countdowns. One tick a second moves all countdowns of the page.
import { setAttribute, setText, h } from "./h.js";
import { readSetting } from "./settings.js";
import { locale, say } from "./words.js";

const offsets = [];
let serverZone = "UTC";

/** Takes the server's time from a beat. The largest difference had the shortest way here.
 *
 * `anew`: one of both clocks may have been set since.
 */
export function noteServerTime(now, anew = false) {
  if (anew) offsets.length = 0;
  offsets.push(now - Date.now());
  if (offsets.length > 6) offsets.shift();
}

export function noteServerZone(zone) {
  serverZone = zone || "UTC";
}

/** UTC milliseconds by the server's clock. */
export const serverNow = () => Date.now() + (offsets.length ? Math.max(...offsets) : 0);

let stoppedAt = 0;

/** Lets the time of all figures stand still at a moment; 0 lets it go on. */
export function stopTime(at) {
  stoppedAt = at;
}

/** The time that figures are shown as of: the same, or, while the line is broken, when it broke. */
export const now = () => stoppedAt || serverNow();

/** The zones to choose from: [choice, IANA name]. */
export const zones = () => [
  ["browser", Intl.DateTimeFormat().resolvedOptions().timeZone],
  ["server", serverZone],
  ["utc", "UTC"],
];

/** The chosen zone's IANA name. */
export const currentZone = () => zones().find(([choice]) => choice === readSetting("zone"))?.[1] ?? "UTC";

const formats = new Map();

function format(name, options, zone) {
  const key = `${name} ${zone} ${locale()}`;
  if (!formats.has(key)) {
    formats.set(key, new Intl.DateTimeFormat(locale(), { ...options, timeZone: zone, hourCycle: "h23" }));
  }
  return formats.get(key);
}

const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const MINUTE = { hour: "2-digit", minute: "2-digit" };
const DAY = { year: "numeric", month: "2-digit", day: "2-digit" };

/** UTC ms of an RFC 3339 text or of ms. */
export const toMs = (time) => (typeof time === "number" ? time : Date.parse(time));

/** 08:01:12 */
export const showClock = (time, zone = currentZone()) => format("clock", CLOCK, zone).format(toMs(time));

/** 08:01 */
export const showMinute = (time, zone = currentZone()) => format("minute", MINUTE, zone).format(toMs(time));

const showDay = (time, zone) => format("day", DAY, zone).format(toMs(time));
const showWeekday = (time, zone) =>
  format("weekday", { weekday: "short", day: "numeric", month: "short" }, zone).format(toMs(time));

/** today "08:01:12", else "tomorrow 08:01" or "Fri 20 Nov 08:01". */
export function showTime(time, zone = currentZone()) {
  const day = showDay(time, zone);
  if (day === showDay(now(), zone)) return showClock(time, zone);
  if (day === showDay(now() + 86400000, zone)) return say("frame.tomorrow", { time: showMinute(time, zone) });
  if (day === showDay(now() - 86400000, zone)) return say("frame.yesterday", { time: showMinute(time, zone) });
  return `${showWeekday(time, zone)} ${showMinute(time, zone)}`;
}

/** Day, time and zone in full, for titles. */
export function showFull(time, zone = currentZone()) {
  const options = { dateStyle: "full", timeStyle: "long" };
  return format("full", options, zone).format(toMs(time));
}

/** 980 ms, 6.1 s, 1 m 07 s, 3 h 12 m, 2 d 4 h */
export function showDuration(ms) {
  if (ms < 1000) return say("frame.span_ms", { n: Math.max(0, Math.round(ms)) });
  if (ms < 9950) return say("frame.span_s", { n: (ms / 1000).toFixed(1) });
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return say("frame.span_s", { n: seconds });
  if (seconds < 3600) return say("frame.span_m", { n: Math.floor(seconds / 60), more: pad(seconds % 60) });
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1440) return say("frame.span_h", { n: Math.floor(minutes / 60), more: pad(minutes % 60) });
  return showDays(minutes / 60);
}

const showDays = (hours) => say("frame.span_d", { n: Math.floor(hours / 24), more: Math.floor(hours % 24) });

/** A moment within an exchange: 980 ms, 6.1 s, 1:00.7 */
export function showMoment(ms) {
  if (ms < 1000) return say("frame.span_ms", { n: Math.round(ms) });
  if (ms < 60000) return say("frame.span_s", { n: (Math.floor(ms / 100) / 10).toFixed(1) });
  return `${Math.floor(ms / 60000)}:${(Math.floor((ms % 60000) / 100) / 10).toFixed(1).padStart(4, "0")}`;
}

/** Time left or passed: 0:34, 17:29:02, 3 d 4 h. Never below zero. */
export function showLeft(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  if (seconds >= 86400) return showDays(seconds / 3600);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${pad(seconds % 60)}`;
  return `${Math.floor(minutes / 60)}:${pad(minutes % 60)}:${pad(seconds % 60)}`;
}

/** How long ago, short: now, 10 min, 5 h, 3 d. */
export function showAge(ms) {
  const minutes = Math.floor(ms / 60000);
  if (minutes < 1) return say("frame.age_now");
  if (minutes < 60) return say("frame.age_minutes", { n: minutes });
  if (minutes < 2880) return say("frame.age_hours", { n: Math.floor(minutes / 60) });
  return say("frame.age_days", { n: Math.floor(minutes / 1440) });
}

/** 18.2 kB */
export function showSize(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** 1,204 */
export const showNumber = (n) => n.toLocaleString(locale());

const pad = (n) => String(n).padStart(2, "0");

const MOVING = {
  until: (node) => showLeft(Number(node.dataset.until) - now()),
  due: ({ dataset }) => (Number(dataset.due) > now() ? showLeft(Number(dataset.due) - now()) : say("frame.is_due")),
  since: (node) => showLeft(now() - Number(node.dataset.since) - 999),
  age: (node) => showAge(now() - Number(node.dataset.age)),
  wait: (node) => showLeft(Number(node.dataset.wait) - Date.now()),
};

/** A text that counts by itself: kind is "until" (to a time), "due" (the same, and then
 * it is due), "since" (from it), "age", or "wait" (to a time of this browser's clock, also while the line is broken).
 *
 * `key` names a sentence with {time}: moving("until", at, "live.goes_on_in").
 */
export function moving(kind, time, key = "") {
  // Within a text that is spoken when it changes, too, each second is not.
  const role = ["until", "due", "wait"].includes(kind) ? { role: "timer", "aria-live": "off" } : {};
  const node = h("span", { class: "moving", ...role });
  setMoving(node, kind, time, key);
  return node;
}

/** Gives such a node another kind, time and sentence; `more` is what stands after it. */
export function setMoving(node, kind, time, key = "", more = "") {
  for (const other of Object.keys(MOVING)) if (other !== kind) setAttribute(node, `data-${other}`, null);
  setAttribute(node, `data-${kind}`, toMs(time));
  setAttribute(node, "data-say", key || null);
  setAttribute(node, "data-more", more || null);
  writeMoving(node, kind);
}

/** Makes it an ordinary text again. */
export function setStill(node, text) {
  for (const kind of Object.keys(MOVING)) setAttribute(node, `data-${kind}`, null);
  setText(node, text);
}

function writeMoving(node, kind) {
  const time = MOVING[kind](node);
  setText(node, (node.dataset.say ? say(node.dataset.say, { time }) : time) + (node.dataset.more ?? ""));
}

/** Calls `tell` at each full second of the server, after all moving texts were written. */
export function startTicking(tell) {
  const tick = () => {
    for (const kind of Object.keys(MOVING)) {
      // Where figures are not live, nothing goes on as if it were now.
      for (const node of document.querySelectorAll(`[data-${kind}]`))
        if (!node.closest("[data-stale]")) writeMoving(node, kind);
    }
    tell();
    setTimeout(tick, 1005 - (serverNow() % 1000));
  };
  tick();
}
