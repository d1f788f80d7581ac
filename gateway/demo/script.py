"""What the demo model answers: a pure function from a conversation to a script."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from gateway.demo.conversation import Conversation, Result, order_lines
from gateway.demo.obey import obey
from gateway.demo.orders import BadOrder
from gateway.demo.phrases import CHINESE, ENGLISH, Tongue
from gateway.demo.speech import is_chinese, pieces_of, tokens_of
from gateway.demo.steps import Argue, Begin, CallTool, Fail, Finish, Say, Script
from gateway.demo.wishes import (
    ASKS_REMINDER,
    ASKS_TIME,
    clock_arguments,
    clock_time,
    schedule_arguments,
    told_time,
    wish_of,
)

PACE_MS = 30
QUOTED = 60
SHOWN_OF_RESULT = 300
GREETING = re.compile(
    r"\s*(?:(?:hi|hello|hey|good (?:morning|evening))\b|你好|您好)", re.IGNORECASE
)
THANKS = re.compile(r"\s*(?:(?:thanks|thank you)\b|谢谢|多谢)", re.IGNORECASE)

Rule = Callable[[Conversation], Script | None]


def script_for(talk: Conversation) -> Script:
    """Decide what to answer: the first rule that knows an answer wins."""
    try:
        return next(script for rule in RULES if (script := rule(talk)))
    except BadOrder as error:
        return Script((Fail(400, str(error), code="bad_demo_line", param="messages"),))


def obey_prompt(talk: Conversation) -> Script | None:
    """Obey the prompt's first `demo:` line in the first turn, the second in the next, …"""
    lines = order_lines(talk.prompt)
    turn = talk.turn if lines else 0
    return obey(lines[turn]) if turn < len(lines) else None


def obey_task(talk: Conversation) -> Script | None:
    """Obey a `demo:` line that comes back as a due task."""
    lines = order_lines("\n".join(talk.due)) if not talk.results else ()
    return obey(lines[0]) if lines else None


def bring_reminder(talk: Conversation) -> Script | None:
    """Say what is due."""
    if not talk.due or talk.results:
        return None
    tongue = tongue_for("".join(talk.due))
    return speak(talk, tongue.reminder.format(tasks="; ".join(talk.due)))


def set_reminder(talk: Conversation) -> Script | None:
    """Call `clock` to set the reminder that was asked for, asking it for the time if need be."""
    wish = wish_of(talk.prompt) if "clock" in talk.tools and not talk.due else None
    if wish is None or calls_clock(talk, "schedule"):
        return None
    now = told_time(talk.messages)
    if now is not None:
        task = wish.task or tongue_for(talk.prompt).task
        return call_tool("clock", schedule_arguments(wish, now, task))
    return None if talk.calls else call_tool("clock", clock_arguments("get"))


def ask_time(talk: Conversation) -> Script | None:
    """Call `clock` when asked what time it is."""
    if "clock" not in talk.tools or talk.due or talk.calls or not ASKS_TIME.search(talk.prompt):
        return None
    return call_tool("clock", clock_arguments("get"))


def report_results(talk: Conversation) -> Script | None:
    """Put the tools' answers into sentences."""
    if not talk.results:
        return None
    tongue = tongue_for(talk.prompt)
    return speak(talk, tongue.space.join(sentence(talk, tongue, r) for r in talk.results))


def regret(talk: Conversation) -> Script | None:
    """Say that without a clock there are no reminders."""
    wants = ASKS_REMINDER.search(talk.prompt) or ASKS_TIME.search(talk.prompt)
    if "clock" in talk.tools or not wants:
        return None
    return speak(talk, tongue_for(talk.prompt).no_clock)


def introduce(talk: Conversation) -> Script:
    """Answer kindly, and say what can be tried."""
    tongue = tongue_for(talk.prompt)
    tricks = (tongue.tricks, tongue.clock_tricks) if "clock" in talk.tools else (tongue.tricks,)
    return speak(talk, tongue.space.join((reply(tongue, talk.prompt), *tricks)))


RULES: tuple[Rule, ...] = (
    obey_prompt,
    obey_task,
    bring_reminder,
    set_reminder,
    ask_time,
    report_results,
    regret,
    introduce,
)


def tongue_for(text: str) -> Tongue:
    """Choose the language to answer in."""
    return CHINESE if is_chinese(text) else ENGLISH


def reply(tongue: Tongue, prompt: str) -> str:
    """Return the opening sentences of an answer."""
    if THANKS.match(prompt):
        return tongue.thanks
    if GREETING.match(prompt) or not prompt.strip():
        return tongue.hello
    words = " ".join(prompt.split())
    return tongue.answer.format(prompt=words if len(words) <= QUOTED else words[:QUOTED] + "…")


def speak(talk: Conversation, text: str) -> Script:
    """Say a text at token pace, no longer than the client wants."""
    tokens = tokens_of(text)
    cut = talk.limit is not None and talk.limit < len(tokens)
    said = Say(tokens[: talk.limit] if cut else tokens, PACE_MS)
    return Script((Begin(), said, Finish("length" if cut else "stop")))


def call_tool(name: str, arguments: str) -> Script:
    """Call one tool and end the turn."""
    argue = Argue(pieces_of(arguments), PACE_MS)
    return Script((Begin(speaks=False), CallTool(name), argue, Finish("tool_calls")))


def calls_clock(talk: Conversation, action: str) -> bool:
    """Whether the clock was already asked to do this since the prompt."""
    return any(call.name == "clock" and f'"{action}"' in call.arguments for call in talk.calls)


def sentence(talk: Conversation, tongue: Tongue, result: Result) -> str:
    """Put one tool's answer into words."""
    if result.tool == "clock" and (said := clock_sentence(talk, tongue, result.text)):
        return said
    text = result.text.strip()
    shown = text if len(text) <= SHOWN_OF_RESULT else text[:SHOWN_OF_RESULT] + "…"
    return tongue.result.format(tool=result.tool, text=shown)


def clock_sentence(talk: Conversation, tongue: Tongue, text: str) -> str | None:
    """Put what the clock answered into words, where it is of a known kind."""
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    match said:
        case {"ok": False, "error": str(error)}:
            return tongue.refused.format(error=error)
        case {"scheduled": [*items]} if items:
            return tongue.space.join(promise(talk, tongue, item) for item in items)
        case {"local": str(local), "timezone": str(zone)}:
            return tongue.time.format(local=local, timezone=zone)
    return None


def promise(talk: Conversation, tongue: Tongue, item: object) -> str:
    """Say when a reminder will come back, and how."""
    match item:
        case {"dueAt": str(due_at), "task": str(task)}:
            now = told_time(talk.messages)
            time = clock_time(due_at, now.offset) if now else due_at
            held = isinstance(item, dict) and item.get("delivery") == "hold"
            how = tongue.hold if held else tongue.next_request
            return tongue.space.join((tongue.scheduled.format(time=time, task=task), how))
    return str(item)
