// What the gateway did, step by step, in sentences made from the trail.
import { h, setAttribute, setText } from "../h.js";
import { showClock, showDuration, showMoment, showSize } from "../times.js";
import { say, sayCount, sayOr } from "../words.js";
import { glyph } from "./state.js";

// So many milliseconds apart, first frame and first byte are one step.
const SAME = 5;
// A trail has no more of them: how many there were is then not known.
const MOST_BEATS = 64;

/** The steps of a trail: [{ at, state, text }], in the order of time. */
export function tellStory(trail) {
  const steps = [];
  for (const turn of trail.turns) {
    steps.push(...tellTries(trail, turn));
    if (turn.first !== null) steps.push(...tellFirst(trail, turn));
    if (turn.stop === "broke")
      steps.push(...tellBreak(trail, turn));
  }
  steps.push(...trail.tools.map(tellTool), ...trail.holds.map((hold) => tellHold(trail, hold)));
  steps.sort((a, b) => a.at - b.at);
  if (trail.ended !== null) steps.push(tellEnd(trail));
  return steps;
}

function tellTries(trail, turn) {
  return turn.tries.flatMap((one, i) => {
    const asked = i === 0 ? [{ at: one.at, state: "opening", text: tellWhy(trail, turn, one.route) }] : [];
    return isRefused(one) ? [...asked, tellRefused(one, turn.tries[i + 1])] : asked;
  });
}

/** Whether a route was asked in vain. */
export const isRefused = (one) => one.code !== "" && one.ended !== null;

function tellWhy(trail, turn, route) {
  const [round, rounds] = turn.round ?? ["", ""];
  const values = { route, model: trail.model, n: turn.n, round, rounds };
  return say(`exchange.asked_${turn.why}${turn.why === "request" && turn.n > 1 ? "_again" : ""}`, values);
}

function tellRefused(one, next) {
  const how = one.status
    ? say("exchange.answered", { route: one.route, status: one.status, code: one.code })
    : say("exchange.unreachable", { route: one.route, code: one.code });
  return {
    at: one.ended,
    state: "failed",
    text: `${how}${say("exchange.gap")}${next ? say("exchange.asked_next", { route: next.route }) : say("exchange.no_next")}`,
  };
}

function tellFirst(trail, turn) {
  const isFirst =
    trail.first !== null && turn.bytes > 0 && !trail.turns.some((other) => other.n < turn.n && other.bytes > 0);
  // What comes in one piece reaches the client long after its first frame.
  const isSame = isFirst && trail.first - turn.first <= SAME;
  const parts = [say(isSame ? "exchange.first_byte_said" : "exchange.first_frame_said", { n: turn.n })];
  const names = [...new Set(trail.tools.filter((tool) => tool.turn === turn.n).map((tool) => tool.name))];
  if (names.length) parts.push(say("exchange.called", { tools: names.join(", ") }));
  if (turn.ended !== null && turn.bytes > 0 && turn.stop !== "broke") parts.push(tellSaid(turn));
  if (turn.was_cut && turn.stop !== "broke") parts.push(say("exchange.was_cut"));
  const step = { at: turn.first, state: "relaying", text: parts.join(say("exchange.gap")) };
  if (!isFirst || isSame) return [step];
  return [step, { at: trail.first, state: "relaying", text: say("exchange.first_byte_said") }];
}

function tellSaid(turn) {
  const values = {
    n: turn.n,
    size: showSize(turn.bytes),
    time: showDuration(turn.ended - turn.first),
    stop: turn.stop || "–",
  };
  return turn.usage
    ? say("exchange.said_tokens", { ...values, tokens: turn.usage.output })
    : say("exchange.said_bytes", values);
}

// A turn that was given up, because its client left or somebody cut it off, did not break.
const tellBreak = (trail, turn) =>
  trail.state === "gone" || trail.code === "cut_off"
    ? []
    : [{ at: turn.ended, state: "failed", text: say("exchange.broke", { n: turn.n }) }];

function tellTool(tool) {
  const name = [tool.name, tool.action].filter(Boolean).join(" ");
  return {
    at: tool.at,
    state: tool.ok === false ? "failed" : "tooling",
    text: say(tool.ok === false ? "exchange.tool_failed" : "exchange.tool_ran", {
      name,
      time: showDuration(tool.ms ?? 0),
    }),
  };
}

function tellHold(trail, hold) {
  if (hold.ended === null) {
    return {
      at: hold.at,
      state: "holding",
      text: say("exchange.holds", { time: showClock(trail.begun_at + hold.until) }),
    };
  }
  const isWhole = trail.beats.length < MOST_BEATS;
  const beats = isWhole ? trail.beats.filter((at) => at > hold.at && at <= hold.ended).length : 0;
  const how = sayOr(`exchange.hold_${hold.outcome}`, hold.outcome ?? "");
  const text = say("exchange.held_said", { time: showDuration(hold.ended - hold.at), how });
  return {
    at: hold.at,
    state: "holding",
    text: beats ? `${text}${say("exchange.gap")}${sayCount("exchange.beats", beats)}` : text,
  };
}

function tellEnd(trail) {
  const last = trail.turns.at(-1);
  const parts = [say(`exchange.end_${trail.state}`)];
  if (trail.state === "failed" && trail.message) parts.push(`${trail.message}${trail.code ? ` (${trail.code})` : ""}`);
  if (trail.state === "gone" && last?.was_cut && last.closed !== null)
    parts.push(say("exchange.closed_after", { time: showDuration(Math.max(0, last.closed - trail.ended)) }));
  return { at: trail.ended, state: trail.state, text: parts.join(say("exchange.gap")) };
}

/** The steps as a list: { node, update(steps, chosen) }. Rows are kept; only what changed is written. */
export function makeStory(choose) {
  const node = h("ol", { class: "story" });
  const update = (steps, chosen = -1) => {
    while (node.childElementCount > steps.length) node.lastChild.remove();
    steps.forEach((step, i) =>
      writeStep(node.children[i] ?? node.appendChild(makeStep(() => choose(i))), step, i === chosen),
    );
  };
  return { node, update };
}

const makeStep = (press) => h("li", { onclick: press }, h("span", { class: "at" }), glyph("opening"), h("span", {}));

function writeStep(li, step, chosen) {
  if (li.dataset.state !== step.state) {
    li.dataset.state = step.state;
    li.children[1].replaceWith(glyph(step.state));
  }
  setText(li.firstChild, showMoment(step.at));
  setText(li.lastChild, step.text);
  setAttribute(li, "class", chosen ? "chosen" : null);
}
