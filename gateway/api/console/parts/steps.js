// What the gateway did for one answer, step by step, read from its trail.
import { h } from "../h.js";
import { moving, showClock, showDuration, showNumber } from "../times.js";
import { say, sayCount, sayOr } from "../words.js";
import { glyph } from "./state.js";

const at = (ms) => showDuration(ms);

/** The steps: { at, state, text (a text or nodes), note, kind: "" | "on" | "ahead" }, in their order. */
export function listSteps(trail) {
  const steps = [...trail.turns.flatMap((turn) => turnSteps(trail, turn)), ...trail.tools.map(toolStep), ...trail.holds.flatMap((hold) => holdSteps(trail, hold))];
  // Of two at the same time, the one that was listed first happened first.
  const sorted = steps.sort((a, b) => a.at - b.at);
  return [...sorted, ...endSteps(trail)];
}

function turnSteps(trail, turn) {
  const steps = [];
  for (const [i, one] of turn.tries.entries()) {
    const key = i === 0 ? `chat.asked_${turn.why}` : "chat.asked_next";
    const round = turn.round ? { used: turn.round[0], max: turn.round[1] } : {};
    steps.push({ at: one.at, state: "opening", text: say(key, { n: turn.n, route: one.route, ...round }), note: at(one.at) });
    if (one.code) steps.push({ at: one.ended ?? one.at, state: "failed", text: say("chat.refused", { route: one.route, code: one.code }), note: [at(one.ended ?? one.at), one.status || ""].filter(Boolean).join(", ") });
  }
  if (turn.first !== null) {
    const isFirst = trail.first !== null && turn.first >= trail.first && !trail.turns.some((other) => other.n < turn.n && other.first !== null && other.first >= trail.first);
    const tokens = turn.usage ? sayCount("chat.tokens", turn.usage.output) : "";
    steps.push({ at: turn.first, state: "relaying", text: say(isFirst ? "chat.first_byte" : "chat.first_frame"), note: [at(turn.first), tokens].filter(Boolean).join(", ") });
  }
  return steps;
}

const toolStep = (tool) => ({
  at: tool.at, state: tool.ok === false ? "failed" : "tooling", text: nameTool(tool),
  note: tool.ms === null ? at(tool.at) : say("chat.took", { at: at(tool.at), time: showDuration(tool.ms) }),
});

/** clock schedule */
export const nameTool = (tool) => [tool.name, tool.action].filter(Boolean).join(" ");

function holdSteps(trail, hold) {
  if (hold.ended !== null) {
    const outcome = sayOr(`chat.outcome_${hold.outcome}`, hold.outcome);
    return [{ at: hold.at, state: "holding", text: say("chat.held", { time: showDuration(hold.ended - hold.at), outcome }), note: at(hold.at) }];
  }
  const beats = trail.beats.filter((beat) => beat >= hold.at).length;
  const until = trail.begun_at + hold.until;
  return [
    { at: hold.at, state: "holding", kind: "on", text: moving("until", until, "chat.holding_until"), note: say("chat.since", { at: at(hold.at), beats: sayCount("chat.beats", beats) }) },
    { at: hold.until, state: "off", kind: "ahead", text: say("chat.ahead", { n: trail.turns.length + 1 }), note: showClock(until) },
  ];
}

function endSteps(trail) {
  if (trail.ended === null) return [];
  const usage = trail.usage ? say("chat.tokens_both", { input: showNumber(trail.usage.input), output: showNumber(trail.usage.output) }) : "";
  const end = { at: trail.ended, state: trail.state, text: trail.message || say(`chat.end_${trail.state}`), note: [at(trail.ended), trail.code, usage].filter(Boolean).join(", ") };
  const close = closedAfter(trail);
  return close === null ? [end] : [end, { at: trail.ended, state: "closing", text: say("chat.closed_after", { time: showDuration(close) }), note: "" }];
}

/** How long after the client left the upstream's connection was closed; null if the client did not leave, or it is not known. */
export function closedAfter(trail) {
  if (trail.state !== "gone") return null;
  const left = trail.states.find(([, state]) => state === "gone")?.[0] ?? trail.ended;
  const closed = trail.turns.at(-1)?.closed ?? null;
  return closed === null ? null : Math.max(0, closed - left);
}

/** The list of steps. */
export const drawSteps = (trail) =>
  listSteps(trail).map((step) =>
    h("li", { class: `step ${step.kind ?? ""}` }, glyph(step.state), h("span", { class: "two" }, h("span", {}, step.text), step.note ? h("span", {}, step.note) : null)));
