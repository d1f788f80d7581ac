// One answer in Chat: its turns divided, tools between them, a hold as a ring.
import { fill, h, setAttribute, setText } from "../h.js";
import { href } from "../router.js";
import { moving, now, setMoving, showClock, showDuration } from "../times.js";
import { say, sayOr } from "../words.js";
import { writeProse } from "./prose.js";
import { glyph, setState, stateWord } from "./state.js";
import { closedAfter, drawSteps, nameTool } from "./steps.js";

const AROUND = 2 * Math.PI * 18;
const DIVIDED = new Set(["reminder", "stop_message", "result"]);

/** { node, update(), tick() }. on: { endHold(answer), cancelReminder(answer), choose(answer) }. */
export function makeAnswer(answer, on) {
  const turns = h("div", { class: "turns" });
  const ring = makeRing(answer, on);
  const wait = h("p", { class: "faint waits", "aria-hidden": "true" }, "…");
  const failed = h("div", { class: "said-error", role: "alert", hidden: true });
  const foot = makeFoot(answer, on);
  const node = h(
    "article",
    { class: "said model", "aria-label": say("chat.answer") },
    turns,
    wait,
    ring.node,
    failed,
    foot.node,
  );
  const update = () => {
    writeTurns(turns, answer);
    wait.hidden = !answer.isOpen || answer.isHeld || (answer.state === "relaying" && answer.text !== "");
    ring.update();
    writeError(failed, answer);
    foot.update();
  };
  update();
  return { node, update, tick: () => ring.update() };
}

function writeTurns(node, answer) {
  const trail = answer.trail;
  const numbers = new Set([...answer.turns.map((turn) => turn.n), ...(trail?.turns ?? []).map((turn) => turn.n)]);
  const all = [...numbers].sort((a, b) => a - b);
  while (node.childElementCount < all.length) {
    node.append(
      h(
        "div",
        { class: "turn" },
        h("div", { class: "divider" }),
        h("details", { class: "thinking", hidden: true }, h("summary", {}, say("chat.thinking")), h("p", {})),
        h("div", { class: "prose" }),
        h("div", { class: "after" }),
      ),
    );
  }
  all.forEach((n, i) => writeTurn(node.children[i], answer, n));
}

function writeTurn(node, answer, n) {
  const [divider, thinking, prose, after] = node.children;
  const turn = answer.turns.find((one) => one.n === n);
  const trail = answer.trail;
  const about = trail?.turns.find((one) => one.n === n);
  const held = trail?.holds.filter((hold) => hold.turn === n && hold.ended !== null) ?? [];
  const tools = trail?.tools.filter((tool) => tool.turn === n) ?? [];
  setOnce(divider, JSON.stringify([about?.why, about?.round]), () => drawDivider(about, n));
  thinking.hidden = !turn?.thinking;
  if (turn?.thinking) setText(thinking.lastChild, turn.thinking);
  writeProse(prose, turn?.text ?? "");
  setOnce(after, JSON.stringify([tools, held]), () => [
    tools.map((tool) => drawTool(tool, answer)),
    held.map(drawHeld),
  ]);
}

function setOnce(node, seen, make) {
  if (node.dataset.seen === seen) return;
  node.dataset.seen = seen;
  fill(node, make());
}

function drawDivider(turn, n) {
  if (!turn || !DIVIDED.has(turn.why)) return [];
  const [used, max] = turn.round ?? [];
  return h(
    "span",
    { class: "between" },
    glyph(turn.why === "reminder" ? "reminder" : "opening"),
    say(`chat.turn_${turn.why}`, { n, used, max }),
  );
}

function drawTool(tool, answer) {
  const state = tool.ok === false ? "failed" : "tooling";
  const time = tool.ms === null ? "" : showDuration(tool.ms);
  const note = answer.asked.agent ? time : say("chat.hidden_tool", { time });
  return h(
    "div",
    { class: "chipline" },
    glyph(state),
    h("span", { class: `s-${state}` }, nameTool(tool)),
    h("span", { class: "muted small" }, note),
  );
}

