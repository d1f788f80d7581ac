// The exchange view: one answer over its turns, live and afterwards.
import { get, post } from "../api.js";
import { fill, h, icon, setAttribute, setText } from "../h.js";
import { confirmDialog } from "../parts/dialog.js";
import { failure, loading } from "../parts/empty.js";
import { drawMachine } from "../parts/machine.js";
import { setState, stateWord } from "../parts/state.js";
import { makeStory, tellStory } from "../parts/story.js";
import { drawStrip, makeStrip } from "../parts/strip.js";
import { drawTimeline, sayWhy } from "../parts/timeline.js";
import { copyText, toast, toastError } from "../parts/toast.js";
import { go, href, sessionHref, setQuery } from "../router.js";
import { now, showDuration, showFull, showLeft, showMoment, showNumber, showSize, showTime } from "../times.js";
import { say, sayOr } from "../words.js";

const ENDS = ["done", "failed", "gone"];

export function createPage(app) {
  const view = { app, id: "", trail: null, read: null, chosen: -1, trueScale: false, drawn: "", state: "" };
  return {
    topics: (query) => (query.get("id") ? [`exchange:${query.get("id")}`] : []),
    mount(main, query) {
      view.main = main;
      bindKeys(view);
      open(view, query);
    },
    update(change) {
      if (change.query && change.query.get("id") !== view.id) open(view, change.query);
      if (change.topics.has(`exchange:${view.id}`)) takeTold(view, app.store.row(`exchange:${view.id}`, "trail"));
      if (change.tick && view.trail?.ended === null) write(view);
    },
    leave() {
      view.read?.abort();
      view.watcher?.disconnect();
    },
  };
}

async function open(view, query) {
  Object.assign(view, { id: query.get("id") ?? "", trail: null, chosen: -1, drawn: "", state: "" });
  view.read?.abort();
  view.read = new AbortController();
  fill(view.main, loading(6));
  try {
    const trail = await get(`/api/console/exchanges/${encodeURIComponent(view.id)}`, {}, view.read.signal);
    // A client knows only its request id: the address gets the exchange's own.
    if (trail.id === view.id) takeTrail(view, trail);
    else setQuery({ id: trail.id });
  } catch (error) {
    if (error.name !== "AbortError" && !view.trail)
      fill(
        view.main,
        makeCrumb(view),
        failure(error, () => open(view, query)),
      );
  }
}

// A gateway that began anew no longer knows what was under way: that is not shown as if it went on.
function takeTold(view, trail) {
  if (trail || view.trail?.ended !== null) takeTrail(view, trail);
  else open(view, new URLSearchParams({ id: view.id }));
}

// The feed and the first read may come in any order: the newer one counts.
function takeTrail(view, trail) {
  if (!trail || trail.id !== view.id || (view.trail && trail.version < view.trail.version)) return;
  const first = view.trail === null;
  view.trail = trail;
  if (first) drawPage(view);
  write(view);
}

const makeCrumb = (view) =>
  h(
    "div",
    { class: "small muted crumb" },
    h("a", { href: href("live") }, say("live.title")),
    " / ",
    say("exchange.title"),
    " ",
    h("span", { class: "mono small" }, view.id),
  );

