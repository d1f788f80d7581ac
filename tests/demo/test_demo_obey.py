"""From a `demo:` line to the steps of a script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.demo.orders import FILLER, InvalidOrder, Orders, obey
from gateway.demo.steps import (
    Argue,
    Begin,
    Break,
    CallTool,
    Fail,
    FinishAnswer,
    Pause,
    Say,
    Step,
    Write,
)
from gateway.demo.tokens import is_chinese, pieces_of, tokens_of

BEGIN, STOP = Begin(), FinishAnswer("stop")
ABC = ("a", " b", " c")

SCRIPTS: dict[str, tuple[Step, ...]] = {
    'say="a b c"': (BEGIN, Say(ABC, 30), STOP),
    'say="a b c" tokens=5 delay_ms=0': (BEGIN, Say((*ABC, "a", " b"), 0), STOP),
    'say="a b c" tokens=2': (BEGIN, Say(("a", " b"), 30), STOP),
    'say="a b c" size=3': (BEGIN, Say(("aaa", " b ", " c "), 30), STOP),
    "tokens=0": (BEGIN, STOP),
    'say=""': (BEGIN, STOP),
    "tokens=2": (BEGIN, Say(FILLER[:2], 30), STOP),
    "": (BEGIN, Say(FILLER[:12], 30), STOP),
    "tokens=1 first_ms=5": (Pause(5), BEGIN, Say(FILLER[:1], 30), STOP),
    'say="a b c" quiet_ms=9@0': (BEGIN, Pause(9), Say(ABC, 30), STOP),
    'say="a b c" quiet_ms=9@2 quiet_ms=7@3': (
        BEGIN,
        Say(ABC[:2], 30),
        Pause(9),
        Say(ABC[2:], 30),
        Pause(7),
        STOP,
    ),
    'say="a b c" raw="!"@1': (BEGIN, Say(ABC[:1], 30), Write(b"!"), Say(ABC[1:], 30), STOP),
    "tool=t": (
        Begin(speaks=False),
        CallTool("t"),
        Argue(("{", "}"), 30),
        FinishAnswer("tool_calls"),
    ),
    'say=a tool=t args={"k":1} drop_after=2': (
        BEGIN,
        Say(("a",), 30),
        CallTool("t"),
        Argue(('{"k',), 30),
        Break("close"),
    ),
    'say="a b c" finish=length': (BEGIN, Say(ABC, 30), FinishAnswer("length")),
    'say="a b c" drop_after=0': (BEGIN, Break("close")),
    'say="a b c" reset_after=1 drop_after=2': (BEGIN, Say(ABC[:1], 30), Break("reset")),
    'say="a b c" hang_after=3': (BEGIN, Say(ABC, 30), Break("hang")),
    "drop_after=20": (BEGIN, Say((*FILLER, *FILLER)[:20], 30), Break("close")),
    "drop": (Break("close"),),
    "first_ms=4 reset": (Pause(4), Break("reset")),
    "hang": (Break("hang"),),
    "status=503": (Fail(503, "The demo model was told to fail with 503."),),
    'status=429 retry_after=7 code=c message="m m"': (Fail(429, "m m", "c", retry_after=7),),
    'say="a b c" error_after=1 status=503 message=m': (BEGIN, Say(ABC[:1], 30), Fail(503, "m")),
    "tokens=1 two_done after_done=2": (
        BEGIN,
        Say(FILLER[:1], 30),
        FinishAnswer("stop", ends=2),
        Say(FILLER[:2], 30),
    ),
    "tokens=1 no_done": (BEGIN, Say(FILLER[:1], 30), FinishAnswer("stop", ends=0)),
    "tokens=1 endless": (BEGIN, Say(FILLER[:1], 30), Say(FILLER, 30, forever=True)),
}


def plain(step: Step) -> Step:
    """Write out what is repeated, so that steps can be compared."""
    return Say(tuple(step.pieces), step.every_ms, step.forever) if isinstance(step, Say) else step


@pytest.mark.parametrize("line", SCRIPTS)
def test_a_line_becomes_steps(line: str) -> None:
    assert tuple(plain(step) for step in obey(line).steps) == SCRIPTS[line]


def test_manners_do_not_change_the_steps() -> None:
    script = obey(
        'tokens=1 crlf bom gzip split=3 reset_at=9 no_usage content_type=a/b header="x: y"'
    )
    assert script.orders == Orders(
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
    assert script.steps == obey("tokens=1").steps


@pytest.mark.parametrize("key", ["quiet_ms=1@4", "drop_after=4", 'raw="x"@4', "error_after=4"])
def test_nothing_can_happen_after_the_end(key: str) -> None:
    with pytest.raises(InvalidOrder, match="The answer has 3 tokens; nothing can happen after 4"):
        obey(f"tokens=3 {key}")


def test_a_long_line_is_obeyed_like_a_short_one() -> None:
    said = obey(f'say="{"word " * 1000}"').steps[1]
    assert isinstance(said, Say)
    assert "".join(said.pieces) == "word " * 1000


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
    said = [
        step.pieces if isinstance(step, Say) else ("|",)
        for step in obey(f'say="a b c" tokens={tokens} quiet_ms=1@{after}').steps
        if isinstance(step, Say | Pause)
    ]
    words = (ABC * 7)[:tokens]
    assert [word for pieces in said for word in pieces] == [*words[:after], "|", *words[after:]]


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
