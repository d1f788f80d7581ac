"""What the demo model answers: a pure function from a conversation to a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from gateway.demo.clock_tool import (
    CLOCK,
    ask_when,
    clock_call,
    clock_sentence,
    due_news,
    needs_time,
    regret,
)
from gateway.demo.dialogue import Dialogue, DialogueResult, ModelReply, order_lines
from gateway.demo.obey import obey
from gateway.demo.orders import InvalidOrder
from gateway.demo.pastimes import entertain, keep_reminding, summarise
from gateway.demo.phrases import Phrases, phrases_for
from gateway.demo.script import Argue, Begin, CallTool, Fail, FinishAnswer, Say, Script
from gateway.demo.task_tool import (
    SCHEDULE_TASK,
    outcome_news,
    regret_tasks,
    task_calls,
    task_sentence,
)
from gateway.demo.tokens import pieces_of, tokens_of

PACE_MS = 30
QUOTED = 60
SHOWN_OF_RESULT = 300
GREETING = re.compile(
    r"\s*(?:(?:hi|hello|hey|good (?:morning|evening))\b|你好|您好|[\s.]*$)", re.IGNORECASE
)
THANKS = re.compile(r"\s*(?:(?:thanks|thank you)\b|谢谢|多谢)", re.IGNORECASE)


def script_for(dialogue: Dialogue) -> Script:
    """Decide what to answer: orders are obeyed, all else is answered in the model's own words."""
    try:
        ordered = obey_prompt(dialogue) or obey_task(dialogue)
    except InvalidOrder as error:
        return Script((Fail(400, str(error), code="bad_demo_line", param="messages"),))
    return ordered or write_script(natural(dialogue), dialogue.limit)


def obey_prompt(dialogue: Dialogue) -> Script | None:
    """Obey the prompt's first `demo:` line in the first turn, the second in the next, …"""
    lines = order_lines(dialogue.prompt)
    turn = dialogue.turn if lines else 0
    return obey(lines[turn]) if turn < len(lines) else None


def obey_task(dialogue: Dialogue) -> Script | None:
    """Obey a `demo:` line that comes back as a due task."""
    lines = order_lines("\n".join(dialogue.due))
    return obey(lines[0]) if lines else None


def natural(dialogue: Dialogue) -> ModelReply:
    """Say what is due, and answer what was asked; the first rule that knows an answer wins."""
    brought = "\n\n".join(filter(None, (due_news(dialogue), outcome_news(dialogue))))
    if brought and not dialogue.asked:
        return ModelReply(brought)
    reply = next(reply for rule in RULES if (reply := rule(dialogue)))
    return replace(reply, text="\n\n".join(filter(None, (brought, reply.text))))


def use_tools(dialogue: Dialogue) -> ModelReply | None:
    """Call the tools for what the person wants, as long as there is something to call them for."""
    clock = clock_call(dialogue)
    # What comes of both is told at once, so the one waits until the other can be called.
    tasks = () if needs_time(dialogue) else task_calls(dialogue)
    calls = [(CLOCK, clock)] if clock else []
    calls += [(SCHEDULE_TASK, task) for task in tasks]
    return ModelReply(calls=tuple(calls)) if calls else None


def report_results(dialogue: Dialogue) -> ModelReply | None:
    """Put the tools' answers into sentences, and say what there was no tool for."""
    if not dialogue.results:
        return None
    phrases = phrases_for(dialogue.prompt)
    told = [sentence(dialogue, phrases, result) for result in dialogue.results]
    missing = regret_tasks(dialogue)
    return ModelReply(phrases.space.join((*told, missing.text) if missing else told))


def introduce(dialogue: Dialogue) -> ModelReply:
    """Answer kindly, and say what can be tried."""
    phrases = phrases_for(dialogue.prompt)
    offered = ((CLOCK, phrases.clock_tricks), (SCHEDULE_TASK, phrases.task_tricks))
    tricks = (trick for tool, trick in offered if tool in dialogue.tools)
    return ModelReply(
        phrases.space.join((opening(phrases, dialogue.prompt), *tricks, phrases.tricks))
    )


RULES: tuple[Callable[[Dialogue], ModelReply | None], ...] = (
    use_tools,
    report_results,
    regret_tasks,
    regret,
    ask_when,
    keep_reminding,
    entertain,
    summarise,
    introduce,
)


def opening(phrases: Phrases, prompt: str) -> str:
    """Return the opening sentences of an answer."""
    if THANKS.match(prompt):
        return phrases.thanks
    if GREETING.match(prompt):
        return phrases.hello
    words = " ".join(prompt.split())
    return phrases.answer.format(prompt=words if len(words) <= QUOTED else words[:QUOTED] + "…")


def sentence(dialogue: Dialogue, phrases: Phrases, result: DialogueResult) -> str:
    """Put one tool's answer into words."""
    if result.tool == CLOCK and (said := clock_sentence(dialogue, phrases, result.text)):
        return said
    if result.tool == SCHEDULE_TASK and (said := task_sentence(dialogue, phrases, result)):
        return said
    text = result.text.strip()
    shown = text if len(text) <= SHOWN_OF_RESULT else text[:SHOWN_OF_RESULT] + "…"
    return phrases.result.format(tool=result.tool, text=shown)


def write_script(reply: ModelReply, limit: int | None) -> Script:
    """Say and call at token pace, no longer than the client wants."""
    tokens = tokens_of(reply.text)
    said = (Say(tokens[:limit], PACE_MS),) if tokens else ()
    if limit is not None and limit < len(tokens):
        return Script((Begin(), *said, FinishAnswer("length")))
    if not reply.calls:
        return Script((Begin(), *said, FinishAnswer("stop")))
    calls = [
        step
        for tool, arguments in reply.calls
        for step in (CallTool(tool), Argue(pieces_of(arguments), PACE_MS))
    ]
    return Script((Begin(speaks=bool(said)), *said, *calls, FinishAnswer("tool_calls")))
