"""From a `demo:` line to the steps of a script."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.demo import chat
from gateway.demo.dialect import (
    AnswerStamp,
    CompleteAnswer,
    DialogueRequest,
    Fail,
    ReplyWriter,
)
from gateway.demo.dialogue import Dialogue
from gateway.demo.orders import FILLER, Break, InvalidOrder, Orders, parse, pieces_of, tokens_of
from gateway.demo.output import (
    EVENTS,
    Output,
    Outputs,
    ResponseHead,
    refuse,
    write_answer,
    write_stream,
)
from gateway.demo.phrases import is_chinese


class PlainWriter:
    """Writes each step as a word, so that steps can be compared."""

    def begin(self, speaks: bool) -> bytes:
        return b"<begin>" if speaks else b"<begin silent>"

    def say(self, token: str) -> bytes:
        return token.encode()

    def call(self, name: str) -> bytes:
        return f"<call {name}>".encode()

    def argue(self, piece: str) -> bytes:
        return f"<{piece}>".encode()

    def fail(self, fail: Fail) -> bytes:
        return f"<fail {fail.status} {fail.message}>".encode()

    def finish(self, reason: str, ends: int = 1) -> bytes:
        return f"<{reason} {ends}>".encode()

    def write_whole(self, answer: CompleteAnswer) -> bytes:
        return answer.text.encode()


class PlainDialect:
    """Reads nothing, and writes words."""

    path = "/"

    def read(self, body: bytes) -> DialogueRequest:
        raise NotImplementedError

    def open_answer(self, request: DialogueRequest, stamp: AnswerStamp) -> ReplyWriter:
        return PlainWriter()

    def write_error(self, fail: Fail) -> bytes:
        return chat.write_error(fail)


def play(line: str) -> Outputs:
    """Write the stream that a line orders."""
    request = DialogueRequest(Dialogue(()), "m", stream=True)
    return write_answer(parse(line), PlainDialect(), request, AnswerStamp(1, 0))


def said(*pieces: str, ms: int = 30) -> tuple[Output, ...]:
    """Return pieces, each with the wait after it."""
    return tuple(output for piece in pieces for output in (piece.encode(), ms / 1000))


HEAD = ResponseHead(200, EVENTS)
BEGIN, STOP = (HEAD, b"<begin>"), b"<stop 1>"
ABC = ("a", " b", " c")

SCRIPTS: dict[str, tuple[Output, ...]] = {
    'say="a b c"': (*BEGIN, *said(*ABC), STOP),
    'say="a b c" tokens=5 delay_ms=0': (*BEGIN, b"a", b" b", b" c", b"a", b" b", STOP),
    'say="a b c" tokens=2': (*BEGIN, *said("a", " b"), STOP),
    'say="a b c" size=3': (*BEGIN, *said("aaa", " b ", " c "), STOP),
    "tokens=0": (*BEGIN, STOP),
    'say=""': (*BEGIN, STOP),
    "tokens=2": (*BEGIN, *said(*FILLER[:2]), STOP),
    "": (*BEGIN, *said(*FILLER[:12]), STOP),
    "tokens=1 first_ms=5": (0.005, *BEGIN, *said(*FILLER[:1]), STOP),
    'say="a b c" quiet_ms=9@0': (*BEGIN, 0.009, *said(*ABC), STOP),
    'say="a b c" quiet_ms=9@2 quiet_ms=7@3': (
        *BEGIN,
        *said(*ABC[:2]),
        0.009,
        *said(*ABC[2:]),
        0.007,
        STOP,
    ),
    'say="a b c" raw="!"@1': (*BEGIN, *said(*ABC[:1]), b"!", *said(*ABC[1:]), STOP),
    "tool=t": (HEAD, b"<begin silent>", b"<call t>", *said("<{>", "<}>"), b"<tool_calls 1>"),
    "say=a tool=t quiet_ms=9@1": (
        *BEGIN,
        *said("a"),
        0.009,
        b"<call t>",
        *said("<{>", "<}>"),
        b"<tool_calls 1>",
    ),
    'say=a tool=t args={"k":1} drop_after=2': (
        *BEGIN,
        *said("a"),
        b"<call t>",
        *said('<{"k>'),
        Break("close"),
    ),
    'say="a b c" finish=length': (*BEGIN, *said(*ABC), b"<length 1>"),
    'say="a b c" drop_after=0': (*BEGIN, Break("close")),
    'say="a b c" reset_after=1 drop_after=2': (*BEGIN, *said("a"), Break("reset")),
    'say="a b c" hang_after=3': (*BEGIN, *said(*ABC), Break("hang")),
    "drop_after=20": (*BEGIN, *said(*(*FILLER, *FILLER)[:20]), Break("close")),
    "drop": (Break("close"),),
    "first_ms=4 reset": (0.004, Break("reset")),
    "hang": (Break("hang"),),
    "status=503": (*refuse(Fail(503, "The demo model was told to fail with 503."), chat),),
    'status=429 retry_after=7 code=c message="m m"': (
        *refuse(Fail(429, "m m", "c", retry_after=7), chat),
    ),
    'say="a b c" error_after=1 status=503 message=m': (*BEGIN, *said("a"), b"<fail 503 m>"),
    "tokens=1 two_done after_done=2": (
        *BEGIN,
        *said(*FILLER[:1]),
        b"<stop 2>",
        *said(*FILLER[:2]),
    ),
    "tokens=1 no_done": (*BEGIN, *said(*FILLER[:1]), b"<stop 0>"),
}


@pytest.mark.parametrize("line", SCRIPTS)
def test_a_line_becomes_steps(line: str) -> None:
    assert tuple(play(line)) == SCRIPTS[line]


def test_an_endless_answer_starts_again_and_again() -> None:
    long = islice(play("tokens=1 endless delay_ms=0"), 3 + 2 * len(FILLER))
    words = (FILLER[0], *FILLER, *FILLER)
    assert tuple(long) == (*BEGIN, *(word.encode() for word in words))


def test_manners_do_not_change_the_steps() -> None:
    orders = parse(
        'tokens=1 crlf bom gzip split=3 reset_at=9 no_usage content_type=a/b header="x: y"'
    )
    assert orders == Orders(
        tokens=1,
        crlf=True,
        bom=True,
        gzip=True,
        split=3,
        reset_at=9,
        no_usage=True,
        content_type="a/b",
        header=(("x", "y"),),
    )
    assert tuple(write_stream(orders, PlainWriter())) == tuple(play("tokens=1"))


@pytest.mark.parametrize("key", ["quiet_ms=1@4", "drop_after=4", 'raw="x"@4', "error_after=4"])
def test_nothing_can_happen_after_the_end(key: str) -> None:
    with pytest.raises(InvalidOrder, match="The answer has 3 tokens; nothing can happen after 4"):
        parse(f"tokens=3 {key}")


def test_a_long_line_is_obeyed_like_a_short_one() -> None:
    assert "".join(parse(f'say="{"word " * 1000}"').spoken) == "word " * 1000


@given(st.text())
def test_tokens_join_to_the_text(text: str) -> None:
    tokens = tokens_of(text)
    assert "".join(tokens) == text
    assert all(tokens)


@given(st.text(min_size=1))
def test_arguments_come_in_several_pieces(arguments: str) -> None:
    pieces = pieces_of(arguments)
    assert "".join(pieces) == arguments
    assert len(pieces) >= min(len(arguments), 2)


@given(st.integers(0, 20), st.integers(0, 20))
def test_repeated_words_are_cut_where_something_happens(tokens: int, after: int) -> None:
    tokens = max(tokens, after)
    _, _, *outputs, _ = play(f'say="a b c" tokens={tokens} delay_ms=0 quiet_ms=1@{after}')
    words: list[Output] = [word.encode() for word in (ABC * 7)[:tokens]]
    assert outputs == [*words[:after], 0.001, *words[after:]]


@pytest.mark.parametrize(
    "text, chinese",
    [
        ("hello", False),
        ("你好", True),
        ("say 你好 please", True),
        ("日本語です", False),
        ("", False),
    ],
)
def test_the_language_is_seen(text: str, chinese: bool) -> None:
    assert is_chinese(text) is chinese
