// What a person does with jobs: run, switch, delete, several at once. Refusals are told, switches go back.
import { post } from "../api.js";
import { now, toMs } from "../times.js";
import { say, sayCount } from "../words.js";
import { confirmDialog } from "./dialog.js";
import { noteJob, openEditor } from "./edit_job.js";
import { copyText, toast, toastError } from "./toast.js";

const QUEUED_FOR = 60000;
const MOST = 500;

/** Where this person's jobs are found: an admin has those of all. */
export const pathOfJobs = (me) => (me.admin ? "/api/admin/cron" : "/api/cron");

/** Actions for one page. `changed(force)` draws it again; `force`: although a person points at the list. */
export class JobActions {
  #app;
  #changed;
  #queued = new Map();
  #wanted = new Map();

  constructor(app, changed) {
    this.#app = app;
    this.#changed = changed;
  }

  /** Whether it was asked to run and has not begun yet. */
  isQueued(job) {
    const since = this.#queued.get(job.job_id);
    if (!since) return false;
    const begun = Math.max(toMs(job.running_at ?? 0) || 0, toMs(job.last_run_at ?? 0) || 0);
    if (job.state !== "running" && begun <= since.begun && now() - since.at < QUEUED_FOR) return true;
    this.#queued.delete(job.job_id);
    return false;
  }

  /** Whether anything waits to be seen in the rows. */
  isWaiting() {
    return this.#queued.size > 0;
  }

  /** Whether its switch is on: what was asked for, until the server's row says the same. */
  isOn(job) {
    const wanted = this.#wanted.get(job.job_id);
    if (wanted !== undefined && wanted === job.enabled) this.#wanted.delete(job.job_id);
    return this.#wanted.get(job.job_id) ?? job.enabled;
  }

  async run(job) {
    if (job.state === "running" || this.isQueued(job)) return;
    const begun = toMs(job.last_run_at ?? 0) || 0;
    this.#queued.set(job.job_id, { at: now(), begun });
    this.#changed();
    try {
      const { data } = await this.#send(job, "run");
      if (!data.queued) throw new Error(data.reason ?? say("jobs.not_queued"));
    } catch (error) {
      this.#queued.delete(job.job_id);
      this.#changed();
      toastError(error);
    }
  }

  async toggle(job, isUndo = false) {
    const on = !this.isOn(job);
    this.#wanted.set(job.job_id, on);
    this.#changed();
    try {
      const { data } = await this.#send(job, on ? "enable" : "disable");
      noteJob(this.#app.store, job.job_id, data.job);
      if (!on && !isUndo) toast(say("jobs.is_off", job), { undo: () => this.toggle({ ...job, enabled: false }, true), seconds: 6 });
    } catch (error) {
      toastError(error);
      this.#wanted.delete(job.job_id);
    }
    this.#changed();
    setTimeout(() => this.#wanted.delete(job.job_id) && this.#changed(), 10000);
  }

  /** Asks with its name; resolves whether it is gone. */
  async remove(job) {
    if (!(await confirmDialog({ title: say("jobs.delete_title", job), text: say("jobs.delete_text"), yes: say("jobs.delete") }))) return false;
    try {
      await this.#send(job, "remove");
      noteJob(this.#app.store, job.job_id, null);
      this.#changed(true);
      toast(say("jobs.is_deleted", job));
      return true;
    } catch (error) {
      toastError(error);
      return false;
    }
  }

  /** The same with several; resolves the ids with which it was done. */
  async bulk(action, ids, isUndo = false) {
    if (action === "remove" && !(await confirmDialog({ title: sayCount("jobs.delete_several", ids.length), text: say("jobs.delete_text"), yes: say("jobs.delete") }))) return [];
    const done = [];
    const failed = [];
    const at = now();
    try {
      for (let i = 0; i < ids.length; i += MOST) {
        const { data } = await post(`${pathOfJobs(this.#app.me)}/bulk`, { action, job_ids: ids.slice(i, i + MOST) });
        done.push(...data.done);
        failed.push(...data.failed);
      }
    } catch (error) {
      toastError(error);
    }
    if (action === "remove") for (const id of done) noteJob(this.#app.store, id, null);
    if (action === "run") for (const id of done) this.#queued.set(id, { at, begun: at - 100 });
    const undo = action === "disable" && !isUndo && done.length ? () => this.bulk("enable", done, true) : null;
    if (done.length) toast(sayCount(`jobs.bulk_${action}`, done.length), { undo, seconds: 6 });
    if (failed.length) toast(sayCount("jobs.bulk_failed", failed.length, { why: failed[0].message }), { bad: true, seconds: 8 });
    this.#changed(action === "remove");
    return done;
  }

  /** The items of a job's menu. `gone()` runs after it was deleted. */
  menu(job, gone = () => {}) {
    return [
      { text: say("jobs.edit"), run: () => openEditor(this.#app, { job }) },
      { text: say("jobs.duplicate"), run: () => openEditor(this.#app, { job, copy: true, done: () => this.#changed(true) }) },
      { text: say("jobs.copy_id"), run: () => copyText(job.job_id) },
      { text: say("jobs.delete_menu"), danger: true, run: async () => (await this.remove(job)) && gone() },
    ];
  }

  // An admin reaches the jobs of others by other paths.
  #send(job, action) {
    const body = { job_id: job.job_id };
    if (job.user_id === this.#app.me.owner) return post(`/api/cron/${action}`, body);
    return action === "run" ? post("/api/admin/cron/run", body) : post("/api/admin/cron/update", { ...body, action });
  }
}
