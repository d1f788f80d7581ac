// Chat: a conversation with any public model, in each dialect, or with an agent; and what the gateway did.
import { get } from "../api.js";
import { fill, h, setAttribute, setText } from "../h.js";
import { makeAnswer } from "../parts/answer.js";
import { DIALECTS } from "../parts/dialects.js";
import { failure } from "../parts/empty.js";
import { writeProse } from "../parts/prose.js";
import { setState, stateWord } from "../parts/state.js";
import { drawSteps } from "../parts/steps.js";
import { Talk } from "../parts/talk.js";
import { toast, toastError } from "../parts/toast.js";
import { href, setQuery } from "../router.js";
import { showClock, showLeft, now } from "../times.js";
import { say } from "../words.js";

const NARROW = matchMedia("(max-width: 47.5em)");
// One conversation a browser tab: a visit to another page, or another language, does not end it.
const talk = new Talk();

export function createPage(app) {
  const view = {
    app,
    query: new URLSearchParams(),
    shown: [],
    waiting: false,
    told: new Set(),
    dirty: new Set(),
    models: [],
    agents: [],
  };
  return {
    topics: (query) => (query.get("answer") ? [`exchange:${query.get("answer")}`] : []),
    mount(main, query) {
      view.query = query;
      takeQuery(view);
      drawPage(view, main);
      talk.tell = (answer) => changed(view, answer);
      readTargets(view);
      draw(view);
      // Back from another page: the trail of the last answer is watched again.
      const last = talk.answers().at(-1);
      if (last?.exchange && !query.get("answer")) setQuery({ session: talk.session, answer: last.exchange });
    },
    update(change) {
      if (change.query) view.query = change.query;
      takeTrails(view, change.topics);
      if (change.tick) tick(view);
    },
    leave() {
      talk.tell = () => {};
    },
  };
}

function takeQuery(view) {
  const session = view.query.get("session");
  if (session && session !== talk.session) talk.begin(session);
}

function drawPage(view, main) {
  view.target = h("select", { onchange: () => chooseTarget(view) });
  view.session = h("input", {
    class: "short",
    value: talk.session,
    maxlength: 256,
    onchange: () => chooseSession(view),
  });
  view.optionsButton = h(
    "button",
    {
      type: "button",
      class: "quiet",
      "aria-expanded": "false",
      "aria-controls": "chat-options",
      onclick: () => toggleOptions(view),
    },
    say("chat.options"),
  );
  view.options = drawOptions(view);
  view.trouble = h("div", { class: "panel trouble" });
  view.thread = h("div", {
    class: "thread",
    role: "log",
    "aria-live": "off",
    "aria-label": say("chat.title"),
    tabindex: 0,
  });
  view.news = h("div", { class: "visually-hidden", role: "status" });
  view.steps = h("ol", { class: "steps dims" });
  view.stepsState = stateWord("opening", { pill: true });
  view.stepsOpen = h("a", { class: "right small" }, say("chat.open"));
  view.aside = h(
    "aside",
    { class: "panel this-answer", "aria-label": say("chat.this_answer") },
    h("header", {}, h("h2", {}, say("chat.this_answer")), view.stepsState, view.stepsOpen),
    view.steps,
  );
  const pick = (text, field) => h("label", { class: "pick" }, h("span", { class: "small muted" }, text), field);
  const begin = h(
    "button",
    { type: "button", class: "quiet", onclick: () => beginAnew(view) },
    say("chat.new"),
    h("kbd", { class: "hide-s" }, "n"),
  );
  main.append(
    h(
      "div",
      { class: "head chat-head" },
      h("h1", {}, say("chat.title")),
      h(
        "div",
        { class: "right" },
        pick(say("chat.target"), view.target),
        pick(say("chat.session"), view.session),
        view.optionsButton,
        begin,
      ),
    ),
    view.trouble,
    view.options,
    h("div", { class: "talk" }, h("section", { class: "panel room" }, view.thread, drawComposer(view)), view.aside),
    view.news,
  );
  view.app.keys.setPage([
    { key: "Escape", say: "chat.key_stop", run: () => stop() },
    { key: "n", say: "chat.new", run: () => beginAnew(view) },
    { key: "i", say: "chat.key_write", run: () => view.text.focus() },
  ]);
}