function drawPage(view) {
  const { trail } = view;
  const button = (text, run, kind) => h("button", { type: "button", class: kind, onclick: run }, text);
  view.pill = stateWord(trail.state, { pill: true });
  view.end = button(say("exchange.end_hold"), () => endHold(view), "hold");
  view.cut = button(say("exchange.cut"), () => cut(view));
  view.figures = h("dl", { class: "panel figures dims" });
  view.drawing = h("div", {
    class: "pad hide-s drawing-box",
    tabindex: 0,
    role: "group",
    "aria-label": say("exchange.timeline_keys"),
  });
  view.caption = h("p", { class: "caption small muted", "aria-live": "polite" });
  view.strip = makeStrip(22);
  view.legend = h("div", { class: "legend" });
  view.machine = h("div", { class: "pad scrolls", role: "group", "aria-label": say("exchange.machine") });
  view.turns = h("tbody");
  view.story = makeStory((i) => chooseStep(view, i));
  view.spoken = h("p", { class: "visually-hidden", "aria-live": "polite" });
  view.scale = button("", () => toggleScale(view), "quiet hide-s");
  view.scale.append(h("span", {}, say("exchange.true_scale")), h("kbd", {}, "t"));
  fill(view.main, makeHead(view, button), makeBody(view), view.spoken);
  view.watcher?.disconnect();
  view.watcher = new ResizeObserver(() => {
    drawTime(view);
    if (view.trail && view.machine.clientWidth !== view.machineWidth) drawStates(view);
  });
  view.watcher.observe(view.drawing);
  view.watcher.observe(view.machine);
}

function makeHead(view, button) {
  const { trail } = view;
  const step = (key, by, face) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet square",
        "aria-label": say(key),
        title: say(key),
        onclick: () => goToNeighbour(view, by),
      },
      face,
    );
  return h(
    "div",
    { class: "head exchange-head" },
    h("div", {}, makeCrumb(view), h("h1", {}, trail.session ?? say("exchange.title"))),
    view.pill,
    h(
      "div",
      { class: "right" },
      view.end,
      view.cut,
      button(say("exchange.copy"), () => copyText(view.id), "quiet"),
      step("exchange.newer", -1, icon("back")),
      step("exchange.older", 1, icon("open")),
    ),
  );
}

function makeBody(view) {
  const panel = (title, note, kind, ...body) =>
    h("section", { class: `panel ${kind}` }, h("header", {}, h("h2", {}, title), note), body);
  const small = (text) => h("span", { class: "small muted hide-s" }, text);
  view.foldNote = small("");
  const heads = ["turn", "why", "route", "first_frame", "took", "tokens", "bytes"];
  const table = h(
    "table",
    { class: "table turn-table" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        heads.map((name, i) => h("th", { scope: "col", class: i > 2 ? "num" : null }, say(`exchange.col_${name}`))),
      ),
    ),
    view.turns,
  );
  return h(
    "div",
    { class: "grid" },
    view.figures,
    panel(
      say("exchange.timeline"),
      [view.foldNote, h("div", { class: "right" }, view.scale)],
      "dims",
      view.drawing,
      h("div", { class: "hide-s caption-box" }, view.caption),
      h("div", { class: "only-s pad" }, view.strip, view.legend),
    ),
    h(
      "div",
      { class: "grid lower" },
      h(
        "div",
        { class: "grid" },
        panel(say("exchange.machine"), small(say("exchange.machine_note")), "dims", view.machine),
        panel(
          say("exchange.turns"),
          null,
          "hide-s dims",
          h("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": say("exchange.turns") }, table),
        ),
      ),
      panel(say("exchange.story"), null, "dims", view.story.node),
    ),
    makeFacts(view),
  );
}

function makeFacts({ trail, app }) {
  const facts = [
    [
      "begun",
      h(
        "time",
        { datetime: new Date(trail.begun_at).toISOString(), title: showFull(trail.begun_at) },
        showTime(trail.begun_at),
      ),
    ],
    ["owner", trail.owner],
    ["kind", say(`exchange.kind_${trail.kind}`)],
    ["dialect", trail.dialect],
    ["model", trail.model],
    [
      "session",
      trail.session === null
        ? null
        : h("a", { href: sessionHref({ sessionId: trail.session, owner: trail.owner }, app.me) }, trail.session),
    ],
    ["agent", trail.agent],
    ["job", trail.job && h("a", { href: href("jobs", { id: trail.job }) }, trail.job)],
    ["run", trail.run],
    ["stream", say(trail.stream ? "exchange.stream_yes" : "exchange.stream_no")],
    ["request_id", trail.request_id === trail.id ? null : trail.request_id],
  ];
  return h(
    "dl",
    { class: "panel exchange-facts" },
    facts
      .filter(([, value]) => value)
      .map(([name, value]) => h("div", {}, h("dt", {}, say(`exchange.fact_${name}`)), h("dd", {}, value))),
  );
}

