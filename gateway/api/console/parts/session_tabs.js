// The tabs of a session's page: what is in force, to come, waiting, and was said.
import { h, icon } from "../h.js";
import { href } from "../router.js";
import { moving, showFull, showTime, toMs } from "../times.js";
import { currentLanguage, say, sayOr } from "../words.js";
import { empty } from "./empty.js";
import { writeProse } from "./prose.js";
import { glyph, stateWord } from "./state.js";

const button = (text, run, kind = null) => h("button", { type: "button", class: kind, onclick: run }, text);
const item = (mark, title, more, right, ...buttons) =>
  h(
    "li",
    {},
    mark,
    h("span", { class: "what" }, h("span", {}, title), more ? h("span", { class: "small muted" }, more) : null),
    h("span", { class: "when" }, right),
    h("span", { class: "acts" }, buttons),
  );
const items = (all) => h("ul", { class: "items dims" }, all);
const time = (at) => h("time", { datetime: new Date(toMs(at)).toISOString(), title: showFull(at) }, showTime(at));

/** stopMessage and directives, each with Clear. */
export function drawForce(data, on) {
  const stop = data.stopMessage;
  const rows = [];
  if (stop)
    rows.push(
      item(
        icon("loop"),
        h("span", {}, h("b", {}, "stopMessage"), " ", say("live.quoted", { name: stop.text })),
        say(stop.armed ? "session.stop_armed" : "session.stop_off"),
        say("session.used_of", { used: stop.used, max: stop.maxRepeats }),
        button(say("session.clear"), on.clearStop),
      ),
    );
  if (data.directives.length)
    rows.push(
      item(
        icon("tools"),
        h("span", { class: "mono" }, data.directives.join(" ")),
        say("session.directives_why"),
        "",
        button(say("session.clear"), on.clearDirectives),
      ),
    );
  return rows.length ? items(rows) : empty(say("session.no_force"));
}

export function drawReminders(data, on) {
  const coming = data.reminders
    .filter((one) => !one.deliveredAt)
    .map((one) =>
      item(
        glyph("reminder"),
        one.task,
        one.tool ? say("session.with_tool", { tool: one.tool }) : "",
        [time(one.dueAt), " · ", moving("due", one.dueAt)],
        button(say("frame.cancel"), () => on.cancelReminder(one)),
      ),
    );
  const ended = (data.endedReminders ?? []).map((one) =>
    item(glyph(one.outcome === "delivered" ? "done" : "off"), one.task, "", [
      sayOr(`session.outcome_${one.outcome}`, one.outcome),
      " · ",
      time(one.at),
    ]),
  );
  return [
    h("div", { class: "tab-head" }, button([icon("bell"), say("session.add_reminder")], on.addReminder)),
    coming.length ? items(coming) : empty(say("session.no_reminders")),
    ended.length ? [h("h3", { class: "tab-title" }, say("session.ended_reminders")), items(ended)] : null,
  ];
}

export function drawJobs(data) {
  if (!data.jobs.length)
    return empty(say("session.no_jobs"), h("a", { class: "button", href: href("jobs") }, say("frame.jobs")));
  return items(
    data.jobs.map((job) => {
      const state =
        job.state ?? (job.running_at ? "running" : job.enabled ? (job.consecutive_failures ? "failing" : "on") : "off");
      const when = job.words?.[currentLanguage()] ?? job.schedule.expr ?? job.schedule.kind;
      return item(
        stateWord(state),
        h("a", { href: href("jobs", { id: job.job_id }) }, job.name),
        when,
        job.enabled && job.next_run_at ? [time(job.next_run_at), " · ", moving("until", job.next_run_at)] : "",
      );
    }),
  );
}

export function drawWaiting(deliveries) {
  if (!deliveries.length) return empty(say("session.no_deliveries"));
  return items(
    deliveries.map((one) =>
      item(
        glyph(
          one.state === "delivered"
            ? "done"
            : one.state === "reserved"
              ? "relaying"
              : one.kind === "reminder"
                ? "reminder"
                : "opening",
        ),
        one.text,
        one.name ?? say("session.reminder"),
        [
          say(`session.is_${one.state}`),
          one.status ? ` · ${sayOr(`session.is_${one.status}`, one.status)}` : "",
          " · ",
          time(one.delivered_at ?? one.at),
        ],
      ),
    ),
  );
}

/** What the gateway keeps of a conversation with an agent. */
export function drawConversation(data, on) {
  if (!data.messages.length) return empty(say("session.no_conversation"));
  const agents = h(
    "select",
    { "aria-label": say("chat.agents"), onchange: () => on.chooseAgent(agents.value) },
    data.agents.map((name) => h("option", { value: name, selected: name === data.agentId }, name)),
  );
  return [
    h(
      "div",
      { class: "tab-head" },
      data.agents.length > 1 ? agents : null,
      h(
        "a",
        { class: "button", href: href("chat", { agent: data.agentId, session: data.sessionId }) },
        say("session.go_on"),
      ),
    ),
    h("div", { class: "thread kept" }, data.messages.map(drawMessage)),
  ];
}

function drawMessage(message) {
  const who = message.role === "user" ? "user" : "model";
  const text =
    typeof message.content === "string"
      ? message.content
      : (message.content ?? []).map((part) => part.text ?? "").join("\n");
  const fold = (state, name, body) =>
    h(
      "details",
      {},
      h("summary", { class: "chipline" }, glyph(state), h("span", { class: `s-${state}` }, name)),
      h("pre", { tabindex: 0 }, body),
    );
  if (message.role === "tool")
    return h("article", { class: "said model" }, fold("tooling", say("session.tool_result"), text));
  const node = h("article", { class: `said ${who}` });
  writeProse(node, text);
  for (const call of message.tool_calls ?? [])
    node.append(fold("tooling", call.function?.name ?? "", call.function?.arguments ?? ""));
  return node;
}