function drawOptions(view) {
  const { options } = talk;
  const keep = (name, read) => (event) => (options[name] = read(event.target));
  const check = (name) => {
    const box = h("input", { type: "checkbox", onchange: keep(name, (field) => field.checked) });
    box.checked = options[name];
    return h("label", { class: "check" }, box, say(`chat.${name}`));
  };
  const dialects = Object.entries(DIALECTS)
    .filter(([, one]) => one.title)
    .map(([name, one]) => h("option", { value: name, selected: name === options.dialect }, one.title));
  const system = h("textarea", { rows: 2, oninput: keep("system", (field) => field.value) });
  system.value = options.system;
  view.onlyModels = [
    h(
      "label",
      { class: "field" },
      h("span", {}, say("chat.dialect")),
      h("select", { onchange: keep("dialect", (field) => field.value) }, dialects),
    ),
    check("stream"),
  ];
  const clock = check("clock");
  const systemField = h("label", { class: "field wide" }, h("span", {}, say("chat.system")), system);
  view.onlyModels.push(systemField);
  return h(
    "section",
    { class: "panel pad chat-options", id: "chat-options", hidden: true },
    view.onlyModels.slice(0, 2),
    check("hold"),
    clock,
    systemField,
    h("p", { class: "small muted agent-note" }, say("chat.agent_options")),
  );
}

function toggleOptions(view) {
  view.options.hidden = !view.options.hidden;
  setAttribute(view.optionsButton, "aria-expanded", String(!view.options.hidden));
}

function drawComposer(view) {
  view.text = h("textarea", {
    rows: 2,
    "aria-label": say("chat.message"),
    onkeydown: (event) => typed(view, event),
    oninput: () => ((talk.draft = view.text.value), writeComposer(view)),
  });
  view.send = h("button", { type: "submit", class: "primary" }, say("chat.send"));
  view.stop = h("button", { type: "button", hidden: true, onclick: () => (stop(), focusText(view)) }, say("chat.stop"));
  const help = h(
    "span",
    { class: "small muted hide-s" },
    h("kbd", {}, "Enter"),
    ` ${say("chat.enter_sends")}  `,
    h("kbd", {}, "Esc"),
    ` ${say("chat.esc_stops")}`,
  );
  const submit = (event) => {
    event.preventDefault();
    send(view);
  };
  return h(
    "form",
    { class: "composer", onsubmit: submit },
    view.text,
    h("div", { class: "line" }, help, h("div", { class: "buttons" }, view.stop, view.send)),
  );
}

function typed(view, event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send(view);
}

async function readTargets(view) {
  try {
    const [models, agents] = await Promise.all([get("/v1/models"), get("/api/agents")]);
    [view.models, view.agents] = [models.data, agents.agents];
  } catch (error) {
    fill(
      view.trouble,
      failure(error, () => readTargets(view)),
    );
    return;
  }
  fill(view.trouble);
  const wanted = view.query.get("agent")
    ? `agent:${view.query.get("agent")}`
    : `model:${view.query.get("model") ?? view.models[0]?.id ?? ""}`;
  const group = (text, options) => (options.length ? h("optgroup", { label: text }, options) : null);
  const option = (kind, id, text) =>
    h("option", { value: `${kind}:${id}`, selected: `${kind}:${id}` === wanted }, text);
  fill(
    view.target,
    group(
      say("chat.models"),
      view.models.map((model) => option("model", model.id, model.id)),
    ),
    group(
      say("chat.agents"),
      view.agents.map((agent) => option("agent", agent.id, agent.name || agent.id)),
    ),
  );
  applyTarget(view);
}

