// Jobs: the load of the next day, one line a job, and the chosen one beside the list.
import { get } from "../api.js";
import { fill, h, setAttribute, setText } from "../h.js";
import { openEditor } from "../parts/edit_job.js";
import { empty, failure, loading } from "../parts/empty.js";
import { makeHeat } from "../parts/heat.js";
import { JobActions, pathOfJobs } from "../parts/job_actions.js";
import { JobDetail } from "../parts/job_detail.js";
import { JOB_COLUMNS } from "../parts/job_rows.js";
import { List } from "../parts/list.js";
import { go, setQuery } from "../router.js";
import { now, showNumber } from "../times.js";
import { say, sayCount } from "../words.js";

const FIRST = 60;
const STATES = ["", "on", "failing", "running", "off"];
const SORTS = ["next", "name", "last", "created"];
const WIDE = matchMedia("(min-width: 73.8125em)");
const HAS = {
  __proto__: null, // an address may name any member
  "": () => true,
  on: (job) => job.enabled,
  failing: (job) => job.enabled && job.consecutive_failures > 0,
  running: (job) => job.state === "running",
  off: (job) => !job.enabled,
};
const LATER = "9";
const ORDERS = {
  next: (job) => (job.state === "running" ? "" : job.next_run_at ?? LATER),
  name: (job) => job.name.toLowerCase(),
  created: (job) => job.created_at,
};

export function createPage(app) {
  const view = { app, query: new URLSearchParams(), first: null, failed: null, picked: new Set(), detail: null, stop: new AbortController() };
  return {
    topics: () => ["jobs"],
    mount(main, query) {
      view.query = query;
      drawPage(view, main);
      readFirst(view);
      view.heat.read();
      view.minute = setInterval(() => document.hidden || view.heat.read(), 60000);
      write(view, true);
    },
    update(change) {
      if (change.query) takeQuery(view, change.query);
      if (change.topics.has("jobs")) readHeatSoon(view);
      if (change.topics.has("jobs") || change.topics.has("summary")) write(view);
      else if (change.tick && view.actions.isWaiting()) write(view);
      else if (change.tick) view.list.draw(); // ages grow
    },
    leave() {
      view.stop.abort();
      view.list.close();
      view.heat.close();
      view.detail?.close();
      clearInterval(view.minute);
      clearTimeout(view.later);
      clearTimeout(view.typing);
    },
  };
}

const of = (view, name) => (view.query.get(name) ?? "").trim();
const needs = (view) => view.app.store.row("summary", "all")?.needs ?? [];
const sleepOf = (view) => needs(view).find((one) => one.kind === "scheduler_off" || one.kind === "draining")?.kind ?? "";

function drawPage(view, main) {
  const { app } = view;
  const actions = (view.actions = new JobActions(app, (force) => write(view, force)));
  view.search = h("input", { type: "search", placeholder: say("jobs.search"), "aria-label": say("jobs.search"), oninput: () => search(view) });
  view.search.value = of(view, "q");
  view.heat = makeHeat(pathOfJobs(app.me));
  view.banner = h("div", { class: "job-banner dims", role: "status", hidden: true });
  view.chips = h("div", { class: "chips", role: "group", "aria-label": say("live.filter") }, STATES.map((state) => h("button", { type: "button", class: "chip", onclick: () => setQuery({ state }) }, h("span", {}, say(`jobs.chip_${state || "all"}`)), h("b", {}))));
  view.sort = h("select", { "aria-label": say("jobs.sort"), onchange: () => setQuery({ sort: view.sort.value === "next" ? "" : view.sort.value }) }, SORTS.map((name) => h("option", { value: name }, say(`jobs.sort_${name}`))));
  view.bulk = h("div", { class: "bulk", role: "group", "aria-label": say("jobs.picked"), hidden: true });
  const columns = JOB_COLUMNS({
    app, run: (job) => actions.run(job), toggle: (job) => actions.toggle(job), menu: (job) => actions.menu(job, () => isOpen(view, job) && close(view)),
    isQueued: (job) => actions.isQueued(job), isOn: (job) => actions.isOn(job), isAsleep: () => sleepOf(view) !== "", day: () => Math.floor(now() / 3600000),
    rowOf: (node) => view.list.rowOf(node), isPicked: (id) => view.picked.has(id), pick: (job, range) => pick(view, job, range),
  });
  view.list = new List({ class: "jobs-list", label: say("jobs.title"), columns, key: (job) => job.job_id, open: (job) => open(view, job), selected: (job) => isOpen(view, job), height: 56, narrowHeight: 110, spare: 1 });
  view.below = h("div");
  view.count = h("p", { class: "small muted list-count dims" });
  view.aside = h("div", { class: "aside", hidden: true });
  view.split = h("div", { class: "job-split" }, h("section", { class: "panel" }, view.bulk, view.list.node, view.below, view.count), view.aside);
  main.append(
    h("div", { class: "head" }, h("h1", {}, say("jobs.title")), h("div", { class: "right" }, view.search, h("button", { type: "button", class: "primary", onclick: () => create(view) }, say("jobs.new"), h("kbd", { class: "hide-s" }, "n")))),
    h("div", { class: "grid" }, view.banner, view.heat.node, h("div", { class: "line over-list" }, view.chips, h("label", { class: "sort small muted hide-s" }, say("jobs.sort"), view.sort)), view.split),
  );
  WIDE.addEventListener("change", () => write(view), { signal: view.stop.signal });
  bindKeys(view);
}

