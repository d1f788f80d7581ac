"""What the demo model answers: a pure function from a conversation to a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from gateway.demo.conversation import Conversation, Reply, Result, order_lines
from gateway.demo.obey import obey
from gateway.demo.orders import BadOrder
from gateway.demo.phrases import Tongue, tongue_for
from gateway.demo.speech import pieces_of, tokens_of
from gateway.demo.steps import Argue, Begin, CallTool, Fail, Finish, Say, Script
from gateway.demo.timekeeping import CLOCK, ask_when, clock_sentence, news, regret, use_clock

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
    brought = news(talk)
    if brought and not talk.asked:
        return Reply(brought)
    reply = next(reply for rule in RULES if (reply := rule(talk)))
    return replace(reply, text="\n\n".join(filter(None, (brought, reply.text))))


def report_results(talk: Conversation) -> Reply | None:
    """Put the tools' answers into sentences."""
    if not talk.results:
        return None
    tongue = tongue_for(talk.prompt)
    return Reply(tongue.space.join(sentence(talk, tongue, r) for r in talk.results))


def introduce(talk: Conversation) -> Reply:
    """Answer kindly, and say what can be tried."""
    tongue = tongue_for(talk.prompt)
    tricks = (tongue.clock_tricks, tongue.tricks) if CLOCK in talk.tools else (tongue.tricks,)
    return Reply(tongue.space.join((opening(tongue, talk.prompt), *tricks)))


RULES: tuple[Callable[[Conversation], Reply | None], ...] = (
    use_clock,
    report_results,
    regret,
    ask_when,
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
    text = result.text.strip()
    shown = text if len(text) <= SHOWN_OF_RESULT else text[:SHOWN_OF_RESULT] + "…"
    return tongue.result.format(tool=result.tool, text=shown)


def performed(reply: Reply, limit: int | None) -> Script:
    """Say and call at token pace, no longer than the client wants."""
    tokens = tokens_of(reply.text)
    said = (Say(tokens[:limit], PACE_MS),) if tokens else ()
    if limit is not None and limit < len(tokens):
        return Script((Begin(), *said, Finish("length")))
    if not reply.tool:
        return Script((Begin(), *said, Finish("stop")))
    call = (CallTool(reply.tool), Argue(pieces_of(reply.arguments), PACE_MS))
    return Script((Begin(speaks=bool(said)), *said, *call, Finish("tool_calls")))
