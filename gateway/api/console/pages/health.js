// Health: upstreams, store, clock, scheduler, limits; figures over time; usage.
import { get } from "../api.js";
import { fill, h, setAttribute, setText } from "../h.js";
import { empty, failure, loading } from "../parts/empty.js";
import { makePlots } from "../parts/plots.js";
import { stateWord } from "../parts/state.js";
import { setQuery } from "../router.js";
import { moving, showDuration, showNumber, showSize, showTime } from "../times.js";
import { say, sayOr } from "../words.js";

const WINDOWS = ["hour", "day"];
const STEPS = { hour: 10000, day: 60000 };

export function createPage(app) {
  const view = { app, query: new URLSearchParams(), readAt: 0, seen: "", asked: null, used: "" };
  return {
    topics: () => (app.me.admin ? ["health"] : []),
    mount(main, query) {
      view.query = query;
      drawPage(view, main);
      if (app.me.admin) writeHealth(view);
      read(view);
    },
    update(change) {
      if (change.query) {
        view.query = change.query;
        writeWindow(view);
      }
      if (change.topics.has("health")) writeHealth(view);
      const isOld = change.tick && performance.now() - view.readAt > STEPS[windowOf(view)];
      if (change.query || change.back || isOld) read(view);
    },
    leave() {
      view.asked?.abort();
    },
  };
}

const windowOf = (view) => (WINDOWS.includes(view.query.get("window")) ? view.query.get("window") : "hour");

function drawPage(view, main) {
  view.now = h("div", { class: "grid health-now" });
  view.windows = h(
    "div",
    { class: "chips", role: "group", "aria-label": say("health.window") },
    WINDOWS.map((name) =>
      h(
        "button",
        { type: "button", class: "chip", onclick: () => setQuery({ window: name }) },
        say(`health.window_${name}`),
      ),
    ),
  );
  view.since = h("span", { class: "small muted" });
  view.plots = makePlots();
  view.plotsBody = h("div", { class: "pad" }, loading(6));
  view.usage = h("div", {}, loading(2));
  view.metrics = h(
    "section",
    { class: "panel" },
    h("header", {}, h("h2", {}, say("health.over_time")), view.since, h("div", { class: "right" }, view.windows)),
    view.plotsBody,
  );
  view.from = h("span", { class: "small muted" });
  main.append(
    h("div", { class: "head" }, h("h1", {}, say("health.title"))),
    h(
      "div",
      { class: "grid" },
      view.app.me.admin
        ? h("div", { class: "health" }, view.now, view.metrics)
        : h("p", { class: "muted" }, say("health.for_admins")),
      h("section", { class: "panel" }, h("header", {}, h("h2", {}, say("health.usage")), view.from), view.usage),
    ),
  );
  writeWindow(view);
}

function writeWindow(view) {
  [...view.windows.children].forEach((chip, i) =>
    setAttribute(chip, "aria-pressed", String(WINDOWS[i] === windowOf(view))),
  );
}

// What the feed does not tell.
function read(view) {
  view.readAt = performance.now();
  readUsage(view);
  if (view.app.me.admin) readMetrics(view);
}

async function readMetrics(view) {
  view.asked?.abort();
  view.asked = new AbortController();
  try {
    const report = await get("/api/console/metrics", { window: windowOf(view) }, view.asked.signal);
    if (!view.plots.node.isConnected) fill(view.plotsBody, view.plots.node);
    view.plots.update(report);
    setText(view.since, say("health.since", { time: showTime(report.since) }));
  } catch (error) {
    if (error.name === "AbortError") return;
    fill(
      view.plotsBody,
      failure(error, () => readMetrics(view)),
    );
  }
}

function writeHealth(view) {
  const health = view.app.store.row("health", "all");
  if (!health) return fill(view.now, h("section", { class: "panel" }, loading(4)));
  // The page stands still unless something is different; the smallest changes are not shown.
  const seen = JSON.stringify([health, windowOf(view)]);
  if (view.seen === seen) return;
  view.seen = seen;
  fill(view.now, drawUpstreams(health.upstreams), drawFacts(health));
}

const cells = (tag, texts) =>
  texts.map((text, i) => h(tag, { class: i > 1 ? "num" : null, ...(tag === "th" && { scope: "col" }) }, text));
const percent = (share) => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

