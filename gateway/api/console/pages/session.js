// One session: what is in force, reminders, jobs, deliveries, exchanges and what was said.
import { get, post, remove } from "../api.js";
import { fill, h, setAttribute, setText } from "../h.js";
import { confirmDialog, openDialog } from "../parts/dialog.js";
import { empty, failure, loading } from "../parts/empty.js";
import { List } from "../parts/list.js";
import { EXCHANGE_COLUMNS } from "../parts/rows.js";
import { chooseSessions, drawMarks, keyOf, ownerBeside } from "../parts/session_rows.js";
import { drawConversation, drawForce, drawJobs, drawReminders, drawWaiting } from "../parts/session_tabs.js";
import { glyph, setState, stateWord } from "../parts/state.js";
import { toast, toastError } from "../parts/toast.js";
import { go, href, sessionHref, setQuery } from "../router.js";
import { now } from "../times.js";
import { say } from "../words.js";

const TABS = ["force", "reminders", "jobs", "waiting", "exchanges", "conversation"];
const BESIDE = 60;

export function createPage(app) {
  const view = {
    app,
    query: new URLSearchParams(),
    data: null,
    deliveries: [],
    rows: [],
    failed: null,
    seen: "",
    agent: "",
    later: 0,
    list: null,
  };
  return {
    topics: (query) => ["sessions", `session:${query.get("id") ?? ""}`],
    mount(main, query) {
      view.query = query;
      drawPage(view, main);
      read(view);
      writeBeside(view);
    },
    update(change) {
      if (change.query) takeQuery(view, change.query);
      if (change.back) read(view);
      if (change.topics.has(`session:${nameOf(view)}`)) readSoon(view);
      if (change.topics.has("sessions")) {
        writeBeside(view);
        noticeRow(view);
      }
      if (change.tick && view.list?.node.isConnected) view.list.show(view.rows);
    },
    leave() {
      view.list?.close();
      clearTimeout(view.later);
    },
  };
}

const nameOf = (view) => view.query.get("id") ?? "";
const ownerOf = (view) => view.query.get("owner") || view.app.me.owner;
const isOurs = (view) => ownerOf(view) === view.app.me.owner;
const rowOf = (view) => view.app.store.row("sessions", `${ownerOf(view)}\n${nameOf(view)}`);
const pathOf = (view, part = "") => `/api/sessions/${encodeURIComponent(nameOf(view))}${part}`;
const tabsOf = (view) => (isOurs(view) ? TABS : ["exchanges"]);
const tabOf = (view) => (tabsOf(view).includes(view.query.get("tab")) ? view.query.get("tab") : tabsOf(view)[0]);

function takeQuery(view, query) {
  const before = `${nameOf(view)}\n${ownerOf(view)}`;
  view.query = query;
  if (`${nameOf(view)}\n${ownerOf(view)}` === before) return writeTab(view);
  Object.assign(view, { data: null, deliveries: [], rows: [], failed: null, seen: "", agent: "" });
  writeHead(view);
  read(view);
  writeBeside(view);
}

function drawPage(view, main) {
  view.title = h("h1", {});
  view.state = stateWord("off", { pill: true });
  view.forget = h("button", { type: "button", class: "danger", onclick: () => forget(view) }, say("session.forget"));
  view.chat = h("a", { class: "button" }, say("frame.chat"));
  view.beside = h("ul", { class: "beside-list dims" });
  view.tabs = h("div", {
    class: "tab-list",
    role: "tablist",
    "aria-label": say("session.title"),
    onkeydown: (event) => moveTab(view, event),
  });
  view.panel = h("div", { id: "session-tab", role: "tabpanel", tabindex: 0 });
  const back = h("a", { class: "only-s small", href: href("sessions") }, `← ${say("sessions.title")}`);
  main.append(
    h("div", { class: "head" }, back, view.title, view.state, h("div", { class: "right" }, view.chat, view.forget)),
    h(
      "div",
      { class: "beside" },
      h("nav", { class: "panel hide-s", "aria-label": say("sessions.title") }, view.beside),
      h("section", { class: "panel" }, view.tabs, view.panel),
    ),
  );
  view.app.keys.setPage([{ key: "Escape", say: "frame.key_back", run: () => go("sessions") }]);
  writeHead(view);
}

function writeHead(view) {
  setText(view.title, isOurs(view) ? nameOf(view) : `${nameOf(view)} · ${ownerOf(view)}`);
  view.forget.hidden = view.chat.hidden = !isOurs(view);
  setAttribute(view.chat, "href", href("chat", { session: nameOf(view), agent: view.data?.agentId ?? "" }));
  const state = rowOf(view)?.state;
  view.state.hidden = !state;
  if (state) setState(view.state, state, { pill: true });
}

