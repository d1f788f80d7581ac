"""Blocks of Messages answers in a row: numbered, held back, ended, whatever an upstream does."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.anthropic_messages.blocks import MOST_OPEN
from gateway.errors import UpstreamBroke
from tests.dialects.messages_wire import (
    CLOCK,
    NO_TOOLS,
    STOP,
    argue,
    begin,
    call,
    cut,
    delta,
    event,
    events,
    finish,
    joined,
    played,
    read,
    run,
    say,
    splice,
    start,
    stop,
    tool,
    turn,
)


def test_a_block_that_comes_in_a_row_is_shown_at_once_and_one_that_does_not_waits() -> None:
    tap = splice(CLOCK).tap()
    tap.feed(start())
    first = tool(0, "weather", "w1") + argue(0, "{")
    assert tap.feed(first) == first
    assert tap.feed(tool(1, "weather", "w2")) == b""
    assert tap.feed(argue(1, "{}") + stop(1)) == b""
    assert tap.feed(argue(0, "}")) == argue(0, "}")
    assert tap.feed(stop(0)) == stop(0) + tool(1, "weather", "w2") + argue(1, "{}") + stop(1)
    assert tap.feed(say(2, "x")) == say(2, "x")


def test_what_belongs_to_no_block_passes_until_numbers_change() -> None:
    stray = delta(7, "text_delta", text="?") + stop(7)
    assert played(start() + stray + finish(), tools=CLOCK) == start() + stray + finish()
    shown = run(splice(CLOCK), start() + stray + call(0, "clock", "srv_1") + stray + finish())[0]
    assert shown == start() + stray
    answer = splice()
    run(answer, turn("x"))
    assert run(answer, start() + stray + finish())[0] == b""


def test_beside_its_number_an_event_stays_as_it_came() -> None:
    odd = b'"x" : 12345678901234567890123, "y":[1.10,"\\u00e9"]'
    begun = begin(1, {"type": "text", "text": ""})[:-3] + b"," + odd + b"}\n\n"
    shown, _ = run(splice(CLOCK), start() + call(0, "clock", "srv_1") + begun + stop(1) + finish())
    assert shown == start() + begun.replace(b'"index":1', b'"index":0').replace(
        b'"x" : 1', b'"x":1'
    ).replace(b', "y"', b',"y"') + stop(0)


def test_a_first_turn_of_odd_numbers_that_passed_as_it_is() -> None:
    odd = (start() + say(0, "x") + finish()).replace(b'"index":0', b'"index":"0"')
    answer = splice()
    shown, _ = run(answer, odd)
    assert shown == odd.removesuffix(finish())
    assert [told["index"] for told in events(run(answer, turn("y"))[0])] == [0, 0, 0]
    unended = odd.replace(
        b'event: content_block_stop\ndata: {"type":"content_block_stop",', b"x: {"
    )
    shown = joined(splice(), unended, start() + finish())
    assert b"content_block_stop" not in shown


def test_blocks_that_wait_do_not_fill_memory() -> None:
    tap = splice(CLOCK, limit=10_000).tap()
    with pytest.raises(UpstreamBroke, match="did not end the first"):
        tap.feed(
            start() + tool(0, "weather", "w1") + tool(1, "weather", "w2") + argue(1, "x") * 200
        )


@pytest.mark.parametrize("tools", [NO_TOOLS, CLOCK])
def test_nor_do_blocks_without_end(tools: frozenset[str]) -> None:
    tap = splice(tools).tap()
    for at in range(MOST_OPEN):
        tap.feed(tool(at, "clock", f"c{at}"))
    with pytest.raises(UpstreamBroke, match=f"more than {MOST_OPEN} blocks"):
        tap.feed(tool(MOST_OPEN, "clock", "c"))


def test_odd_events_crash_nothing() -> None:
    odd = b"".join(
        (
            event("content_block_start", index=[1], content_block="?"),
            event("content_block_start", index={"a": 1}),
            event("content_block_delta", index={"a": 1}, delta=7),
            event("content_block_delta"),
            event("content_block_stop"),
            begin(None, {"type": "tool_use", "id": 7, "name": ["f"], "input": [1]}),
            begin(True, {"type": ["tool_use"]}),
            event("message_delta", delta=None, usage=None),
            b'data: {"type":["x"]}\n\n',
        )
    )
    for tools in (NO_TOOLS, CLOCK):
        answer = splice(tools)
        _, tap = run(answer, start() + odd + finish("tool_use"))
        assert tap.end().client_calls
        assert tap.client_call_ids() == ("7",)
        assert tap.rebuild_turn()
        run(answer, start() + odd + finish())
        assert answer.tail(neutral_finish=False).endswith(STOP)
    assert played(start() + odd + finish()) == start() + odd + finish()


NAMES = st.sampled_from(["clock", "clocker", "weather", "", None])


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[bytes, list[str | None]]:
    """Draw blocks, texts where there is no name, whose events come mixed as it pleases."""
    names = draw(st.lists(NAMES, min_size=1, max_size=5))
    queues: list[list[bytes]] = []
    for at, name in enumerate(names):
        middle = [argue(at, '{"at":'), argue(at, f"{at}}}")]
        if name is None:
            middle = [delta(at, "text_delta", text=piece) for piece in ("t", str(at))]
        first = (
            tool(at, name, f"id{at}")
            if name is not None
            else begin(at, {"type": "text", "text": ""})
        )
        queues.append([first, *middle, *draw(st.sampled_from([[stop(at)], []]))])
    stream, begun = start(), 1
    while any(queues[:begun]) or begun < len(queues):
        ready = [queue for queue in queues[:begun] if queue] or [queues[begun]]
        queue = draw(st.sampled_from(ready))
        stream += queue.pop(0)
        begun = min(len(queues), max(begun, queues.index(queue) + 1) + draw(st.booleans()))
    return stream + finish("tool_use"), names


@given(interleaved(), st.lists(st.integers(0, 3000), max_size=10), st.booleans())
def test_whatever_comes_and_however_it_is_mixed(
    drawn: tuple[bytes, list[str | None]], cuts: list[int], follows: bool
) -> None:
    stream, names = drawn
    answer = splice(CLOCK)
    before = run(answer, turn("before"))[0] if follows else b""
    shown, tap = run(answer, *cut(stream, cuts))
    message = read(before + shown + answer.tail(neutral_finish=False))
    calls = {f"id{at}": name for at, name in enumerate(names) if name is not None}
    client = {ident: name for ident, name in calls.items() if name != "clock"}
    assert {ident: name for ident, name, _ in message.calls} == client
    assert all(json.loads(says) == {"at": int(ident[2:])} for ident, _, says in message.calls)
    texts = [f"t{at}" for at, name in enumerate(names) if name is None]
    apart = [text for text in message.texts if text.startswith("\n\n")]
    assert apart == (message.texts[1:2] if follows else [])
    said = [text.removeprefix("\n\n") for text in message.texts]
    assert sorted(said) == sorted([*(["before"] if follows else []), *texts])
    assert {made.id for made in tap.end().server_calls} == calls.keys() - client.keys()