function bindKeys(view) {
  const { list, actions } = view;
  const inList = (by) => () => list.node.contains(document.activeElement) && (list.step(by), true);
  const opened = () => rowOf(view, of(view, "id"));
  const job = () => (list.node.contains(document.activeElement) ? list.activeRow() : opened()) ?? opened() ?? list.activeRow();
  const withJob = (run) => () => (job() ? (run(job()), true) : false);
  view.app.keys.setPage([
    { key: "j", say: "frame.key_move", run: () => list.step(1) },
    { key: "k", run: () => list.step(-1) },
    { key: "ArrowDown", run: inList(1) },
    { key: "ArrowUp", run: inList(-1) },
    { key: "Enter", say: "frame.key_open", run: () => false },
    { key: "n", say: "jobs.key_new", run: () => create(view) },
    { key: "r", say: "jobs.key_run", run: withJob((one) => actions.run(one)) },
    { key: "e", say: "jobs.key_toggle", run: withJob((one) => actions.toggle(one)) },
    { key: "x", say: "jobs.key_pick", run: withJob((one) => pick(view, one)) },
    { key: "Escape", say: "frame.key_back", run: () => back(view) },
  ]);
}

// Esc goes back one step: the detail, the selection, the search, the filter.
function back(view) {
  if (of(view, "id")) return close(view);
  if (view.picked.size) return view.picked.clear(), write(view);
  setQuery({ q: "", state: "" });
}

const isOpen = (view, job) => of(view, "id") === job.job_id;
const open = (view, job) => (WIDE.matches ? setQuery({ id: isOpen(view, job) ? "" : job.job_id }) : go("job", { id: job.job_id }));
const close = () => setQuery({ id: "", run: "" });

function create(view) {
  const done = async (job) => {
    if (!hasAll(view)) await readFirst(view);
    if (WIDE.matches) setQuery({ id: job.job_id });
    write(view, true);
  };
  openEditor(view.app, { done });
}

function search(view) {
  clearTimeout(view.typing);
  view.typing = setTimeout(() => setQuery({ q: view.search.value }), 150);
}

function takeQuery(view, query) {
  const isSame = ["q", "state", "sort"].every((name) => (query.get(name) ?? "") === (view.query.get(name) ?? ""));
  view.query = query;
  if (document.activeElement !== view.search) view.search.value = of(view, "q");
  if (!isSame && !view.app.store.has("jobs")) readFirst(view);
  write(view, !isSame);
}

function pick(view, job, range = false) {
  const rows = chooseRows(view);
  const at = rows.findIndex((one) => one.job_id === job.job_id);
  const from = range && view.lastPick ? rows.findIndex((one) => one.job_id === view.lastPick) : at;
  const on = !view.picked.has(job.job_id);
  for (const one of rows.slice(Math.min(from, at), Math.max(from, at) + 1)) on ? view.picked.add(one.job_id) : view.picked.delete(one.job_id);
  view.lastPick = job.job_id;
  write(view);
}

// The first rows come by themselves; the feed brings all, and from then on what changes.
async function readFirst(view) {
  try {
    const { data } = await get(`${pathOfJobs(view.app.me)}/list`, { limit: FIRST, q: of(view, "q"), state: of(view, "state"), sort: sortOf(view) === "last" ? "-last" : sortOf(view) }, view.stop.signal);
    Object.assign(view, { first: data, failed: null });
  } catch (error) {
    if (error.name === "AbortError") return;
    view.failed = error;
  }
  write(view);
}

function readHeatSoon(view) {
  view.later ??= setTimeout(() => {
    view.later = null;
    view.heat.read();
  }, 3000);
}

const sortOf = (view) => (SORTS.includes(of(view, "sort")) ? of(view, "sort") : "next");
const hasAll = (view) => view.app.store.has("jobs");
const jobsOf = (view) => (hasAll(view) ? [...view.app.store.rows("jobs").values()] : view.first?.jobs ?? []);
const rowOf = (view, id) => (hasAll(view) ? view.app.store.row("jobs", id) : view.first?.jobs.find((job) => job.job_id === id));

// A row that changes is another object, so its text is made once.
const texts = new WeakMap();

function textOf(job) {
  if (!texts.has(job)) texts.set(job, [job.name, job.payload.message, job.session_id, job.agent_id, job.job_id, job.user_id, job.words.en, job.words.zh, job.schedule.tz].join("\n").toLowerCase());
  return texts.get(job);
}

