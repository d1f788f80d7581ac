// Sessions in lists: which ones, and what stands beside their names.
import { h, icon, setText } from "../h.js";
import { sessionHref } from "../router.js";
import { moving, setMoving, setStill, toMs } from "../times.js";
import { say } from "../words.js";
import { setState, stateWord } from "./state.js";

/** The sessions that the feed told of, the last used first; `word` filters by name, owner and agent. */
export function chooseSessions(store, found, word) {
  const rows = new Map(found.map((row) => [keyOf(row), row]));
  for (const row of store.rows("sessions").values()) rows.set(keyOf(row), row);
  const fits = (row) =>
    !word || [row.sessionId, row.owner, row.agentId ?? ""].some((name) => name.toLowerCase().includes(word));
  return [...rows.values()].filter(fits).sort((a, b) => b.live - a.live || toMs(b.updatedAt) - toMs(a.updatedAt));
}

export const keyOf = (row) => `${row.owner}\n${row.sessionId}`;

export const ownerBeside = (row, me) => (row.owner === me.owner ? "" : row.owner);
const beside = (row, me) => [ownerBeside(row, me), row.agentId ? say("sessions.of_agent", row) : ""].filter(Boolean).join(" · ");
const count = (name, title, read) => ({ name, title, num: true, text: (row) => (read(row) ? String(read(row)) : "") });

export const SESSION_COLUMNS = (me) => [
  {
    name: "name",
    title: say("sessions.col_name"),
    make: () => h("span", {}, h("a", {}, ""), h("span", { class: "small faint" })),
    key: (row) => `${keyOf(row)} ${row.agentId}`,
    write: (node, row) => writeName(node, row, me),
  },
  {
    name: "state",
    title: say("sessions.col_state"),
    make: () => stateWord("off"),
    key: (row) => `${row.state} ${row.live}`,
    write: writeState,
  },
  {
    name: "due",
    title: say("sessions.col_due"),
    make: () => h("span", { class: "mark" }, icon("bell"), h("span", { class: "moving" })),
    key: (row) => `${row.reminders} ${row.nextDueAt}`,
    write: writeDue,
  },
  {
    name: "stop",
    title: say("sessions.col_stop"),
    make: () => h("span", { class: "mark" }, icon("loop"), h("span")),
    key: (row) => JSON.stringify(row.stopMessage),
    write: (node, row) => writeMark(node, row.stopMessage ? `${row.stopMessage.used}/${row.stopMessage.max}` : ""),
  },
  {
    name: "waiting",
    title: say("sessions.col_waiting"),
    make: () => h("span", { class: "mark" }, icon("mail"), h("span")),
    key: (row) => String(row.deliveries),
    write: (node, row) => writeMark(node, row.deliveries ? String(row.deliveries) : ""),
  },
  count("jobs", say("sessions.col_jobs"), (row) => row.jobs),
  {
    name: "used",
    title: say("sessions.col_used"),
    num: true,
    make: () => moving("age", 0),
    key: (row) => row.updatedAt,
    write: (node, row) => setMoving(node, "age", row.updatedAt),
  },
];

const MARKS = ["due", "stop", "waiting"];

/** The marks of a session in a narrow list: its next reminder, rounds, what waits. */
export const drawMarks = (row, me) =>
  SESSION_COLUMNS(me)
    .filter((column) => MARKS.includes(column.name))
    .map((column) => {
      const node = column.make();
      column.write(node, row);
      return node;
    });

function writeName(node, row, me) {
  node.firstChild.setAttribute("href", sessionHref(row, me));
  setText(node.firstChild, row.sessionId);
  const more = beside(row, me);
  setText(node.lastChild, more ? ` ${more}` : "");
}

function writeState(node, row) {
  node.hidden = !row.state;
  if (row.state)
    setState(node, row.state, { word: `${say(`state.${row.state}`)}${row.live > 1 ? ` ×${row.live}` : ""}` });
}

function writeMark(node, text) {
  node.hidden = !text;
  setText(node.lastChild, text);
}

function writeDue(node, row) {
  node.hidden = !row.reminders;
  if (row.nextDueAt) setMoving(node.lastChild, "due", row.nextDueAt);
  else setStill(node.lastChild, String(row.reminders));
}
