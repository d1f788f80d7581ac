// One job as a page: what Jobs shows beside its list when there is room.
import { get } from "../api.js";
import { fill, h, icon } from "../h.js";
import { empty, failure, loading } from "../parts/empty.js";
import { JobActions, pathOfJobs } from "../parts/job_actions.js";
import { JobDetail } from "../parts/job_detail.js";
import { openEditor } from "../parts/edit_job.js";
import { go, href } from "../router.js";
import { say } from "../words.js";

export function createPage(app) {
  const view = { app, query: new URLSearchParams(), job: null, detail: null, box: h("div", { class: "job-page" }) };
  view.actions = new JobActions(app, () => write(view));
  return {
    topics: (query) => [`job:${query.get("id") ?? ""}`],
    mount(main, query) {
      view.query = query;
      main.append(h("div", { class: "head" }, h("a", { class: "button quiet", href: href("jobs") }, icon("back"), say("jobs.title"))), view.box);
      fill(view.box, loading(6));
      bindKeys(view);
      read(view);
    },
    update(change) {
      if (change.query) takeQuery(view, change.query);
      const topic = `job:${view.query.get("id")}`;
      const told = change.topics.has(topic) ? app.store.row(topic, "job") : null;
      if (told) view.job = told;
      else if (change.topics.has(topic) && app.store.has(topic) && view.job && view.box.isConnected) read(view);
      if (told || change.tick) write(view);
    },
    leave() {
      view.job = null; // what still comes is not shown
      view.left = true;
      view.detail?.close();
    },
  };
}

function takeQuery(view, query) {
  const isOther = query.get("id") !== view.query.get("id");
  view.query = query;
  if (isOther) {
    view.job = null;
    read(view);
  }
  write(view);
}

async function read(view) {
  try {
    const { data } = await get(`${pathOfJobs(view.app.me)}/get`, { job_id: view.query.get("id") ?? "" });
    if (view.left) return;
    view.job = data.job;
    write(view);
  } catch (error) {
    if (error.status === 404) fill(view.box, h("div", { class: "panel" }, empty(say("job.gone"), h("a", { class: "button", href: href("jobs") }, say("jobs.title")))));
    else fill(view.box, failure(error, () => read(view)));
    view.detail = null;
  }
}

const isAsleep = (view) => (view.app.store.row("summary", "all")?.needs ?? []).some((one) => one.kind === "scheduler_off" || one.kind === "draining");

function write(view) {
  if (!view.job) return;
  if (!view.detail) {
    view.detail = new JobDetail({ app: view.app, actions: view.actions, gone: () => go("jobs"), close: null, isAsleep: () => isAsleep(view) });
    fill(view.box, view.detail.node);
  }
  document.title = `${view.job.name} · Holdgate`;
  view.detail.show(view.job, view.query.get("run") ?? "");
}

function bindKeys(view) {
  const withJob = (run) => () => view.job && run(view.job);
  view.app.keys.setPage([
    { key: "r", say: "jobs.key_run", run: withJob((job) => view.actions.run(job)) },
    { key: "e", say: "jobs.key_toggle", run: withJob((job) => view.actions.toggle(job)) },
    { key: "n", say: "jobs.key_new", run: () => openEditor(view.app, { done: (job) => go("job", { id: job.job_id }) }) },
    { key: "Escape", say: "frame.key_back", run: () => go("jobs") },
  ]);
}