function findJobs(view) {
  const word = of(view, "q").toLowerCase();
  return word ? jobsOf(view).filter((job) => textOf(job).includes(word)) : jobsOf(view);
}

function chooseRows(view, found = findJobs(view)) {
  const rows = found.filter(HAS[of(view, "state")] ?? HAS[""]);
  const sort = sortOf(view);
  if (sort === "last") return rows.sort((a, b) => compare(b.last_run_at ?? "", a.last_run_at ?? ""));
  const order = ORDERS[sort];
  return rows.sort((a, b) => compare(order(a), order(b)) || compare(a.name, b.name));
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

function write(view, force = false) {
  if (view.stop.signal.aborted) return;
  const found = findJobs(view);
  const rows = chooseRows(view, found);
  view.list.show(rows, { force });
  writeChips(view, found);
  writeBanner(view);
  writeBulk(view);
  writeBelow(view, rows.length);
  writeDetail(view);
}

function writeChips(view, found) {
  const totals = hasAll(view) ? null : view.first?.totals;
  STATES.forEach((state, i) => {
    const n = totals ? totals[state || "all"] : found.filter(HAS[state]).length;
    setText(view.chips.children[i].lastChild, hasAll(view) || totals ? showNumber(n) : "");
    setAttribute(view.chips.children[i], "aria-pressed", String(of(view, "state") === state));
  });
  view.sort.value = sortOf(view);
}

function writeBanner(view) {
  const sleep = sleepOf(view);
  view.banner.hidden = !sleep;
  if (sleep) setText(view.banner, say(`jobs.${sleep}`));
}

function writeBulk(view) {
  const ids = [...view.picked].filter((id) => rowOf(view, id));
  const seen = ids.join();
  view.bulk.hidden = ids.length === 0;
  if (view.bulk.dataset.seen === seen) return;
  view.bulk.dataset.seen = seen;
  const act = async (action) => {
    const done = await view.actions.bulk(action, ids);
    if (done.length) view.picked.clear();
    write(view);
  };
  const button = (action, kind = null) => h("button", { type: "button", class: kind, onclick: () => act(action) }, say(`jobs.do_${action}`));
  const all = () => {
    for (const job of chooseRows(view)) view.picked.add(job.job_id);
    write(view);
  };
  const none = () => {
    view.picked.clear();
    write(view);
  };
  fill(view.bulk, h("b", {}, sayCount("jobs.n_picked", ids.length)), button("run"), button("enable"), button("disable"), button("remove", "danger"), h("button", { type: "button", class: "link", onclick: all }, say("jobs.pick_all")), h("button", { type: "button", class: "link", onclick: none }, say("jobs.pick_none")));
}

function writeBelow(view, count) {
  const isLoaded = hasAll(view) || view.first;
  const total = hasAll(view) ? view.app.store.rows("jobs").size : view.first?.totals.all ?? 0;
  const what = count ? "" : view.failed && !isLoaded ? "failed" : !isLoaded ? "loading" : of(view, "q") || of(view, "state") ? "none_fits" : "none";
  view.list.node.hidden = what !== "";
  view.count.hidden = !count;
  setText(view.count, sayCount("jobs.count", total, { shown: showNumber(count) }));
  if (view.below.dataset.what === what) return;
  view.below.dataset.what = what;
  fill(view.below, makeBelow(view, what));
}

function makeBelow(view, what) {
  if (what === "failed") return failure(view.failed, () => readFirst(view));
  if (what === "loading") return loading(8);
  if (what === "none_fits") return empty(say("live.none_fits"), h("button", { type: "button", onclick: () => setQuery({ state: "", q: "" }) }, say("live.show_all")));
  return what ? empty(say("jobs.none"), h("button", { type: "button", class: "primary", onclick: () => create(view) }, say("jobs.new"))) : null;
}

function writeDetail(view) {
  const id = of(view, "id");
  const job = id ? rowOf(view, id) : null;
  if (id && !WIDE.matches) return moveToPage(view, id);
  setAttribute(view.split, "class", job || (id && hasAll(view)) ? "job-split has-detail" : "job-split");
  view.aside.hidden = !id;
  if (!job) {
    view.detail?.close();
    view.detail = null;
    if (id && hasAll(view)) fill(view.aside, h("div", { class: "panel" }, empty(say("job.gone"), h("button", { type: "button", onclick: close }, say("frame.close")))));
    return;
  }
  if (!view.detail) {
    view.detail = new JobDetail({ app: view.app, actions: view.actions, gone: close, close, isAsleep: () => sleepOf(view) !== "" });
    fill(view.aside, view.detail.node);
  }
  view.detail.show(job, of(view, "run"));
}

// Too narrow for two columns: the job has a page of its own.
function moveToPage(view, id) {
  const run = of(view, "run");
  setQuery({ id: "", run: "" });
  go("job", { id, run });
}