function bindKeys(view) {
  view.app.keys.setPage([
    { key: "ArrowRight", say: "exchange.key_next", run: () => stepChosen(view, 1) },
    { key: "ArrowLeft", say: "exchange.key_before", run: () => stepChosen(view, -1) },
    { key: "t", say: "exchange.true_scale", run: () => toggleScale(view) },
    { key: "[", say: "exchange.newer", run: () => goToNeighbour(view, -1) },
    { key: "]", say: "exchange.older", run: () => goToNeighbour(view, 1) },
    { key: "Escape", say: "frame.key_back", run: () => go("live") },
  ]);
}

const msOf = (trail) => trail.ended ?? Math.max(0, now() - trail.begun_at);
const liveHold = (trail) => (trail.ended === null ? trail.holds.find((hold) => hold.ended === null) : undefined);

function write(view) {
  const { trail } = view;
  const hold = liveHold(trail);
  view.steps = tellStory(trail);
  setState(view.pill, trail.state, {
    pill: true,
    word: hold
      ? `${say("state.holding")} ${showLeft(trail.begun_at + hold.until - now())}`
      : say(`state.${trail.state}`),
  });
  view.end.hidden = trail.state !== "holding";
  view.cut.hidden = trail.ended !== null;
  writeFigures(view);
  view.story.update(view.steps, view.chosen);
  drawTime(view);
  drawStrip(view.strip, { ...trail, until: hold ? trail.begun_at + hold.until : null }, now());
  if (view.drawn === `${trail.version}`) return;
  view.drawn = `${trail.version}`;
  writeChanged(view);
}

// What only changes with the trail, and not with time.
function writeChanged(view) {
  const { trail } = view;
  const names = [...new Set(trail.states.map(([, state]) => state))].filter((state) => !ENDS.includes(state));
  fill(
    view.legend,
    names.map((state) => stateWord(state)),
  );
  drawStates(view);
  fill(view.turns, trail.turns.map(makeTurn));
  if (view.state && view.state !== trail.state && (view.state === "holding" || trail.state === "holding")) {
    setText(view.spoken, say(trail.state === "holding" ? "exchange.spoken_hold" : "exchange.spoken_go_on"));
  }
  view.state = trail.state;
}

function writeFigures({ figures, trail }) {
  const held = trail.holds.reduce((sum, hold) => sum + (hold.ended ?? msOf(trail)) - hold.at, 0);
  const last = trail.holds.at(-1);
  const tries =
    trail.turns.at(-1)?.tries.length > 1 ? trail.turns.at(-1).tries.length : (trail.turns[0]?.tries.length ?? 1);
  const tokens = trail.usage ? `${showNumber(trail.usage.input)} / ${showNumber(trail.usage.output)}` : "–";
  const values = [
    ["whole", showDuration(msOf(trail)), ""],
    ["first", trail.first === null ? "–" : showDuration(trail.first), ""],
    [
      "held",
      trail.holds.length ? showDuration(held) : "–",
      last?.outcome ? sayOr(`exchange.outcome_${last.outcome}`, last.outcome) : "",
    ],
    ["turns", String(trail.turns.length), ""],
    ["bytes", showSize(trail.bytes), ""],
    ["tokens", tokens, trail.usage ? "" : say("exchange.not_reported")],
    ["route", trail.route.split("/")[0] || "–", tries > 1 ? say("exchange.route_nth", { n: tries }) : ""],
  ];
  values.forEach(([name, value, note], i) => {
    const box =
      figures.children[i] ??
      figures.appendChild(h("div", {}, h("dt", {}, say(`exchange.fig_${name}`)), h("dd", {}, h("span"), h("small"))));
    setText(box.lastChild.firstChild, value);
    setText(box.lastChild.lastChild, note ? ` ${note}` : "");
    setAttribute(box.lastChild, "title", name === "route" ? trail.route : null);
  });
}