function drawUpstreams(upstreams) {
  const row = (one) => [
    one.id,
    h("span", {}, stateWord(one.state), one.until ? [" ", moving("until", one.until)] : null),
    one.p50 === null
      ? "–"
      : one.p95 < 1000
        ? `${Math.round(one.p50)} / ${showDuration(one.p95)}`
        : `${showDuration(one.p50)} / ${showDuration(one.p95)}`,
    one.turns || one.failed ? percent(one.failed) : "–",
    showNumber(one.busy),
  ];
  const head = ["upstream", "state", "first", "failed", "busy"].map((name) => say(`health.col_${name}`));
  const table = h(
    "table",
    { class: "table dims tight" },
    h("thead", {}, h("tr", {}, cells("th", head))),
    h(
      "tbody",
      {},
      upstreams.map((one) => h("tr", {}, cells("td", row(one)))),
    ),
  );
  return h(
    "section",
    { class: "panel" },
    h(
      "header",
      {},
      h("h2", {}, say("health.upstreams")),
      h("span", { class: "small muted" }, say("health.five_minutes")),
    ),
    h("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": say("health.upstreams") }, table),
  );
}

const showUse = ({ used, max }) => say("health.of", { used: showNumber(used), max: showNumber(max) });

function drawFacts(health) {
  const { store, ntp, scheduler, holds } = health;
  const clock =
    ntp.status === "synced" ? "ok" : ntp.status === "disabled" ? "off" : ntp.status === "stale" ? "cooling" : "error";
  const runs =
    scheduler.runs === undefined
      ? ""
      : showUse({ used: scheduler.runs, max: scheduler.max_concurrent_runs });
  const fact = (name, state, note) =>
    h(
      "div",
      { class: note?.length > 60 ? "whole" : null },
      h("dt", {}, say(`health.${name}`)),
      h("dd", {}, state, note ? h("small", {}, note) : null),
    );
  return h(
    "section",
    { class: "panel" },
    h(
      "dl",
      { class: "health-facts dims" },
      fact(
        "store",
        stateWord(store.ok ? "ok" : "error", { word: store.kind }),
        store.ok ? showDuration(store.ms) : store.message,
      ),
      fact(
        "ntp",
        stateWord(clock, { word: say(`health.ntp_${ntp.status}`) }),
        ntp.lastError || (ntp.server ? `${ntp.server}, ${ntp.offsetMs} ms` : ""),
      ),
      fact(
        "scheduler",
        stateWord(scheduler.state === "running" ? "ok" : scheduler.state === "off" ? "off" : "cooling", {
          word: sayOr(`health.scheduler_${scheduler.state}`, scheduler.state),
        }),
        runs ? say("health.runs", { runs }) : "",
      ),
      fact("webhooks", showNumber(health.webhooks), say("health.configured")),
      fact("holds", showUse(holds)),
      Object.entries(health.streams).map(([name, use]) => fact(`streams_${name}`, showUse(use), say("health.of_one"))),
      fact("lag", showDuration(health.loop_lag_ms)),
      fact("memory", health.rss === null ? "–" : showSize(health.rss)),
      fact("descriptors", health.descriptors === null ? "–" : showNumber(health.descriptors)),
      fact("started", moving("since", health.started_at), say("health.version", { version: health.version })),
    ),
  );
}

async function readUsage(view) {
  try {
    const report = await get("/api/usage", { group_by: "model,upstream" });
    const used = JSON.stringify(report.data);
    setText(view.from, say("health.from", { time: showTime(report.from) }));
    if (used !== view.used) fill(view.usage, report.data.length ? drawUsage(report.data) : empty(say("health.no_usage")));
    view.used = used;
  } catch (error) {
    // Once there are figures, they stay; the line says when they are old.
    if (view.used && error.status === 0) return;
    view.used = "";
    fill(
      view.usage,
      failure(error, () => readUsage(view)),
    );
  }
}

function drawUsage(groups) {
  const head = ["model", "upstream", "exchanges", "turns", "input", "output", "cost"].map((name) =>
    say(`health.col_${name}`),
  );
  const row = (one) => [
    one.model,
    one.upstream,
    showNumber(one.exchanges),
    showNumber(one.turns),
    [
      showNumber(one.input_tokens),
      one.cached_tokens
        ? h("span", { class: "small muted" }, ` ${say("health.cached", { n: showNumber(one.cached_tokens) })}`)
        : "",
    ],
    [
      showNumber(one.output_tokens),
      h(
        "span",
        { class: "small muted" },
        ` ${say("health.reported_short", { reported: showNumber(one.reported_turns), turns: showNumber(one.turns) })}`,
      ),
    ],
    one.cost_usd === null || one.cost_usd === undefined ? "–" : `$${one.cost_usd.toFixed(one.cost_usd < 1 ? 4 : 2)}`,
  ];
  const table = h(
    "table",
    { class: "table dims" },
    h("thead", {}, h("tr", {}, cells("th", head))),
    h(
      "tbody",
      {},
      groups.map((one) => h("tr", {}, cells("td", row(one)))),
    ),
  );
  return h("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": say("health.usage") }, table);
}