function readTarget(view) {
  const [kind, ...rest] = view.target.value.split(":");
  return { [kind]: rest.join(":") };
}

function chooseTarget(view) {
  const { model = "", agent = "" } = readTarget(view);
  setQuery({ model, agent });
  applyTarget(view);
}

function applyTarget(view) {
  const { agent } = readTarget(view);
  for (const node of view.onlyModels) node.hidden = Boolean(agent);
  view.options.classList.toggle("for-agent", Boolean(agent));
  if (agent && !talk.items.length && view.query.get("session")) talk.load(agent);
  draw(view);
}

function chooseSession(view) {
  const name = view.session.value.trim();
  if (name === talk.session) return;
  talk.begin(name || undefined);
  view.session.value = talk.session;
  setQuery({ session: talk.session, answer: "" });
  applyTarget(view);
}

function beginAnew(view) {
  talk.begin();
  view.session.value = talk.session;
  setQuery({ session: talk.session, answer: "" });
  draw(view);
  view.text.focus();
}

async function send(view) {
  const text = view.text.value.trim();
  const running = talk.running;
  if (!text || (running && !running.isHeld) || !view.target.value) return;
  talk.draft = view.text.value = "";
  setQuery({ session: talk.session, answer: "" });
  const sent = talk.send(text, readTarget(view));
  writeComposer(view);
  view.thread.scrollTop = view.thread.scrollHeight;
  await sent;
}

function stop() {
  if (!talk.running) return false;
  talk.running.stop.abort();
  return true;
}

// What was pressed vanishes. On phones the keyboard stays where it is.
const focusText = (view) => (NARROW.matches ? view.thread : view.text).focus({ preventScroll: true });

// The stream tells often; the page is written once a frame.
function changed(view, answer) {
  if (answer?.exchange && answer === talk.answers().at(-1) && view.query.get("answer") !== answer.exchange)
    setQuery({ answer: answer.exchange });
  if (answer) view.dirty.add(answer);
  if (view.waiting) return;
  view.waiting = true;
  requestAnimationFrame(() => {
    view.waiting = false;
    draw(view);
  });
}

function draw(view) {
  const follow = isAtEnd(view);
  const { items } = talk;
  if (view.shown.length > items.length || view.shown.some((one, i) => one.item !== items[i])) {
    view.shown = [];
    fill(view.thread);
  }
  if (!items.length) drawEmpty(view);
  else if (!view.shown.length) fill(view.thread);
  for (const item of items.slice(view.shown.length)) {
    const made = item.who === "model" ? makeAnswer(item, makeActions(view)) : makeSaid(item);
    view.shown.push({ item, ...made });
    view.thread.append(made.node);
  }
  for (const one of view.shown) if (view.dirty.has(one.item)) one.update();
  view.dirty.clear();
  writeAside(view);
  writeComposer(view);
  announce(view);
  if (follow) scrollToEnd(view);
}

function makeSaid(item) {
  const node = h("article", {
    class: `said ${item.who === "user" ? "user" : "model"}`,
    "aria-label": say(item.who === "user" ? "chat.you" : "chat.answer"),
  });
  writeProse(node, item.text);
  return { node, update() {}, tick() {} };
}

function drawEmpty(view) {
  if (view.thread.firstChild?.className === "empty chat-empty") return;
  const examples = view.app.me.demo ? ["example_hold", "example_go_on", "example_time"] : [];
  const use = (text) => {
    talk.draft = view.text.value = text;
    view.text.focus();
    writeComposer(view);
  };
  fill(
    view.thread,
    h(
      "div",
      { class: "empty chat-empty" },
      h("p", {}, say("chat.empty")),
      h(
        "div",
        { class: "chips wrap" },
        examples.map((name) =>
          h("button", { type: "button", class: "chip", onclick: () => use(say(`chat.${name}`)) }, say(`chat.${name}`)),
        ),
      ),
    ),
  );
}