// What is there is read again when the feed says that something changed, at most twice a second.
function readSoon(view, wait = 500) {
  view.later ||= setTimeout(() => {
    view.later = 0;
    read(view);
  }, wait);
}

function noticeRow(view) {
  const seen = JSON.stringify(rowOf(view) ?? null);
  if (view.rowSeen !== undefined && view.rowSeen !== seen) readSoon(view);
  view.rowSeen = seen;
  writeHead(view);
}

async function read(view) {
  const name = nameOf(view);
  const mine = isOurs(view);
  try {
    const [data, deliveries, found] = await Promise.all([
      mine ? get(pathOf(view), { agentId: view.agent }).catch((error) => missing(error)) : null,
      mine ? get(pathOf(view, "/deliveries")) : { deliveries: [] },
      get("/api/console/exchanges", { session: name, owner: mine ? "" : ownerOf(view), limit: 200 }),
    ]);
    if (name !== nameOf(view)) return;
    Object.assign(view, {
      data,
      deliveries: deliveries.deliveries,
      rows: found.exchanges,
      failed: null,
      hasRead: true,
    });
  } catch (error) {
    if (name !== nameOf(view)) return;
    // Nobody answered: what is there stays, as of an earlier time.
    if (view.hasRead && (error.status === 0 || error.status > 500)) return readSoon(view, 5000);
    view.failed = error;
  }
  writeHead(view);
  writeTab(view);
}

// Nothing is kept of it any more: its exchanges are still shown.
function missing(error) {
  if (error.status !== 404) throw error;
  return null;
}

const COUNTS = {
  force: ({ data }) => (data.stopMessage ? 1 : 0) + data.directives.length,
  reminders: ({ data }) => data.reminders.filter((one) => !one.deliveredAt).length,
  jobs: ({ data }) => data.jobs.length,
  waiting: ({ deliveries }) => deliveries.filter((one) => one.state !== "delivered").length,
  exchanges: ({ rows }) => rows.length,
  conversation: ({ data }) => data.messages.length,
};

function writeTab(view) {
  const tab = tabOf(view);
  const names = tabsOf(view);
  while (view.tabs.childElementCount > names.length) view.tabs.lastChild.remove();
  names.forEach((name, i) => {
    const node =
      view.tabs.children[i] ??
      view.tabs.appendChild(
        h(
          "button",
          {
            type: "button",
            role: "tab",
            "aria-controls": "session-tab",
            onclick: () => setQuery({ tab: tabsOf(view)[i] }),
          },
          h("span"),
          h("b", { class: "small muted dims" }),
        ),
      );
    setText(node.firstChild, say(`session.tab_${name}`));
    const count = name === "exchanges" || view.data ? COUNTS[name](view) : 0;
    setText(node.lastChild, count || "");
    setAttribute(node, "aria-selected", String(name === tab));
    setAttribute(node, "tabindex", name === tab ? 0 : -1);
    if (name === tab && view.tab !== tab) view.tabs.scrollLeft = node.offsetLeft - 60; // it may be beyond the edge of a phone
  });
  view.tab = tab;
  setAttribute(view.panel, "aria-label", say(`session.tab_${tab}`));
  if (tab === "exchanges" && view.list?.node.isConnected && !view.failed && view.rows.length)
    return view.list.show(view.rows);
  const seen = JSON.stringify([tab, view.failed?.message, view.data, view.deliveries, view.rows.length > 0]);
  if (view.seen === seen) return;
  view.seen = seen;
  view.list?.close();
  view.list = null;
  fill(view.panel, drawTab(view, tab));
}

function drawTab(view, tab) {
  if (view.failed) return failure(view.failed, () => read(view));
  if (tab === "exchanges") return drawExchanges(view);
  if (!view.data)
    return view.hasRead
      ? empty(say("session.unknown"), h("a", { class: "button", href: href("sessions") }, say("sessions.title")))
      : loading(4);
  if (tab === "force")
    return drawForce(view.data, {
      clearStop: () => clear(view, "/stop_message"),
      clearDirectives: () => clear(view, "/directives"),
    });
  if (tab === "reminders")
    return drawReminders(view.data, {
      addReminder: () => addReminder(view),
      cancelReminder: (one) => cancelReminder(view, one),
    });
  if (tab === "jobs") return drawJobs(view.data);
  if (tab === "waiting") return drawWaiting(view.deliveries);
  return drawConversation(view.data, { chooseAgent: (name) => ((view.agent = name), read(view)) });
}

