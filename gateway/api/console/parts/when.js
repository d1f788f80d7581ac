// The field When: words, a cron expression or an interval; the server says what it means while one types.
import { post } from "../api.js";
import { fill, h, setAttribute } from "../h.js";
import { currentZone, moving, now, showMinute, toMs } from "../times.js";
import { currentLanguage, locale, say } from "../words.js";

const WAIT = 250;
const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const HELPERS = ["once", "every", "days", "cron"];

/** A schedule as a person would type it. */
export function textOf({ schedule, words }) {
  if (schedule.kind === "cron") return words[currentLanguage()];
  return schedule.kind === "at" ? inputTime(toMs(schedule.at), schedule.tz ?? "UTC").replace("T", " ") : words[currentLanguage()];
}

/** "2026-11-20T10:00" on the wall clock of a zone. */
function inputTime(ms, zone) {
  const parts = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "short" });
  return parts.format(ms).replace(" ", "T");
}

/** Times in the job's zone and in the reader's, with the time left. */
export function timesTable(times, zone) {
  const mine = currentZone();
  const both = zone && zone !== mine;
  const show = (at, where, day = { weekday: "short", day: "numeric", month: "short" }) => `${new Date(at).toLocaleDateString(locale(), { ...day, timeZone: where })} ${showMinute(at, where)}`;
  const row = ({ at, clock_change: changed }) => {
    const ms = toMs(at);
    const mark = changed ? h("span", { class: "small s-holding", title: say("when.clock_change") }, ` ⚠ ${say("when.clock_change_short")}`) : null;
    return h("tr", {}, h("td", {}, show(ms, both ? zone : mine), mark), both ? h("td", { class: "muted" }, show(ms, mine, { weekday: "short" })) : null, h("td", { class: "num" }, moving("until", ms)));
  };
  const head = (text, kind) => h("th", { scope: "col", class: kind }, text.replaceAll("/", "/\u200b"));
  return h("table", { class: "table times" }, h("thead", {}, h("tr", {}, both ? head(zone) : null, head(say("when.yours", { zone: mine })), head(say("when.in"), "num"))), h("tbody", {}, times.map(row)));
}

/** The field with its zone, helpers and preview.
 *
 * `job`: whose schedule it begins with. `tell()` is called when `state` changed: { ok, schedule, waits }.
 */
export class When {
  state = { ok: false, schedule: null, waits: false };
  #tell;
  #job;
  #begun;
  #timer = 0;
  #asked = null;
  #helper = "";
  #helperBox = h("div", { class: "helper", hidden: true });
  #preview = h("div", { class: "preview", id: "when-preview", "aria-live": "polite" });

