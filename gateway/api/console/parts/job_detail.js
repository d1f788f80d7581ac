// One job in full: when, next times, message, runs. Beside the list when wide, a page on phones.
import { get } from "../api.js";
import { fill, h, icon, setAttribute, setText } from "../h.js";
import { href, sessionHref, setQuery } from "../router.js";
import { currentZone, showDuration, showFull, showTime } from "../times.js";
import { say, sayCount } from "../words.js";
import { openDialog } from "./dialog.js";
import { openEditor } from "./edit_job.js";
import { failure, loading } from "./empty.js";
import { pathOfJobs } from "./job_actions.js";
import { RUN_GLYPHS, stateOf, whenOf, writeNext } from "./job_rows.js";
import { menuButton } from "./menu.js";
import { glyph, setState, stateWord } from "./state.js";
import { timesTable } from "./when.js";

const RUNS = 20;

/** The detail of a job. `given`: app, actions, gone() after it was deleted, close() or null, isAsleep(). */
export class JobDetail {
  #given;
  #job = null;
  #seen = "";
  #runs = [];
  #next = null;
  #asked = new AbortController();
  #told = "";
  #shownRun = "";
  #opened = null;

  constructor(given) {
    this.#given = given;
    const { actions } = given;
    const job = () => this.#job;
    this.#title = h(given.close ? "h2" : "h1", {});
    this.#when = h("span", { class: "small muted wrap" });
    this.#run = h("button", { type: "button", onclick: () => actions.run(job()) }, h("span", {}, say("jobs.run")), h("kbd", { class: "hide-s" }, "r"));
    this.#switch = h("button", { type: "button", class: "switch", role: "switch", "aria-label": say("state.on"), onclick: () => actions.toggle(job()) });
    const shut = given.close ? h("button", { type: "button", class: "quiet square", "aria-label": say("frame.close"), onclick: given.close }, icon("close")) : null;
    const bar = h("div", { class: "detail-bar" }, this.#run, h("button", { type: "button", onclick: () => openEditor(given.app, { job: job() }) }, say("jobs.edit")), this.#switch, menuButton(say("jobs.more"), () => actions.menu(job(), given.gone)));
    this.#state = stateWord("on");
    this.#why = h("span", { class: "small muted wrap" });
    this.#due = h("div", { class: "due" });
    this.#body = h("div", { class: "grid dims" });
    this.#list = h("ol", { class: "runs dims" });
    this.#below = h("div");
    this.node = h(
      "section",
      { class: "panel detail", "aria-label": say("job.title") },
      h("header", {}, h("div", { class: "detail-name" }, this.#title, this.#when), shut),
      h("div", { class: "pad grid" }, bar, h("div", { class: "line dims" }, h("div", { class: "two wraps" }, this.#state, this.#why), this.#due), this.#body, h("section", {}, h("h3", {}, say("job.runs")), this.#list, this.#below)),
    );
  }

  #title;
  #when;
  #run;
  #switch;
  #state;
  #why;
  #due;
  #body;
  #list;
  #below;

  /** Shows this job as it is now. `run`: the run of the address, which opens. */
  show(job, run = "") {
    const isOther = job.job_id !== this.#job?.job_id;
    this.#job = job;
    this.#writeHead(job);
    const seen = JSON.stringify([job.job_id, job.schedule, job.next_times, job.payload, job.name, job.model, job.session, job.session_id, job.dedupe_key, job.delete_after_run, job.last_error]);
    if (seen !== this.#seen) fill(this.#body, this.#drawBody(job));
    this.#seen = seen;
    if (isOther) {
      this.#runs = [];
      fill(this.#list);
    }
    const told = `${job.job_id} ${job.running_at} ${job.last_run_at} ${job.last_status} ${job.last_runs}`;
    if (told !== this.#told) {
      this.#read();
      if (this.#opened?.runs) this.#readRun(); // it may have ended
    }
    this.#told = told;
    if (run && run !== this.#shownRun) this.#openRun(run);
    this.#shownRun = run;
  }

  close() {
    this.#asked.abort();
  }

  #writeHead(job) {
    const { actions, isAsleep } = this.#given;
    const [state, word, why] = stateOf(job, actions.isQueued(job));
    setText(this.#title, job.name);
    setText(this.#when, whenOf(job));
    setState(this.#state, state, { word });
    setText(this.#why, why);
    setAttribute(this.#switch, "aria-checked", String(actions.isOn(job)));
    setAttribute(this.#run, "aria-disabled", job.state === "running" || actions.isQueued(job) ? "true" : null);
    writeNext(this.#due, job, isAsleep());
  }

  #drawBody(job) {
    const { schedule } = job;
    const part = (title, ...body) => h("section", {}, h("h3", {}, title), body);
    const exact = schedule.cron ?? (schedule.kind === "at" ? schedule.at : "");
    const facts = [
      exact ? [say("job.expression"), h("code", { class: "mono" }, exact)] : null,
      [say("job.goes_to"), this.#drawWhere(job)],
      job.model ? [say("job.model"), job.model] : null,
      job.dedupe_key ? [say("editor.dedupe_key"), job.dedupe_key] : null,
      job.delete_after_run ? [say("job.after"), say("editor.delete_after_run")] : null,
      [say("job.made"), showTime(job.created_at)],
      job.last_error ? [say("job.last_error"), h("span", { class: "bad-text" }, job.last_error)] : null,
    ];
    return [
      job.next_times?.length && !this.#given.isAsleep() ? part(say("job.next_five"), timesTable(job.next_times.map((at) => ({ at })), schedule.tz ?? currentZone())) : null,
      part(say("job.message"), h("p", { class: "quote" }, job.payload.message)),
      h("dl", { class: "job-facts" }, facts.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    ];
  }

  #drawWhere(job) {
    const to = sessionHref({ sessionId: job.session_id, owner: job.user_id }, this.#given.app.me);
    const link = h("a", { href: to }, job.session_id);
    return [job.agent_id && job.agent_id !== job.session_id ? `${job.agent_id}, ` : "", link, " ", h("span", { class: "muted" }, say(`job.in_${job.session}`))];
  }

  get #path() {
    return pathOfJobs(this.#given.app.me);
  }

  async #read(after = null) {
    this.#asked.abort();
    this.#asked = new AbortController();
    if (!this.#runs.length) fill(this.#below, loading(3));
    try {
      const { data } = await get(`${this.#path}/runs`, { job_id: this.#job.job_id, limit: RUNS, results: 0, after }, this.#asked.signal);
      this.#runs = after ? [...this.#runs, ...data.runs] : data.runs;
      this.#next = data.next;
      this.#writeRuns();
    } catch (error) {
      if (error.name !== "AbortError") fill(this.#below, failure(error, () => this.#read(after)));
    }
  }

  #writeRuns() {
    fill(this.#list, this.#runs.map((run) => this.#drawRun(run)));
    const more = this.#next ? h("button", { type: "button", onclick: () => this.#read(this.#next) }, say("job.more_runs")) : null;
    fill(this.#below, this.#runs.length ? more : h("p", { class: "muted" }, say("job.no_runs")));
  }

  #drawRun(run) {
    const time = showTime(run.started_at ?? run.due_at);
    const notes = [run.trigger === "manual" ? say("job.by_hand") : "", tellLate(run)].filter(Boolean).join(" · ");
    const open = () => setQuery({ run: run.run_id });
    return h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "run", onclick: open, title: showFull(run.started_at ?? run.due_at) },
        glyph(RUN_GLYPHS[run.status] ?? "opening"),
        h("span", { class: "two" }, h("span", {}, time, run.status === "ok" ? null : h("span", { class: "small muted" }, ` ${say(`job.run_${run.status}`)}`), notes ? h("span", { class: "small muted" }, ` · ${notes}`) : null), h("span", {}, summaryOf(run))),
        h("span", { class: "small muted" }, run.duration_ms === null ? "" : showDuration(run.duration_ms)),
        icon("open"),
      ),
    );
  }

  async #openRun(id) {
    const body = h("div", { class: "grid" }, loading(4));
    const shut = openDialog({ title: say("job.run"), body, wide: true, actions: [{ text: say("frame.close"), value: "", focus: true }] });
    this.#opened = { id, body, runs: true };
    this.#readRun();
    await shut;
    this.#opened = null;
    setQuery({ run: "" });
  }

  #readRun() {
    const opened = this.#opened;
    get(`${this.#path}/run`, { run_id: opened.id }).then(
      ({ data }) => {
        opened.runs = data.run.status === "running";
        fill(opened.body, drawFullRun(data.run));
      },
      (error) => fill(opened.body, failure(error)),
    );
  }
}

// Somebody who runs a job by hand makes it due.
const tellLate = (run) => (run.late_ms === null || run.trigger === "manual" ? "" : say("job.late", { time: showDuration(run.late_ms) }));

const summaryOf = (run) => (run.status === "missed" ? sayCount("job.missed_times", run.missed) : run.summary || run.error || "");

function drawFullRun(run) {
  const leave = (event) => event.target.closest("dialog").close();
  const facts = [
    [say("job.result"), stateWord(RUN_GLYPHS[run.status] ?? "opening", { word: say(`job.run_${run.status}`) })],
    [say("job.due"), showFull(run.due_at)],
    run.started_at ? [say("job.started"), [showFull(run.started_at), h("span", { class: "muted" }, ` ${tellLate(run)}`)]] : null,
    run.duration_ms === null ? null : [say("job.took"), showDuration(run.duration_ms)],
    [say("job.trigger"), say(run.trigger === "manual" ? "job.by_hand" : "job.by_timer")],
    run.exchange_id ? [say("job.exchange"), h("a", { class: "mono", href: href("exchange", { id: run.exchange_id }), onclick: leave }, run.exchange_id)] : null,
    run.error ? [say("job.error"), h("span", { class: "bad-text" }, run.error)] : null,
  ];
  const output = run.result ? h("pre", { class: "output", tabindex: 0, "aria-label": say("job.output") }, run.result) : h("p", { class: "muted" }, say("job.no_output"));
  return [h("dl", { class: "job-facts" }, facts.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])), h("section", {}, h("h3", {}, say("job.output")), output)];
}