function makeTurn(turn) {
  const asked = turn.tries.at(-1)?.at ?? 0;
  const cell = (text, kind) => h("td", { class: kind }, text);
  return h(
    "tr",
    {},
    cell(turn.n, "faint"),
    cell(sayWhy(turn)),
    cell(turn.tries.at(-1)?.route ?? "–", "muted"),
    cell(turn.first === null ? "–" : showDuration(turn.first - asked), "num"),
    cell(turn.ended === null ? "–" : showDuration(turn.ended - turn.tries[0].at), "num"),
    cell(turn.usage ? showNumber(turn.usage.output) : "–", "num"),
    cell(turn.bytes ? showSize(turn.bytes) : "–", "num"),
  );
}

function drawStates(view) {
  const { machine } = view;
  view.machineWidth = machine.clientWidth;
  fill(machine, drawMachine(view.trail, machine.clientWidth - 32));
  setAttribute(machine, "tabindex", machine.scrollWidth > machine.clientWidth ? 0 : null); // arrows scroll it
}

function drawTime(view) {
  // Larger text makes a larger drawing: it is drawn for less room, and shown in all of it.
  const width = (view.drawing.clientWidth - 32) / (parseFloat(getComputedStyle(document.documentElement).fontSize) / 16);
  if (!view.trail || width < 200) return;
  const { svg, place, isFolded } = drawTimeline(view.trail, { width, at: msOf(view.trail), trueScale: view.trueScale });
  const step = view.steps?.[view.chosen];
  if (step)
    svg.append(
      h("line", {
        x1: place(step.at),
        x2: place(step.at),
        y1: 18,
        y2: svg.viewBox.baseVal.height - 8,
        class: "step-cursor",
      }),
    );
  view.drawing.replaceChildren(svg);
  setText(view.foldNote, isFolded ? say("exchange.folded") : "");
  setText(view.caption, step ? `${showMoment(step.at)}  ${step.text}` : "");
  setAttribute(view.scale, "aria-pressed", String(view.trueScale));
}

// A box that is wider than its place is scrolled by the same keys.
function isScrolled() {
  const box = document.activeElement.closest(".scrolls");
  return box !== null && box.scrollWidth > box.clientWidth;
}

function stepChosen(view, by) {
  if (!view.steps?.length || isScrolled()) return false;
  const from = view.chosen === -1 && by < 0 ? view.steps.length : view.chosen;
  chooseStep(view, Math.max(0, Math.min(view.steps.length - 1, from + by)));
}

function chooseStep(view, i) {
  view.chosen = i;
  view.story.update(view.steps, i);
  drawTime(view);
}

function toggleScale(view) {
  view.trueScale = !view.trueScale;
  drawTime(view);
}

const path = (view, action) => `/api/console/exchanges/${encodeURIComponent(view.id)}/${action}`;

async function endHold(view) {
  if (view.isEnding) return;
  view.isEnding = true;
  await post(path(view, "end_hold")).catch(toastError);
  view.isEnding = false;
}

async function cut(view) {
  const sure = await confirmDialog({
    title: say("exchange.cut_title"),
    text: say("exchange.cut_text"),
    yes: say("exchange.cut"),
  });
  if (sure) await post(path(view, "cut")).catch(toastError);
}

async function goToNeighbour(view, by) {
  try {
    const { exchanges } = await get("/api/console/exchanges", { limit: 500 });
    const at = exchanges.findIndex((row) => row.id === view.id);
    const next = exchanges[at + by];
    if (at === -1 || !next) toast(say("exchange.no_neighbour"), { seconds: 2 });
    else go("exchange", { id: next.id });
  } catch (error) {
    toastError(error);
  }
}