const drawHeld = (hold) =>
  h(
    "div",
    { class: "chipline" },
    glyph("holding"),
    h(
      "span",
      { class: "s-holding" },
      `${say("exchange.held_for", { time: showDuration(hold.ended - hold.at) })} · ${sayOr(`exchange.outcome_${hold.outcome}`, hold.outcome)}`,
    ),
  );

function makeRing(answer, on) {
  const arc = h("circle", { cx: 22, cy: 22, r: 18, class: "ring-left k-holding", transform: "rotate(-90 22 22)" });
  const drawing = h(
    "svg",
    { viewBox: "0 0 44 44", width: 44, height: 44, "aria-hidden": "true" },
    h("circle", { cx: 22, cy: 22, r: 18, class: "ring" }),
    arc,
  );
  const left = moving("until", now());
  left.classList.add("countdown", "big", "s-holding");
  const why = h("span", {});
  const end = h("button", { type: "button", onclick: () => on.endHold(answer) }, say("chat.end_now"));
  const cancel = h(
    "button",
    { type: "button", class: "quiet", onclick: () => on.cancelReminder(answer) },
    say("chat.cancel_reminder"),
  );
  const node = h(
    "div",
    { class: "waiting dims", hidden: true },
    drawing,
    h("div", { class: "two" }, left, why),
    h("div", { class: "buttons" }, end, cancel),
  );
  const update = () => {
    node.hidden = !answer.isHeld;
    if (node.hidden) return;
    setMoving(left, "until", answer.until);
    setText(why, say("chat.held_until", { time: showClock(answer.until) }));
    const part = Math.max(0, Math.min(1, (answer.until - now()) / Math.max(1, answer.until - answer.heldFrom)));
    setAttribute(arc, "stroke-dasharray", `${(part * AROUND).toFixed(1)} ${AROUND.toFixed(1)}`);
    end.hidden = !answer.exchange;
    cancel.hidden = !answer.asked.session;
  };
  return { node, update };
}

function writeError(node, answer) {
  node.hidden = !answer.error;
  if (answer.error)
    setOnce(node, `${answer.error.message} ${answer.error.code}`, () => [
      glyph("failed"),
      h("span", {}, answer.error.message, " ", h("span", { class: "mono small" }, answer.error.code)),
    ]);
}

function makeFoot(answer, on) {
  const word = stateWord(answer.state);
  const about = h("span", { class: "small muted" });
  const open = h("a", { class: "small only-wide" }, say("chat.open"));
  const choose = h(
    "button",
    { type: "button", class: "link small only-wide", onclick: () => on.choose(answer) },
    say("chat.this_answer"),
  );
  const steps = h("ol", { class: "steps" });
  const more = h(
    "details",
    { class: "steps-fold" },
    h("summary", {}, say("chat.this_answer")),
    steps,
    h("a", { class: "small" }, say("chat.open")),
  );
  const node = h("footer", { class: "said-foot dims" }, word, about, choose, open, more);
  const update = () => {
    setState(word, answer.state);
    word.hidden = answer.isHeld;
    setText(about, describeEnd(answer));
    for (const link of [open, more.lastChild]) {
      setAttribute(link, "href", answer.exchange ? href("exchange", { id: answer.exchange }) : null);
      link.hidden = !answer.exchange;
    }
    more.hidden = !answer.trail;
    choose.hidden = open.hidden = !answer.trail || answer.isOpen;
    if (answer.trail)
      setOnce(steps, `${answer.trail.id} ${answer.trail.version} ${answer.trail.state}`, () => drawSteps(answer.trail));
  };
  return { node, update };
}

/** "1.6 s" of an answer that ended; of one that was stopped, when its upstream closed. */
function describeEnd(answer) {
  const trail = answer.trail;
  if (answer.isStopped) {
    const close = trail && closedAfter(trail);
    return close === null || close === undefined
      ? say("chat.stopped")
      : say("chat.stopped_closed", { time: showDuration(close) });
  }
  if (!trail || trail.ended === null) return "";
  const tokens = trail.usage ? say("chat.tokens_both", { input: trail.usage.input, output: trail.usage.output }) : "";
  return [showDuration(trail.ended), tokens].filter(Boolean).join(" · ");
}
