"""What every dialect owes, shown on every recorded stream, wherever its bytes are cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.protocol import Splice, Tap
from gateway.errors import UpstreamError
from gateway.exchange.model import ModelRequest, TurnEnd
from gateway.wire.sse import split

HERE = Path(__file__).parents[1] / "fixtures"
FIXTURES = sorted([*HERE.glob("*.sse"), *HERE.glob("answers/*.sse")])
NAMES = {"chat": "openai-chat", "messages": "anthropic-messages", "responses": "openai-responses"}
NO_TOOLS: frozenset[str] = frozenset()
CLOCK = frozenset({"clock"})
# Blocks that are mixed are put in a row where calls have to be looked at.
MIXED = {"messages_tools_interleaved", "messages_parallel"}
CASES = [
    pytest.param(path, tools, id=f"{path.relative_to(HERE).with_suffix('')}{'+' if tools else ''}")
    for path in FIXTURES
    for tools in (NO_TOOLS, CLOCK)
    if not (tools and path.stem in MIXED)
]
each = pytest.mark.parametrize("path, tools", CASES)
FAILING = ("error", "failed")
each_whole = pytest.mark.parametrize(
    "path, tools", [case for case in CASES if not str(case.id).rstrip("+").endswith(FAILING)]
)


def begin(path: Path, tools: frozenset[str]) -> Splice:
    """Begin an answer in the dialect that a stream is in."""
    dialect = DIALECTS[NAMES[path.stem.partition("_")[0]]]
    asked = ModelRequest(model="m", body=b"{}", stream=True, wants_usage=True)
    return dialect.splice(asked, tools, 10**6)


def fed(tap: Tap, pieces: list[bytes]) -> bytes:
    shown = b"".join([tap.feed(piece) for piece in pieces])
    return shown if tap.ended else shown + tap.close()


def ended(path: Path, splice: Splice, tap: Tap) -> tuple[bytes, TurnEnd | None]:
    """Return the end of the answer, and what the turn came to if it did not fail."""
    if tap.failure is not None:
        dialect = DIALECTS[NAMES[path.stem.partition("_")[0]]]
        return dialect.error_frame(tap.failure, splice), None
    splice.take(tap)
    return splice.tail(neutral_finish=False), tap.end()


def passed(path: Path, tools: frozenset[str], *pieces: bytes) -> tuple[bytes, TurnEnd | None]:
    """Pass a stream that comes in these pieces; return what the client gets of it."""
    splice = begin(path, tools)
    tap = splice.tap()
    shown = fed(tap, list(pieces))
    tail, end = ended(path, splice, tap)
    splice.forget()
    return shown + tail, end


@each
def test_every_split_passes_byte_for_byte(path: Path, tools: frozenset[str]) -> None:
    stream = path.read_bytes()
    _, expected = passed(path, tools, stream)
    for at in range(len(stream)):
        assert passed(path, tools, stream[:at], stream[at:]) == (stream, expected), at


@each
def test_every_frame_is_shown_with_its_last_byte(path: Path, tools: frozenset[str]) -> None:
    """Nothing waits but the tail, and nothing is shown before it is whole."""
    tap = begin(path, tools).tap()
    withheld = False
    for frame in split(path.read_bytes()):
        if tap.ended:
            break
        assert tap.feed(frame[:-1]) == b""
        shown = tap.feed(frame[-1:])
        withheld = withheld or shown == b""
        assert shown == (b"" if withheld else frame)


@each
def test_a_stream_that_breaks_off_is_no_answer(path: Path, tools: frozenset[str]) -> None:
    frames = split(path.read_bytes())
    for kept in range(1, len(frames)):
        tap = begin(path, tools).tap()
        tap.feed(b"".join(frames[:kept]))
        if tap.ended:
            break
        try:
            tap.close()
        except UpstreamError:
            continue
        # The reason is in, so only the formalities are missing.
        assert tap.end().stop != "unknown"


@each_whole
def test_what_a_later_turn_adds_is_the_same_wherever_it_is_cut(
    path: Path, tools: frozenset[str]
) -> None:
    stream = path.read_bytes()
    splice = begin(path, tools)
    tap = splice.tap()
    fed(tap, [stream])
    splice.take(tap)
    first = fed(splice.tap(), [stream])
    for at in range(0, len(stream), 13):
        assert fed(splice.tap(), [stream[:at], stream[at:]]) == first, at
