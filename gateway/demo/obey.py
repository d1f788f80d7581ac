"""From orders to a script: the steps a `demo:` line asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice

from gateway.demo.orders import FailureOrders, InvalidOrder, Orders, parse
from gateway.demo.script import (
    Argue,
    Begin,
    Break,
    CallTool,
    Fail,
    FinishAnswer,
    Pause,
    Say,
    Script,
    Step,
    WireFormat,
    Write,
)
from gateway.demo.tokens import pieces_of, tokens_of

FILLER = tokens_of("These words come one by one from a script that knows how many to say. ")
SHORT = 12

Mark = tuple[int, Step]


def obey(line: str) -> Script:
    """Make the script that a `demo:` line orders."""
    orders = parse(line)
    opening = (Pause(orders.first_ms),) if orders.first_ms else ()
    refusal = choose_refusal(orders)
    steps = (refusal,) if refusal else tuple(write_steps(orders))
    wire_format = WireFormat(
        newline=b"\r\n" if orders.crlf else b"\r" if orders.cr else b"\n",
        bom=orders.bom,
        gzip=orders.gzip,
        split=orders.split,
        reset_at=orders.reset_at,
        usage=False if orders.no_usage else orders.usage or None,
        content_type=orders.content_type,
        headers=orders.header,
    )
    return Script((*opening, *steps), wire_format)


def choose_refusal(orders: FailureOrders) -> Step | None:
    """Return what is done instead of answering, if anything."""
    if orders.drop or orders.reset or orders.hang:
        return Break("close" if orders.drop else "reset" if orders.reset else "hang")
    if orders.status is None or orders.error_after is not None:
        return None
    return make_failure(orders, orders.status)


def make_failure(orders: FailureOrders, status: int) -> Fail:
    """Make the error that was ordered."""
    message = orders.message or f"The demo model was told to fail with {status}."
    return Fail(status, message, code=orders.code, retry_after=orders.retry_after)


def write_steps(orders: Orders) -> Iterator[Step]:
    """Yield the steps of an answer, up to the first that breaks it off."""
    marks = list_marks(orders)
    tokens = choose_tokens(orders, max((at for at, _ in marks), default=0))
    talk: list[Step] = [Say(tokens, orders.delay_ms)]
    for call in orders.tool:
        talk += [CallTool(call.name), Argue(pieces_of(call.arguments), orders.delay_ms)]
    begin = Begin(speaks=bool(tokens) or not orders.tool)
    for step in (begin, *weave(talk, marks), *write_ending(orders)):
        yield step
        if isinstance(step, Fail | Break):
            return


def choose_tokens(orders: Orders, least: int) -> tuple[str, ...]:
    """Return the tokens to say; without a word about them, as many as the marks need."""
    words = tokens_of(orders.say) if orders.say is not None else FILLER
    if orders.tokens is not None:
        wanted = orders.tokens
    elif orders.say is not None:
        wanted = len(words)
    else:
        wanted = 0 if orders.tool else max(SHORT, least)
    if (size := orders.size) is not None:
        words = tuple((word * (size // len(word) + 1))[:size] for word in words)
    return tuple(islice(cycle(words), wanted))


def write_ending(orders: Orders) -> Iterator[Step]:
    """Yield what comes after the last token."""
    if orders.endless:
        yield Say(FILLER, orders.delay_ms, forever=True)
        return
    reason = orders.finish or ("tool_calls" if orders.tool else "stop")
    yield FinishAnswer(reason, ends=0 if orders.no_done else 2 if orders.two_done else 1)
    if orders.after_done:
        yield Say(tuple(islice(cycle(FILLER), orders.after_done)), orders.delay_ms)


def list_marks(orders: Orders) -> list[Mark]:
    """List what happens after so many tokens, in order of place."""
    marks: list[Mark] = [(at.after, Pause(int(at.value))) for at in orders.quiet_ms]
    marks += [(at.after, Write(at.value.encode("latin-1"))) for at in orders.raw]
    ends: tuple[tuple[int | None, Step], ...] = (
        (orders.error_after, make_failure(orders, orders.status or 500)),
        (orders.drop_after, Break("close")),
        (orders.reset_after, Break("reset")),
        (orders.hang_after, Break("hang")),
    )
    marks += [(after, step) for after, step in ends if after is not None]
    return sorted(marks, key=lambda mark: mark[0])


def weave(talk: Sequence[Step], marks: list[Mark]) -> Iterator[Step]:
    """Cut the pieces of a talk where a mark lies, and put its step there."""
    waiting, passed = marks, 0
    for step in talk:
        if not isinstance(step, Say | Argue):
            yield step
            continue
        start, end = 0, passed + len(step.pieces)
        while waiting and waiting[0][0] <= end:
            (after, then), *waiting = waiting
            if after - passed > start:
                yield replace(step, pieces=step.pieces[start : after - passed])
                start = after - passed
            yield then
        if passed + start < end:
            yield replace(step, pieces=step.pieces[start:])
        passed = end
    if waiting:
        after = waiting[0][0]
        raise InvalidOrder(f"The answer has {passed} tokens; nothing can happen after {after}.")
