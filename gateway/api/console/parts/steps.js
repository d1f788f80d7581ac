// The story of an answer in short, for Chat: an open hold counts down, and what comes after it stands below.
import { h } from "../h.js";
import { moving, showClock, showMoment } from "../times.js";
import { say } from "../words.js";
import { glyph } from "./state.js";
import { tellStory } from "./story.js";

/** The steps of a trail as list items. */
export function drawSteps(trail) {
  const hold = trail.ended === null ? trail.holds.find((one) => one.ended === null) : null;
  const until = hold ? trail.begun_at + hold.until : 0;
  const items = tellStory(trail).map((step) =>
    hold && step.state === "holding" && step.at === hold.at
      ? drawStep("holding", moving("until", until, "chat.goes_on_in"), showMoment(step.at), "on")
      : drawStep(step.state, step.text, showMoment(step.at)),
  );
  const ahead = say("chat.ahead", { n: trail.turns.length + 1 });
  return hold ? [...items, drawStep("off", ahead, showClock(until), "ahead")] : items;
}

const drawStep = (state, text, note, kind = "") =>
  h(
    "li",
    { class: `step ${kind}` },
    glyph(state),
    h("span", { class: "two" }, h("span", {}, text), h("span", {}, note)),
  );

/** How long after the client left the upstream's connection was closed; null: it was not open any more. */
export function closedAfter(trail) {
  const last = trail.turns.at(-1);
  return trail.state === "gone" && last?.was_cut && last.closed !== null ? Math.max(0, last.closed - trail.ended) : null;
}

/** clock schedule */
export const nameTool = (tool) => [tool.name, tool.action].filter(Boolean).join(" ");
