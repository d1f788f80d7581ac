// Live: what the gateway does right now. Counts that filter, what needs a look, what comes, and the rows.
import { fill, h, setAttribute, setText } from "../h.js";
import { empty, failure, loading } from "../parts/empty.js";
import { FoundExchanges, isAboutEnded, isCutShort, isOfLastHour } from "../parts/found.js";
import { List } from "../parts/list.js";
import { makePopulation } from "../parts/machine.js";
import { glyph } from "../parts/state.js";
import { makeTry } from "../parts/try.js";
import { EXCHANGE_COLUMNS } from "../parts/rows.js";
import { go, href, sessionHref, setQuery } from "../router.js";
import { moving, showNumber } from "../times.js";
import { say, sayCount } from "../words.js";

const FEW = 4;

export function createPage(app) {
  const view = {
    app,
    query: new URLSearchParams(),
    found: new FoundExchanges(),
    failed: null,
    isOver: false,
    paused: false,
    told: "",
  };
  return {
    topics: () => ["live"],
    mount(main, query) {
      view.query = query;
      drawPage(view, main);
      readFound(view);
      writeAll(view);
    },
    update(change) {
      if (change.query) takeQuery(view, change.query);
      if (change.back) {
        view.found.forget();
        readFound(view);
      }
      if (change.topics.has("summary")) writeSummary(view);
      if (change.topics.has("live")) noteOver(view);
      if (change.topics.has("live") || change.tick) writeRows(view);
      if (change.tick) view.tries?.update(rowsOf(view));
    },
    leave() {
      view.list.close();
      view.found.close();
      clearTimeout(view.later);
    },
  };
}

const filterOf = (view) => view.query.get("state") ?? "";
const searchOf = (view) => (view.query.get("q") ?? "").trim();
const overOf = (view) => view.app.store.row("live", "over");

function drawPage(view, main) {
  const { app } = view;
  view.search = h("input", {
    type: "search",
    placeholder: say("live.search"),
    "aria-label": say("live.search"),
    oninput: () => search(view),
  });
  view.search.value = searchOf(view);
  view.pause = h(
    "button",
    { type: "button", class: "hide-s", "aria-pressed": "false", onclick: () => pause(view) },
    h("span", {}, say("live.pause")),
    h("kbd", {}, "p"),
  );
  view.population = makePopulation((state) => choose(view, state));
  view.counts = h("div", { class: "pad scrolls" }, loading(6)); // no number before one is known
  view.note = h("span", { class: "small muted" });
  view.needs = h("ul", { class: "notes" });
  view.coming = h("ul", { class: "notes" });
  view.chips = h("div", { class: "chips", role: "group", "aria-label": say("live.filter") });
  view.list = new List({
    class: "live-list",
    label: say("live.title"),
    columns: EXCHANGE_COLUMNS(app.me),
    key: (row) => row.id,
    open: (row) => go("exchange", { id: row.id }),
    height: 40,
    narrowHeight: 86,
  });
  view.below = h("div");
  view.tries = app.me.demo ? makeTry() : null;
  const panel = (title, body, note) =>
    h("section", { class: "panel dims" }, h("header", {}, h("h2", {}, title), note), body);
  main.append(
    h("div", { class: "head" }, h("h1", {}, say("live.title")), h("div", { class: "right" }, view.search, view.pause)),
    h(
      "div",
      { class: "grid" },
      view.tries?.node,
      h(
        "div",
        { class: "grid hero" },
        panel(say("live.now"), view.counts, view.note),
        panel(say("live.needs"), view.needs),
        panel(say("live.coming"), view.coming),
      ),
      view.chips,
      h("section", { class: "panel" }, view.list.node, view.below),
    ),
  );
  bindKeys(view);
}

function bindKeys(view) {
  const { list } = view;
  view.app.keys.setPage([
    { key: "j", say: "frame.key_move", run: () => list.step(1) },
    { key: "k", run: () => list.step(-1) },
    { key: "ArrowDown", run: () => list.node.contains(document.activeElement) && (list.step(1), true) },
    { key: "ArrowUp", run: () => list.node.contains(document.activeElement) && (list.step(-1), true) },
    { key: "Enter", say: "frame.key_open", run: () => false },
    { key: "p", say: "live.key_pause", run: () => pause(view) },
    { key: "Escape", say: "live.key_all", run: () => showAll(view) },
  ]);
}

function writeAll(view) {
  writeSummary(view);
  writeRows(view, true);
}

