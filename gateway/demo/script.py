"""What the demo model answers: a pure function from a conversation to a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from gateway.demo.conversation import Conversation, Reply, Result, order_lines
from gateway.demo.obey import obey
from gateway.demo.orders import BadOrder
from gateway.demo.pastimes import entertain, keep_reminding, summarise
from gateway.demo.phrases import Tongue, tongue_for
from gateway.demo.planning import (
    SCHEDULE_TASK,
    outcome_news,
    regret_tasks,
    task_calls,
    task_sentence,
)
from gateway.demo.speech import pieces_of, tokens_of
from gateway.demo.steps import Argue, Begin, CallTool, Fail, Finish, Say, Script
from gateway.demo.timekeeping import (
    CLOCK,
    ask_when,
    clock_call,
    clock_sentence,
    due_news,
    needs_time,
    regret,
)

PACE_MS = 30
QUOTED = 60
SHOWN_OF_RESULT = 300
GREETING = re.compile(
    r"\s*(?:(?:hi|hello|hey|good (?:morning|evening))\b|你好|您好|[\s.]*$)", re.IGNORECASE
)
THANKS = re.compile(r"\s*(?:(?:thanks|thank you)\b|谢谢|多谢)", re.IGNORECASE)


def script_for(talk: Conversation) -> Script:
    """Decide what to answer: orders are obeyed, all else is answered in the model's own words."""
    try:
        ordered = obey_prompt(talk) or obey_task(talk)
    except BadOrder as error:
        return Script((Fail(400, str(error), code="bad_demo_line", param="messages"),))
    return ordered or performed(natural(talk), talk.limit)


def obey_prompt(talk: Conversation) -> Script | None:
    """Obey the prompt's first `demo:` line in the first turn, the second in the next, …"""
    lines = order_lines(talk.prompt)
    turn = talk.turn if lines else 0
    return obey(lines[turn]) if turn < len(lines) else None


def obey_task(talk: Conversation) -> Script | None:
    """Obey a `demo:` line that comes back as a due task."""
    lines = order_lines("\n".join(talk.due))
    return obey(lines[0]) if lines else None


def natural(talk: Conversation) -> Reply:
    """Say what is due, and answer what was asked; the first rule that knows an answer wins."""
    brought = "\n\n".join(filter(None, (due_news(talk), outcome_news(talk))))
    if brought and not talk.asked:
        return Reply(brought)
    reply = next(reply for rule in RULES if (reply := rule(talk)))
    return replace(reply, text="\n\n".join(filter(None, (brought, reply.text))))


def use_tools(talk: Conversation) -> Reply | None:
    """Call the tools for what the person wants, as long as there is something to call them for."""
    clock = clock_call(talk)
    # What comes of both is told at once, so the one waits until the other can be called.
    tasks = () if needs_time(talk) else task_calls(talk)
    calls = [(CLOCK, clock)] if clock else []
    calls += [(SCHEDULE_TASK, task) for task in tasks]
    return Reply(calls=tuple(calls)) if calls else None


def report_results(talk: Conversation) -> Reply | None:
    """Put the tools' answers into sentences, and say what there was no tool for."""
    if not talk.results:
        return None
    tongue = tongue_for(talk.prompt)
    told = [sentence(talk, tongue, result) for result in talk.results]
    missing = regret_tasks(talk)
    return Reply(tongue.space.join((*told, missing.text) if missing else told))


def introduce(talk: Conversation) -> Reply:
    """Answer kindly, and say what can be tried."""
    tongue = tongue_for(talk.prompt)
    offered = ((CLOCK, tongue.clock_tricks), (SCHEDULE_TASK, tongue.task_tricks))
    tricks = (trick for tool, trick in offered if tool in talk.tools)
    return Reply(tongue.space.join((opening(tongue, talk.prompt), *tricks, tongue.tricks)))


RULES: tuple[Callable[[Conversation], Reply | None], ...] = (
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


def opening(tongue: Tongue, prompt: str) -> str:
    """Return the opening sentences of an answer."""
    if THANKS.match(prompt):
        return tongue.thanks
    if GREETING.match(prompt):
        return tongue.hello
    words = " ".join(prompt.split())
    return tongue.answer.format(prompt=words if len(words) <= QUOTED else words[:QUOTED] + "…")


def sentence(talk: Conversation, tongue: Tongue, result: Result) -> str:
    """Put one tool's answer into words."""
    if result.tool == CLOCK and (said := clock_sentence(talk, tongue, result.text)):
        return said
    if result.tool == SCHEDULE_TASK and (said := task_sentence(talk, tongue, result)):
        return said
    text = result.text.strip()
    shown = text if len(text) <= SHOWN_OF_RESULT else text[:SHOWN_OF_RESULT] + "…"
    return tongue.result.format(tool=result.tool, text=shown)


def performed(reply: Reply, limit: int | None) -> Script:
    """Say and call at token pace, no longer than the client wants."""
    tokens = tokens_of(reply.text)
    said = (Say(tokens[:limit], PACE_MS),) if tokens else ()
    if limit is not None and limit < len(tokens):
        return Script((Begin(), *said, Finish("length")))
    if not reply.calls:
        return Script((Begin(), *said, Finish("stop")))
    calls = [
        step
        for tool, arguments in reply.calls
        for step in (CallTool(tool), Argue(pieces_of(arguments), PACE_MS))
    ]
    return Script((Begin(speaks=bool(said)), *said, *calls, Finish("tool_calls")))
