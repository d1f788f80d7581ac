"""The `demo:` line: what it may say, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.demo.dialogue import order_lines
from gateway.demo.journal import EventKind
from gateway.demo.orders import (
    KEYS,
    MOST_TOKENS,
    InvalidOrder,
    Marker,
    OrderedCall,
    Orders,
    parse,
)

DOCS = Path(__file__).parents[2] / "docs" / "demo-upstream.md"

READ = {
    "": Orders(),
    "tokens=3": Orders(tokens=3),
    "  tokens=3   delay_ms=0 ": Orders(tokens=3, delay_ms=0),
    'say="a \\"b\\"\\n\\u2028"': Orders(say='a "b"\n\u2028'),
    "say=bare": Orders(say="bare"),
    "say=": Orders(say=""),
    "say=a@b": Orders(say="a@b"),
    "quiet_ms=50": Orders(quiet_ms=(Marker(0, 0.05),)),
    "quiet_ms=50@2 quiet_ms=7@9": Orders(quiet_ms=(Marker(2, 0.05), Marker(9, 0.007))),
    'raw="\\u00ff"@1': Orders(raw=(Marker(1, b"\xff"),)),
    "tool=a": Orders(tool=(OrderedCall("a"),)),
    'tool=a args={"x": {"y": 1}} tool=b': Orders(
        tool=(OrderedCall("a", '{"x": {"y": 1}}'), OrderedCall("b"))
    ),
    'tool=a args="{broken"': Orders(tool=(OrderedCall("a", "{broken"),)),
    "crlf no_done usage": Orders(crlf=True, no_done=True, usage=True),
    'header="X-A: b" header="x-c: d: e"': Orders(header=(("x-a", "b"), ("x-c", "d: e"))),
    "status=429 retry_after=7 code=slow": Orders(status=429, retry_after=7, code="slow"),
}

WRONG = {
    "colour=red": "Unknown key 'colour' in a demo: line; known are say, tokens,",
    "=3": "made of key=value pairs; '=3' is none",
    "tokens": "The key tokens takes a whole number from 0 to 1000000; write tokens=N.",
    "tokens=-1": "takes a whole number",
    "tokens=٣": "takes a whole number",
    f"tokens={MOST_TOKENS + 1}": "takes a whole number",
    "tokens=3@4": "The key tokens takes no @",
    "tokens=1 tokens=2": "The key tokens stands twice",
    "crlf=yes": "The key crlf takes no value; write crlf.",
    "args={}": "The key args belongs after a tool=NAME",
    'say="open': "broken JSON",
    'say="a"b': 'needs a space after "a"',
    'raw="\\u0100"': "one for each byte",
    "quiet_ms=x@2": "takes a whole number",
    "status=42": "from 200 to 599",
    "header=none": 'takes "name: value"',
    'header="a: b\\r\\nc: d"': "printable ASCII",
    "tokens=1000000 size=1000": "tokens times size",
}


@pytest.mark.parametrize("line", READ)
def test_a_line_is_read(line: str) -> None:
    assert parse(line) == READ[line]


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_says_why(line: str) -> None:
    with pytest.raises(InvalidOrder) as caught:
        parse(line)
    assert WRONG[line] in str(caught.value)


def test_an_unknown_key_is_answered_with_all_known_ones() -> None:
    with pytest.raises(InvalidOrder) as caught:
        parse("colour=red")
    assert str(caught.value).endswith(f"known are {', '.join(KEYS)}.")


def documented(title: str) -> list[str]:
    """Return the rows of a table in the documentation."""
    lines = [*DOCS.read_text(encoding="utf-8").splitlines(), ""]
    start = lines.index(title) + 2
    return lines[start : lines.index("", start)]


def test_the_documentation_lists_exactly_the_keys() -> None:
    rows = [f"| `{key.form}` | {key.meaning} |" for key in KEYS.values()]
    assert documented("| key | what it does |") == rows


def test_the_examples_of_the_documentation_can_be_obeyed() -> None:
    lines = order_lines(DOCS.read_text(encoding="utf-8"))
    assert len(lines) >= 5
    assert all(parse(line) for line in lines)


def test_the_documentation_lists_exactly_the_events() -> None:
    names = [row.split("`")[1] for row in documented("| event | when |")]
    assert names == [*EventKind]