function takeQuery(view, query) {
  view.query = query;
  if (document.activeElement !== view.search) view.search.value = searchOf(view);
  readFound(view, true);
  writeSummary(view);
  writeRows(view, true);
}

function showAll(view) {
  view.search.value = "";
  setQuery({ state: "", q: "" });
}

const choose = (view, state) => setQuery({ state: filterOf(view) === state ? "" : state });

function search(view) {
  clearTimeout(view.typing);
  view.typing = setTimeout(() => setQuery({ q: view.search.value }), 150);
}

function pause(view) {
  view.paused = !view.paused;
  view.list.hold(view.paused);
  setAttribute(view.pause, "aria-pressed", String(view.paused));
  setText(view.pause.firstChild, say(view.paused ? "live.go_on" : "live.pause"));
}

function writeSummary(view) {
  const summary = view.app.store.row("summary", "all");
  if (!summary) return;
  const ended = sum(summary.ended);
  if (!view.population.node.isConnected) fill(view.counts, view.population.node);
  view.population.update({ ...summary.live, ...summary.ended }, filterOf(view));
  setText(
    view.note,
    ended || sum(summary.live)
      ? say("live.note", { live: showNumber(sum(summary.live)), ended: showNumber(ended) })
      : say("live.nothing"),
  );
  writeNotes(view.needs, summary.needs, makeNeed, "live.needs_none");
  writeNotes(view.coming, joinHolds(summary.coming), (one) => makeComing(one, view.app.me), "live.coming_none");
  writeChips(view, summary);
  const told = JSON.stringify(view.isOver ? summary : summary.ended);
  if (view.told && view.told !== told) readSoon(view);
  view.told = told;
}

const sum = (counts) => Object.values(counts).reduce((all, n) => all + n, 0);

function writeChips(view, summary) {
  const chips = [
    ["", sum(summary.live)],
    ["holding", summary.live.holding],
    ["failed", summary.ended.failed],
    ["ended", sum(summary.ended)],
  ];
  chips.forEach(([filter, n], i) => {
    const chip =
      view.chips.children[i] ??
      view.chips.appendChild(
        h(
          "button",
          { type: "button", class: "chip", onclick: () => setQuery({ state: filter }) },
          h("span", {}, say(`live.chip_${filter || "live"}`)),
          h("b", {}),
        ),
      );
    setText(chip.lastChild, showNumber(n));
    setAttribute(chip, "aria-pressed", String(filterOf(view) === filter));
  });
}

// Written anew only if something is different: a person may be about to click.
function writeNotes(node, items, make, none) {
  const seen = JSON.stringify(items);
  if (node.dataset.seen === seen) return;
  node.dataset.seen = seen;
  const more = items.length > FEW ? makeMore(node) : null;
  fill(node, items.length ? items.map(make) : h("li", { class: "none" }, say(none)), more);
}

// On phones the rows below must not be far away.
const makeMore = (node) =>
  h(
    "li",
    { class: "only-s more-notes" },
    h("button", { type: "button", class: "link", onclick: () => node.classList.add("all") }, say("live.show_all")),
  );

// A reminder that an answer is held for stands there once, as that answer.
function joinHolds(coming) {
  const find = (kind, one) =>
    coming.find(
      (other) =>
        other.kind === kind &&
        other.session === one.session &&
        other.owner === one.owner &&
        Math.abs(other.at - one.at) < 1000,
    );
  return coming
    .filter((one) => one.kind !== "reminder" || !find("hold", one))
    .map((one) => (one.kind === "hold" ? { ...one, name: find("reminder", one)?.name ?? one.name } : one));
}

const note = (state, to, first, second, right) =>
  h(
    "li",
    {},
    glyph(state),
    h(
      "span",
      { class: "two" },
      h("span", {}, to ? h("a", { href: to }, first) : first),
      second ? h("span", {}, second) : null,
    ),
    h("span", { class: "small muted" }, right),
  );

const NEEDS = {
  job_failing: (one) =>
    note(
      "failed",
      href("jobs", { id: one.id }),
      say("live.job_failing", one),
      sayCount("live.in_a_row", one.count ?? 1),
      one.at ? moving("age", one.at) : "",
    ),
  job_disabled: (one) =>
    note(
      "failed",
      href("jobs", { id: one.id }),
      say("live.job_disabled", one),
      one.count ? sayCount("live.after_failures", one.count) : "",
      one.at ? moving("age", one.at) : "",
    ),
  upstream_cooling: (one) =>
    note(
      "opening",
      href("health"),
      say("live.upstream_cooling", one),
      say("live.cooling_why"),
      one.until ? moving("until", one.until) : "",
    ),
  missed: (one) =>
    note(
      "warning",
      one.id ? href("jobs", { id: one.id }) : href("jobs"),
      say("live.missed", one),
      one.count ? sayCount("live.missed_times", one.count) : "",
      one.at ? moving("age", one.at) : "",
    ),
};