  constructor({ job = null, text = null, zone = null, tell }) {
    this.#tell = tell;
    this.#job = job;
    this.#begun = job ? textOf(job) : "";
    const type = () => this.#later();
    this.field = h("input", { id: "when", autocomplete: "off", spellcheck: "false", placeholder: say("when.example"), "aria-describedby": "when-preview", oninput: type });
    this.field.value = text ?? this.#begun;
    this.zone = h("input", { id: "zone", list: "zones", autocomplete: "off", spellcheck: "false", oninput: type });
    this.zone.value = zone ?? job?.schedule.tz ?? currentZone();
    const tabs = HELPERS.map((name) => h("button", { type: "button", class: "chip", "aria-pressed": "false", onclick: () => this.#choose(name) }, say(`when.${name}`)));
    this.#tabs = tabs;
    const zones = Intl.supportedValuesOf("timeZone").map((name) => h("option", { value: name }));
    this.node = h(
      "div",
      { class: "when grid-8" },
      h("div", { class: "field-pair" }, h("div", { class: "field" }, h("label", { for: "when" }, say("when.when")), this.field), h("div", { class: "field zone" }, h("label", { for: "zone" }, say("when.zone")), this.zone, h("datalist", { id: "zones" }, h("option", { value: "UTC" }), zones))),
      h("div", { class: "chips", role: "group", "aria-label": say("when.helpers") }, tabs),
      this.#helperBox,
      this.#preview,
    );
    this.#say("muted", say("when.hint"));
    if (this.field.value) this.#ask();
  }

  #tabs;

  /** Whether another schedule than the job's stands there. */
  isChanged() {
    return !this.#job || this.field.value.trim() !== this.#begun || this.zone.value.trim() !== (this.#job.schedule.tz ?? currentZone());
  }

  close() {
    clearTimeout(this.#timer);
    this.#asked?.abort();
  }

  #set(state) {
    this.state = { ok: false, schedule: null, waits: false, ...state };
    this.#tell();
  }

  #say(kind, text) {
    fill(this.#preview, h("p", { class: kind }, text));
  }

  #later() {
    this.close();
    this.#set({ waits: true });
    this.#timer = setTimeout(() => this.#ask(), WAIT);
  }

  async #ask() {
    const when = this.field.value.trim();
    setAttribute(this.field, "aria-invalid", null);
    if (!when) {
      this.#say("muted", say("when.hint"));
      return this.#set({});
    }
    this.#asked = new AbortController();
    this.state = { ...this.state, waits: true };
    const tz = this.zone.value.trim() || null;
    const body = this.isChanged() ? { when, ...(tz && { tz }) } : { schedule: this.#job.schedule };
    try {
      const { data } = await post("/api/cron/preview", body, { signal: this.#asked.signal });
      this.#show(data, tz);
      this.#set({ ok: true, schedule: data.schedule });
    } catch (error) {
      if (error.name === "AbortError") return;
      const isPast = !this.isChanged(); // A one-time job that has run may keep its time.
      setAttribute(this.field, "aria-invalid", isPast ? null : "true");
      this.#say(isPast ? "muted" : "bad-text", error.message);
      this.#set({ ok: isPast });
    }
  }

  #show(data, tz) {
    const zone = data.schedule.tz ?? data.tz ?? tz ?? currentZone();
    const cron = data.schedule.cron && data.schedule.cron !== data.words.en ? h("code", { class: "mono small muted" }, data.schedule.cron) : null;
    fill(this.#preview, h("p", { class: "line start" }, h("b", {}, data.words[currentLanguage()]), cron), timesTable(data.times, zone));
  }

  #write(text) {
    this.field.value = text;
    this.#later();
  }

  #choose(name) {
    this.#helper = this.#helper === name ? "" : name;
    this.#tabs.forEach((tab, i) => setAttribute(tab, "aria-pressed", String(HELPERS[i] === this.#helper)));
    this.#helperBox.hidden = !this.#helper;
    if (this.#helper) fill(this.#helperBox, MAKE[name]((text) => this.#write(text), this.zone.value || "UTC"));
    this.#helperBox.querySelector("input, select, button")?.focus();
  }
}

const MAKE = { once: makeOnce, every: makeEvery, days: makeDays, cron: makeCron };

function makeOnce(write, zone) {
  let begin;
  try {
    begin = inputTime(now() + 3600000, zone);
  } catch {
    begin = inputTime(now() + 3600000, "UTC");
  }
  const field = h("input", { type: "datetime-local", "aria-label": say("when.once"), oninput: () => field.value && write(field.value.replace("T", " ")) });
  field.value = begin;
  write(begin.replace("T", " "));
  return field;
}

function makeEvery(write) {
  const n = h("input", { type: "number", min: 1, max: 9999, "aria-label": say("when.number"), oninput: () => tell() });
  n.value = 15;
  const unit = h("select", { "aria-label": say("when.unit"), onchange: () => tell() }, ["seconds", "minutes", "hours", "days"].map((name) => h("option", { value: name }, say(`when.${name === "days" ? "unit_days" : name}`))));
  unit.value = "minutes";
  const tell = () => n.value && write(say(`when.every_${unit.value}`, { n: n.value }));
  tell();
  return [n, unit];
}

function makeDays(write) {
  const chosen = new Set(DAYS.slice(0, 5));
  const time = h("input", { type: "time", "aria-label": say("when.time"), oninput: () => tell() });
  time.value = "09:00";
  const flip = (day, button) => {
    if (!chosen.delete(day)) chosen.add(day);
    setAttribute(button, "aria-pressed", String(chosen.has(day)));
    tell();
  };
  const buttons = DAYS.map((day) => {
    const button = h("button", { type: "button", class: "chip day", "aria-pressed": String(chosen.has(day)), onclick: () => flip(day, button) }, say(`when.${day}`));
    return button;
  });
  const tell = () => {
    const days = DAYS.filter((day) => chosen.has(day));
    const key = days.length === 7 ? "when.daily_at" : days.join() === "mon,tue,wed,thu,fri" ? "when.weekdays_at" : "when.days_at";
    if (days.length && time.value) write(say(key, { days: days.map((day) => say(`when.in_${day}`)).join(say("when.comma")), time: time.value }));
  };
  tell();
  return [h("span", { class: "days" }, buttons), time];
}

function makeCron(write) {
  const names = ["minute", "hour", "day", "month", "weekday"];
  const fields = ["0", "9", "*", "*", "1-5"].map((value, i) => {
    const field = h("input", { class: "mono", "aria-label": say(`when.cron_${names[i]}`), oninput: () => tell() });
    field.value = value;
    return field;
  });
  const tell = () => write(fields.map((field) => field.value.trim() || "*").join(" "));
  tell();
  return h("div", { class: "cron" }, fields.map((field, i) => h("label", { class: "small muted" }, field, say(`when.cron_${names[i]}`))));
}
