"""From orders to a script: the steps a `demo:` line asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from gateway.demo.orders import InvalidOrder, OrderedCall, Orders, parse
from gateway.demo.script import (
    Argue,
    Begin,
    Break,
    CallTool,
    Fail,
    FinishAnswer,
    Pause,
    Pieces,
    Repeated,
    Run,
    Say,
    Script,
    Step,
    WireFormat,
    Write,
)
from gateway.demo.tokens import pieces_of, tokens_of

FILLER = tokens_of("These words come one by one from a script that knows how many to say. ")
SHORT = 12
REMEMBERED = 1000

Mark = tuple[int, Step]


def obey(line: str) -> Script:
    """Make the script that a `demo:` line orders; short lines tend to come again."""
    return obey_short(line) if len(line) <= REMEMBERED else script_of(parse(line))


@lru_cache(maxsize=128)
def obey_short(line: str) -> Script:
    """Make a script once for many requests."""
    return script_of(parse(line))


def script_of(orders: Orders) -> Script:
    """Make the script that was ordered."""
    opening = (Pause(orders.first_ms),) if orders.first_ms else ()
    refusal = instead(orders)
    steps = (refusal,) if refusal else tuple(answer_steps(orders))
    return Script((*opening, *steps), wire_format(orders))


def instead(orders: Orders) -> Step | None:
    """Return what is done instead of answering, if anything."""
    if orders.drop:
        return Break("close")
    if orders.reset:
        return Break("reset")
    if orders.hang:
        return Break("hang")
    if orders.status is not None and orders.error_after is None:
        return failure(orders, orders.status)
    return None


def failure(orders: Orders, status: int) -> Fail:
    """Make the error that was ordered."""
    message = orders.message or f"The demo model was told to fail with {status}."
    return Fail(status, message, code=orders.code, retry_after=orders.retry_after)


def answer_steps(orders: Orders) -> Iterator[Step]:
    """Yield the steps of an answer, up to the first that breaks it off."""
    marks = marks_of(orders)
    said = choose_tokens(orders, max((at for at, _ in marks), default=0))
    begin = Begin(speaks=bool(said) or not orders.calls)
    dialogue = (Say(said, orders.delay_ms), *call_steps(orders.calls, orders.delay_ms))
    for step in (begin, *weave(dialogue, marks), *ending(orders)):
        yield step
        if isinstance(step, Fail | Break):
            return


def choose_tokens(orders: Orders, least: int) -> Pieces:
    """Return the tokens to say; without a word about them, as many as the marks need."""
    words = tokens_of(orders.say) if orders.say is not None else FILLER
    if orders.tokens is not None:
        wanted = orders.tokens
    elif orders.say is not None:
        wanted = len(words)
    else:
        wanted = 0 if orders.calls else max(SHORT, least)
    return Repeated(words, 0, wanted, orders.size)


def call_steps(calls: Iterable[OrderedCall], every_ms: int) -> Iterator[Step]:
    """Yield the steps of the ordered tool calls."""
    for call in calls:
        yield CallTool(call.name)
        yield Argue(pieces_of(call.arguments), every_ms)


def ending(orders: Orders) -> Iterator[Step]:
    """Yield what comes after the last token."""
    if orders.endless:
        yield Say(FILLER, orders.delay_ms, forever=True)
        return
    reason = orders.finish or ("tool_calls" if orders.calls else "stop")
    yield FinishAnswer(reason, ends=0 if orders.no_done else 2 if orders.two_done else 1)
    if orders.after_done:
        yield Say(Repeated(FILLER, 0, orders.after_done), orders.delay_ms)


def marks_of(orders: Orders) -> list[Mark]:
    """List what happens after so many tokens, in order of place."""
    marks: list[Mark] = [(at.after, Pause(int(at.value))) for at in orders.quiet_ms]
    marks += [(at.after, Write(at.value.encode("latin-1"))) for at in orders.raw]
    ends: tuple[tuple[int | None, Step], ...] = (
        (orders.error_after, failure(orders, orders.status or 500)),
        (orders.drop_after, Break("close")),
        (orders.reset_after, Break("reset")),
        (orders.hang_after, Break("hang")),
    )
    marks += [(after, step) for after, step in ends if after is not None]
    return sorted(marks, key=lambda mark: mark[0])


def weave(dialogue: Sequence[Step], marks: list[Mark]) -> Iterator[Step]:
    """Cut the runs of a talk where a mark lies, and put its step there."""
    waiting, passed = marks, 0
    for step in dialogue:
        if not isinstance(step, Say | Argue):
            yield step
            continue
        end = passed + len(step.pieces)
        here = [mark for mark in waiting if mark[0] <= end]
        waiting = waiting[len(here) :]
        yield from cut(step, [(at - passed, then) for at, then in here])
        passed = end
    if waiting:
        raise InvalidOrder(
            f"The answer has {passed} tokens; nothing can happen after {waiting[0][0]}."
        )


def cut(run: Run, marks: list[Mark]) -> Iterator[Step]:
    """Yield a run in parts, with a step after each part."""
    start = 0
    for at, then in marks:
        if at > start:
            yield replace(run, pieces=run.pieces[start:at])
        yield then
        start = at
    if start < len(run.pieces):
        yield replace(run, pieces=run.pieces[start:])


def wire_format(orders: Orders) -> WireFormat:
    """Say how the bytes shall look."""
    return WireFormat(
        newline=b"\r\n" if orders.crlf else b"\r" if orders.cr else b"\n",
        bom=orders.bom,
        gzip=orders.gzip,
        split=orders.split,
        reset_at=orders.reset_at,
        usage=False if orders.no_usage else orders.usage or None,
        content_type=orders.content_type,
        headers=orders.header,
    )