function makeNeed(one) {
  const known = NEEDS[one.kind];
  return known
    ? known({ ...one, name: one.name || one.id })
    : note("warning", href("health"), say(`live.need_${one.kind}`), one.name, "");
}

function makeComing(one, me) {
  const time = moving("until", one.at);
  if (one.kind === "job")
    return note("on", href("jobs", { id: one.id }), say("live.coming_job", one), one.session ?? "", time);
  const to =
    one.kind === "hold"
      ? href("exchange", { id: one.id })
      : sessionHref({ sessionId: one.session, owner: one.owner }, me);
  const name = one.name && one.name !== one.session ? say("live.quoted", one) : "";
  return note(
    one.kind === "hold" ? "holding" : "reminder",
    to,
    say(`live.coming_${one.kind}`, { session: one.session ?? "–" }),
    name,
    time,
  );
}

// They are read when the number of those that ended has changed, at most every 2 s.
function readSoon(view) {
  view.later ??= setTimeout(() => {
    view.later = null;
    readFound(view);
  }, 2000);
}

// Of too many live ones the feed has only the number: then a search asks the gateway.
function noteOver(view) {
  if (view.isOver === Boolean(overOf(view))) return;
  view.isOver = !view.isOver;
  readFound(view);
}

async function readFound(view, force = false) {
  const wish = { filter: filterOf(view), q: searchOf(view), isOver: view.isOver };
  const tell = () => {
    view.failed = null;
    writeRows(view, force);
  };
  try {
    await view.found.read(wish, view.app.store.rows("live"), tell);
  } catch (error) {
    if (error.name === "AbortError") return;
    view.failed = error;
    writeRows(view, force);
  }
}

function rowsOf(view) {
  const rows = new Map(view.found.rows);
  for (const [id, row] of view.app.store.rows("live")) if (id !== "over") rows.set(id, row);
  return [...rows.values()];
}

function chooseRows(view) {
  const filter = filterOf(view);
  const word = searchOf(view).toLowerCase();
  const fits = (row) => {
    if (isAboutEnded(filter) && !isOfLastHour(row)) return false;
    if (filter && filter !== "ended" && row.state !== filter) return false;
    return (
      !word ||
      [row.session, row.id, row.request_id, row.model, row.route, row.owner].some((text) =>
        text?.toLowerCase().includes(word),
      )
    );
  };
  return rowsOf(view)
    .filter(fits)
    .sort((a, b) => ((a.ended === null) === (b.ended === null) ? endOf(b) - endOf(a) : a.ended === null ? -1 : 1));
}

const endOf = (row) => row.begun_at + (row.ended ?? 0);

function writeRows(view, force = false) {
  const rows = chooseRows(view);
  view.list.show(rows, { force: force && !view.paused });
  if (view.told) view.tries?.update(rowsOf(view));
  writeBelow(view, rows.length);
}

function writeBelow(view, count) {
  const over = overOf(view);
  const ended = sum(view.app.store.row("summary", "all")?.ended ?? {});
  const what = view.failed
    ? `failed ${view.failed.message}`
    : over
      ? `over ${over.count}`
      : count
        ? isCutShort(filterOf(view), ended)
          ? "newest"
          : ""
        : view.app.store.has("live")
          ? `none ${filterOf(view)} ${searchOf(view)}`
          : "loading";
  view.list.node.hidden = count === 0 && what !== "";
  if (view.below.dataset.what === what) return;
  view.below.dataset.what = what;
  fill(view.below, makeBelow(view, what, over));
}

function makeBelow(view, what, over) {
  if (view.failed) return failure(view.failed, () => readFound(view));
  if (over) return empty(say("live.over", { count: showNumber(over.count) }));
  if (what === "newest") return empty(say("live.newest"));
  if (what === "loading") return loading(5);
  if (!what) return null;
  if (filterOf(view) || searchOf(view))
    return empty(
      say("live.none_fits"),
      h("button", { type: "button", onclick: () => showAll(view) }, say("live.show_all")),
    );
  return empty(
    say(view.tries?.isShown() ? "live.none_try" : "live.none"),
    h("code", { class: "mono" }, `${location.origin}/v1`),
  );
}