function drawExchanges(view) {
  if (!view.rows.length) return empty(say("session.no_exchanges"));
  view.list = new List({
    class: "live-list",
    label: say("session.tab_exchanges"),
    columns: EXCHANGE_COLUMNS(view.app.me),
    key: (row) => row.id,
    open: (row) => go("exchange", { id: row.id }),
    height: 40,
    narrowHeight: 86,
  });
  view.list.show(view.rows);
  return [isOurs(view) ? null : h("p", { class: "pad small muted" }, say("session.others")), view.list.node];
}

function moveTab(view, event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const names = tabsOf(view);
  const next = (names.indexOf(tabOf(view)) + step + names.length) % names.length;
  setQuery({ tab: names[next] });
  view.tabs.children[next].focus();
}

function writeBeside(view) {
  const rows = chooseSessions(view.app.store, [], "").slice(0, BESIDE);
  const seen = JSON.stringify([
    rows.map((row) => [keyOf(row), row.state, row.nextDueAt, row.reminders, row.stopMessage, row.deliveries]),
    keyOf({ owner: ownerOf(view), sessionId: nameOf(view) }),
  ]);
  if (view.beside.dataset.seen === seen) return;
  view.beside.dataset.seen = seen;
  fill(
    view.beside,
    rows.map((row) =>
      h(
        "li",
        {},
        h(
          "a",
          {
            href: sessionHref(row, view.app.me),
            "aria-current": row.sessionId === nameOf(view) && row.owner === ownerOf(view) ? "page" : null,
          },
          h("span", { class: "cut" }, row.sessionId, drawOwner(row, view.app.me)),
          h("span", { class: "marks" }, row.state ? drawState(row) : null, drawMarks(row, view.app.me)),
        ),
      ),
    ),
  );
}

function drawOwner(row, me) {
  const owner = ownerBeside(row, me);
  return owner ? h("span", { class: "small faint" }, ` ${owner}`) : null;
}

// Here is no room for its word: it is spoken, and shown to who points at it.
const drawState = ({ state }) =>
  h("span", { class: "mark", title: say(`state.${state}`) }, glyph(state), h("span", { class: "visually-hidden" }, say(`state.${state}`)));

async function clear(view, part) {
  await remove(pathOf(view, part)).then(() => toast(say("session.cleared")), toastError);
  read(view);
}

async function cancelReminder(view, one) {
  await remove(pathOf(view, `/reminders/${encodeURIComponent(one.taskId)}`)).then(
    () => toast(say("chat.cancelled", { task: one.task })),
    toastError,
  );
  read(view);
}

async function forget(view) {
  const name = nameOf(view);
  if (
    !(await confirmDialog({
      title: say("session.forget_title", { name }),
      text: say("session.forget_text"),
      yes: say("session.forget_yes"),
    }))
  )
    return;
  try {
    await remove(pathOf(view));
    toast(say("session.forgotten", { name }));
    go("sessions");
  } catch (error) {
    toastError(error);
  }
}

// The field shows the browser's own time: so says its label.
const toLocal = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 19);

async function addReminder(view) {
  const task = h("textarea", { rows: 2, required: true });
  const due = h("input", { type: "datetime-local", step: 1, value: toLocal(now() + 600000) });
  const refused = h("p", { class: "refused", role: "alert" });
  const soon = [
    ["1", 60000],
    ["10", 600000],
    ["60", 3600000],
  ].map(([n, ms]) =>
    h(
      "button",
      { type: "button", class: "chip", onclick: () => (due.value = toLocal(now() + ms)) },
      say("session.in_minutes", { n }),
    ),
  );
  const run = async () => {
    try {
      await post(pathOf(view, "/reminders"), { task: task.value.trim(), dueAt: new Date(due.value).toISOString() });
      return true;
    } catch (error) {
      setText(refused, error instanceof RangeError ? say("session.no_time") : error.message);
      return false;
    }
  };
  view.app.setEditing(true);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const body = [
    h("label", { class: "field" }, h("span", {}, say("session.task")), task),
    h("label", { class: "field" }, h("span", {}, say("session.due", { zone })), due),
    h("div", { class: "chips wrap" }, soon),
    refused,
  ];
  const actions = [
    { text: say("frame.cancel"), value: "" },
    { text: say("session.add_reminder"), value: "added", kind: "primary", run },
  ];
  const opened = openDialog({ title: say("session.add_reminder"), body, actions });
  task.focus();
  await opened;
  view.app.setEditing(false);
  read(view);
}
