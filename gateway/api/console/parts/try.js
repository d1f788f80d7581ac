// Try it: four real requests with the demo model, each in a session of its own.
import { post, stream } from "../api.js";
import { fill, h, icon, setAttribute } from "../h.js";
import { href } from "../router.js";
import { readSetting, writeSetting } from "../settings.js";
import { moving, now } from "../times.js";
import { say } from "../words.js";
import { stateWord } from "./state.js";
import { toastError } from "./toast.js";

const CARDS = ["hold", "go_on", "job", "break"];
const JOB_WAITS = 10000;
// What was tried since the page was loaded: card → { session, due }. It outlives a visit to another page.
const tried = new Map();

/** { node, update(rows), isShown() } */
export function makeTry() {
  const cards = CARDS.map(makeCard);
  const runAll = async () => {
    if (all.ariaDisabled) return;
    all.ariaDisabled = "true";
    await Promise.all(cards.map((card) => card.run()));
    all.ariaDisabled = null;
  };
  const dismiss = () => {
    writeSetting("try", "off");
    node.hidden = true;
  };
  const all = h("button", { type: "button", class: "primary", onclick: runAll }, say("live.try_all"));
  const close = h(
    "button",
    { type: "button", class: "quiet square", "aria-label": say("live.try_dismiss"), onclick: dismiss },
    icon("close"),
  );
  const head = h(
    "header",
    {},
    h("h2", {}, say("live.try")),
    h("span", { class: "small muted hide-s" }, say("live.try_note")),
    h("div", { class: "right" }, all, close),
  );
  const node = h(
    "section",
    { class: "panel try-panel", hidden: readSetting("try") === "off" },
    head,
    h(
      "div",
      { class: "try" },
      cards.map((card) => card.node),
    ),
  );
  return {
    node,
    isShown: () => !node.hidden,
    update: (rows) => node.hidden || cards.forEach((card) => card.update(rows)),
  };
}

function makeCard(name) {
  const status = h("span", { class: "try-status dims" });
  const run = () => send(name).catch(toastError);
  const node = h(
    "div",
    {},
    h("h3", {}, say(`live.try_${name}`)),
    h("p", {}, say(`live.try_${name}_why`)),
    h("code", {}, say(`live.try_${name}_text`)),
    h(
      "div",
      { class: "try-foot" },
      h(
        "button",
        { type: "button", "aria-label": `${say("live.try_run")}: ${say(`live.try_${name}`)}`, onclick: run },
        icon("run"),
        say("live.try_run"),
      ),
      status,
    ),
  );
  return { node, run, update: (rows) => writeStatus(status, tried.get(name), rows) };
}

async function send(name) {
  const session = `try-${name.replace("_", "-")}-${Math.random().toString(36).slice(2, 6)}`;
  const due = name === "job" ? now() + JOB_WAITS : null;
  tried.set(name, { session, due });
  if (name === "job") await addJob(session, due);
  else await ask(session, say(`live.try_${name}_text`));
}

const addJob = (session, due) =>
  post("/api/cron/add", {
    session_id: session,
    name: say("live.try_job_name"),
    message: say("live.try_job_text"),
    model: "demo",
    schedule: { kind: "at", at: new Date(due).toISOString() },
  });

// Read to the end, as a client does; what it says is seen in the exchange view and in Chat.
async function ask(session, text) {
  const body = { model: "demo", stream: true, messages: [{ role: "user", content: text }] };
  const answer = await stream("POST", "/v1/chat/completions", { body, headers: { "x-session-id": session } });
  drain(answer.body.getReader());
}

async function drain(reader) {
  try {
    while (!(await reader.read()).done);
  } catch {
    // It broke off: that is one of the four things to see.
  }
}

function writeStatus(node, one, rows) {
  const row = one && rows.filter((other) => other.session === one.session).sort((a, b) => b.begun_at - a.begun_at)[0];
  const seen = !one ? "" : row ? `${row.id} ${row.state} ${row.until}` : `${one.session} ${one.due > now()}`;
  if (node.dataset.seen === seen) return;
  setAttribute(node, "data-seen", seen);
  if (!one) fill(node);
  else if (row)
    fill(
      node,
      h("a", { href: href("exchange", { id: row.id }) }, stateWord(row.state)),
      row.until && row.state === "holding" ? moving("until", row.until) : null,
    );
  else
    fill(
      node,
      h(
        "span",
        { class: "small muted" },
        one.due > now() ? moving("until", one.due, "live.try_runs_in") : say("live.try_sent"),
      ),
    );
}
