// Tools: which the gateway has, who may use them, how often they are called; and the agents.
import { get } from "../api.js";
import { fill, h, icon } from "../h.js";
import { openDialog } from "../parts/dialog.js";
import { empty, failure, loading } from "../parts/empty.js";
import { href } from "../router.js";
import { showNumber } from "../times.js";
import { say, sayCount } from "../words.js";

const AGAIN = 10000;

export function createPage() {
  const view = { stop: new AbortController(), seen: "", box: h("div", { class: "grid" }), timer: 0 };
  return {
    mount(main) {
      main.append(h("div", { class: "head" }, h("h1", {}, say("tools.title")), h("div", { class: "right" }, h("a", { class: "button", href: href("jobs") }, icon("jobs"), say("jobs.title")))), view.box);
      fill(view.box, h("section", { class: "panel" }, loading(5)));
      read(view);
      view.timer = setInterval(() => document.hidden || read(view), AGAIN);
    },
    update(change) {
      if (change.back) read(view);
    },
    leave() {
      view.stop.abort();
      clearInterval(view.timer);
    },
  };
}

async function read(view) {
  try {
    const found = await get("/api/console/tools", {}, view.stop.signal);
    const seen = JSON.stringify(found);
    if (seen !== view.seen) fill(view.box, drawTools(found.tools), drawAgents(found.agents)); // the focus stays where it is
    view.seen = seen;
  } catch (error) {
    if (error.name !== "AbortError" && !view.seen) fill(view.box, h("section", { class: "panel" }, failure(error, () => read(view))));
  }
}

const panel = (title, note, body) => h("section", { class: "panel" }, h("header", {}, h("h2", {}, title), note ? h("span", { class: "small muted" }, note) : null), body);

function drawTools(tools) {
  if (!tools.length) return panel(say("tools.tools"), "", empty(say("tools.none")));
  const head = ["name", "agents", "models", "relay", "calls", "errors"].map((name) => h("th", { scope: "col", class: name === "calls" || name === "errors" ? "num" : null }, say(`tools.${name}`)));
  return panel(say("tools.tools"), say("tools.note"), h("table", { class: "table tools dims" }, h("thead", {}, h("tr", {}, head, h("th", {}, h("span", { class: "visually-hidden" }, say("tools.schema"))))), h("tbody", {}, tools.map(drawTool))));
}

function drawTool(tool) {
  const cell = (name, content, kind = "") => h("td", { "data-name": say(`tools.${name}`), class: kind || null }, content);
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: "mono" }, tool.name),
    cell("agents", tool.agents.length ? tool.agents.join(", ") : "–"),
    cell("models", tool.of_models ? say("tools.n_of_m", { n: showNumber(tool.models), m: showNumber(tool.of_models) }) : "–"),
    cell("relay", say(tool.relay ? "editor.yes" : "editor.no")),
    cell("calls", tool.calls === null ? "–" : sayCount("tools.n_calls", tool.calls), "num"),
    cell("errors", tool.errors === null ? "–" : tool.errors ? h("span", { class: "bad-text" }, showNumber(tool.errors)) : "0", "num"),
    h("td", { class: "num" }, h("button", { type: "button", "aria-label": say("tools.schema_of", tool), onclick: () => showSchema(tool) }, say("tools.schema"))),
  );
}

function showSchema(tool) {
  const text = JSON.stringify(tool.schema, null, 2);
  openDialog({ title: say("tools.schema_of", tool), wide: true, body: h("pre", { class: "output", tabindex: 0, "aria-label": say("tools.schema") }, text), actions: [{ text: say("frame.close"), value: "", focus: true }] });
}

function drawAgents(agents) {
  if (!agents.length) return panel(say("tools.agents"), "", empty(say("tools.no_agents")));
  const line = (agent) =>
    h(
      "li",
      {},
      h("div", { class: "two" }, h("b", {}, agent.name || agent.id), h("span", {}, say("tools.agent_model", { model: agent.model }))),
      h("span", { class: "tags" }, agent.tools.map((name) => h("code", { class: "mono small" }, name))),
      h("span", { class: "links" }, h("a", { class: "button", href: href("chat", { agent: agent.id }) }, say("frame.chat")), h("a", { class: "button", href: href("sessions", { q: agent.id }) }, say("frame.sessions"))),
    );
  return panel(say("tools.agents"), "", h("ul", { class: "agents" }, agents.map(line)));
}
