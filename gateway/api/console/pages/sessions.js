// Sessions: all of which anything is kept or under way.
import { get } from "../api.js";
import { fill, h } from "../h.js";
import { empty, failure, loading } from "../parts/empty.js";
import { List } from "../parts/list.js";
import { chooseSessions, keyOf, SESSION_COLUMNS } from "../parts/session_rows.js";
import { go, href, setQuery } from "../router.js";
import { say, sayCount } from "../words.js";

export function createPage(app) {
  const view = { app, query: new URLSearchParams(), found: [], failed: null, asked: null, later: 0 };
  return {
    topics: () => ["sessions"],
    mount(main, query) {
      view.query = query;
      drawPage(view, main);
      read(view);
      write(view);
    },
    update(change) {
      if (change.query) {
        view.query = change.query;
        clearTimeout(view.later);
        view.later = setTimeout(() => read(view), 250);
      }
      if (change.query || change.topics.has("sessions")) {
        // What the feed tells first replaces what the page before had left.
        write(view, Boolean(change.query) || !view.isFed);
        view.isFed = true;
      }
    },
    leave() {
      view.list.close();
      view.asked?.abort();
      clearTimeout(view.later);
    },
  };
}

const wordOf = (view) => (view.query.get("q") ?? "").trim().toLowerCase();

function drawPage(view, main) {
  const { app } = view;
  const search = h("input", {
    type: "search",
    value: view.query.get("q") ?? "",
    placeholder: say("sessions.search"),
    "aria-label": say("sessions.search"),
    oninput: () => setQuery({ q: search.value }),
  });
  const open = (row) => row && go("session", { id: row.sessionId, owner: row.owner === app.me.owner ? "" : row.owner });
  view.note = h("span", { class: "small muted dims" });
  view.list = new List({
    class: "session-list",
    label: say("sessions.title"),
    columns: SESSION_COLUMNS(app.me),
    key: keyOf,
    open,
    height: 40,
    narrowHeight: 68,
  });
  view.below = h("div");
  main.append(
    h("div", { class: "head" }, h("h1", {}, say("sessions.title")), view.note, h("div", { class: "right" }, search)),
    h("section", { class: "panel" }, view.list.node, view.below),
  );
  app.keys.setPage([
    { key: "j", say: "frame.key_move", run: () => view.list.step(1) },
    { key: "k", run: () => view.list.step(-1) },
    { key: "Enter", say: "frame.key_open", run: () => false },
    { key: "Escape", say: "live.key_all", run: () => clearSearch() },
  ]);
}

// The feed has the newest; a search also finds those that it left out.
async function read(view) {
  view.asked?.abort();
  view.asked = new AbortController();
  try {
    const owner = view.app.me.admin ? "*" : "";
    view.found = (await get("/api/sessions", { q: wordOf(view), owner, limit: 200 }, view.asked.signal)).sessions;
    view.failed = null;
  } catch (error) {
    if (error.name === "AbortError") return;
    view.failed = error;
  }
  view.hasRead = true;
  write(view);
}

function write(view, force = false) {
  const known = view.app.store.has("sessions");
  // Once the feed has told, a session that it no longer has is gone.
  const rows = chooseSessions(view.app.store, known && !wordOf(view) ? [] : view.found, wordOf(view));
  view.list.show(rows, { force });
  view.list.node.hidden = rows.length === 0;
  view.note.textContent = rows.length ? sayCount("sessions.count", rows.length) : "";
  const what = rows.length
    ? ""
    : view.failed
      ? `failed ${view.failed.message}`
      : !view.hasRead && !known
        ? "loading"
        : wordOf(view)
          ? "none"
          : "empty";
  if (view.below.dataset.what === what) return;
  view.below.dataset.what = what;
  fill(view.below, makeBelow(view, what));
}

function makeBelow(view, what) {
  if (!what) return null;
  if (what === "loading") return loading(5);
  if (what === "none")
    return empty(
      say("live.none_fits"),
      h("button", { type: "button", onclick: () => clearSearch() }, say("live.show_all")),
    );
  if (what === "empty")
    return empty(say("sessions.empty"), h("a", { class: "button", href: href("chat") }, say("sessions.to_chat")));
  return failure(view.failed, () => read(view));
}

function clearSearch() {
  document.querySelector("main input[type=search]").value = "";
  setQuery({ q: "" });
}
