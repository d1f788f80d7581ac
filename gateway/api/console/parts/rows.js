// The columns of a list of exchanges, used by Live and by a session's page.
import { h, setText } from "../h.js";
import { href } from "../router.js";
import { now, setMoving, setStill, showDuration, showSize } from "../times.js";
import { say } from "../words.js";
import { setState, stateWord } from "./state.js";
import { drawStrip, makeStrip } from "./strip.js";

const isLive = (row) => row.ended === null;
const second = () => Math.floor(now() / 1000);

/** The columns; `me` says whose rows need no owner beside them. */
export const EXCHANGE_COLUMNS = (me) => [
  {
    name: "state",
    title: say("live.col_state"),
    make: () => stateWord("opening"),
    key: (row) => row.state,
    write: (node, row) => setState(node, row.state),
  },
  {
    name: "strip",
    title: say("live.col_strip"),
    make: () => makeStrip(),
    key: (row) => `${row.id} ${row.states.length} ${row.state} ${isLive(row) ? second() : row.ended}`,
    write: (node, row) => drawStrip(node, row, now()),
  },
  {
    name: "session",
    title: say("live.col_session"),
    make: () => h("span", {}, h("a", {}, ""), h("span", { class: "small faint" })),
    key: (row) => `${row.id} ${row.session}`,
    write: (node, row) => writeName(node, row, me),
  },
  {
    name: "model",
    title: say("live.col_model"),
    make: () => h("span", { class: "muted" }, h("span"), h("span", { class: "bad-text" })),
    key: (row) => `${row.model} ${row.route} ${row.code}`,
    write: writeModel,
  },
  { name: "turns", title: say("live.col_turns"), num: true, text: (row) => String(row.turns) },
  {
    name: "first",
    title: say("live.col_first"),
    num: true,
    text: (row) => (row.first === null ? "–" : showDuration(row.first)),
  },
  {
    name: "time",
    title: say("live.col_time"),
    num: true,
    make: () => h("span", { class: "moving" }),
    key: (row) => `${row.id} ${row.state} ${row.until} ${isLive(row) ? second() : row.ended}`,
    write: writeTime,
  },
  { name: "bytes", title: say("live.col_bytes"), num: true, text: (row) => showSize(row.bytes) },
];

function writeName(node, row, me) {
  const [link, more] = node.children;
  link.setAttribute("href", href("exchange", { id: row.id }));
  setText(link, row.session ?? row.id);
  const beside = [row.owner === me.owner ? "" : row.owner, row.kind === "client" ? "" : say(`live.kind_${row.kind}`)]
    .filter(Boolean)
    .join(" · ");
  setText(more, beside ? ` ${beside}` : "");
}

function writeModel(node, row) {
  const upstream = (row.route ?? "").split("/")[0];
  setText(node.firstChild, upstream ? `${row.model} → ${upstream}` : row.model);
  setText(node.lastChild, row.code ? ` ${row.code}` : "");
}

function writeTime(node, row) {
  const holds = row.state === "holding" && row.until;
  node.className = holds ? "moving s-holding countdown" : "moving";
  if (holds) setMoving(node, "until", row.until, "live.goes_on_in");
  else setStill(node, showDuration(row.ended ?? now() - row.begun_at));
}