const makeActions = (view) => ({
  endHold: (answer) => (focusText(view), talk.endHold(answer).catch(toastError)),
  cancelReminder: (answer) =>
    (focusText(view), talk)
      .cancelReminder(answer)
      .then((one) => toast(one ? say("chat.cancelled", { task: one.task }) : say("chat.no_reminder")), toastError),
  choose: (answer) => setQuery({ answer: answer.exchange }),
});

const isAtEnd = (view) =>
  NARROW.matches
    ? scrollY + innerHeight > document.documentElement.scrollHeight - 160
    : view.thread.scrollTop + view.thread.clientHeight > view.thread.scrollHeight - 80;

function scrollToEnd(view) {
  if (!talk.items.length) return;
  if (NARROW.matches) scrollTo(0, document.documentElement.scrollHeight);
  else view.thread.scrollTop = view.thread.scrollHeight;
}

function takeTrails(view, topics) {
  for (const answer of talk.answers()) {
    if (!answer.exchange || !topics.has(`exchange:${answer.exchange}`)) continue;
    const trail = view.app.store.row(`exchange:${answer.exchange}`, "trail");
    if (trail) answer.takeTrail(trail);
    view.dirty.add(answer);
    changed(view, null);
  }
}

const chosenAnswer = (view) =>
  talk.answers().find((one) => one.exchange && one.exchange === view.query.get("answer")) ??
  talk.answers().at(-1) ??
  null;

function writeAside(view) {
  const answer = chosenAnswer(view);
  view.aside.hidden = !answer;
  if (!answer) return;
  const word = answer.isHeld ? say("chat.holding_left", { time: showLeft(answer.until - now()) }) : undefined;
  setState(view.stepsState, answer.state, { pill: true, ...(word && { word }) });
  setAttribute(view.stepsOpen, "href", answer.exchange ? href("exchange", { id: answer.exchange }) : null);
  const seen = answer.trail ? `${answer.trail.id} ${answer.trail.version} ${answer.trail.state}` : "";
  if (view.steps.dataset.seen === seen) return;
  view.steps.dataset.seen = seen;
  fill(view.steps, answer.trail ? drawSteps(answer.trail) : h("li", { class: "none muted" }, say("chat.no_trail")));
}

function writeComposer(view) {
  const running = talk.running;
  if (view.text.value !== talk.draft) view.text.value = talk.draft;
  view.stop.hidden = !running;
  view.send.hidden = Boolean(running) && !(running.isHeld && view.text.value.trim());
  setAttribute(view.text, "placeholder", say(running?.isHeld ? "chat.write_held" : "chat.write"));
  view.app.setEditing(view.text.value.trim() !== "" || Boolean(running));
}

// Heard by screen readers: the begin and the end of a hold, and the end of the answer, each once.
function announce(view) {
  const answer = talk.answers().at(-1);
  if (!answer) return;
  const tell = (key, text) => {
    if (view.told.has(key)) return;
    view.told.add(key);
    setText(view.news, text);
  };
  const hold = `${answer.requestId} ${answer.until}`;
  if (answer.isHeld) tell(`${hold} begins`, say("chat.hold_begins", { time: showClock(answer.until) }));
  else if (answer.until && view.told.has(`${hold} begins`)) tell(`${hold} ends`, say("chat.hold_ends"));
  if (!answer.isOpen && view.told.has(answer.requestId))
    tell(`${answer.requestId} ended`, `${say("chat.answer")}: ${say(`state.${answer.state}`)}`);
  if (answer.isOpen) view.told.add(answer.requestId);
}

function tick(view) {
  if (!talk.running) return;
  for (const one of view.shown) if (one.item.isOpen) one.tick();
  writeAside(view);
}
