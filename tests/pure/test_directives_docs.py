"""The page for users says what the code does."""

import re
from pathlib import Path

import pytest

from gateway.sessions.directives.model import Unreadable
from gateway.sessions.directives.reader import (
    LONGEST_BYTES,
    LONGEST_TEXT_BYTES,
    MOST_IN_A_TEXT,
    MOST_MARKS,
    Reading,
    read,
)

UPSTREAMS = ("glm", "openai")
PAGE = Path(__file__).parents[2].joinpath("docs/directives.md").read_text()
BEFORE, _, AFTER = PAGE.partition("## What is ignored")
BLOCKS = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def examples(part: str) -> list[tuple[str, str]]:
    """The directives in the first column of a table, each with what is said about it."""
    rows = [row.strip("|").split(" | ", 1) for row in part.splitlines() if row.startswith("| `<**")]
    return [(text, said) for cell, said in rows for text in re.findall(r"`(<\*\*.+?\*\*>)`", cell)]


WORKS = [text for text, _ in examples(BEFORE)]


CHINESE = [
    "<**stopMessage：“继续”，3**>",
    "<**！glm，openai**>",
    "<**＃glm**>",
    "<**＠glm、openai**>",
    "<**glm。glm-4.7**>",
]


@pytest.mark.parametrize("text", [*WORKS, *CHINESE])
def test_what_can_be_written_is_read(text: str) -> None:
    assert f"`{text}`" in PAGE
    (found,) = read(text, UPSTREAMS).directives
    assert not isinstance(found.directive, Unreadable)


@pytest.mark.parametrize("text, reason", examples(AFTER))
def test_reasons_are_those_given(text: str, reason: str) -> None:
    (found,) = read(text, UPSTREAMS).directives
    assert isinstance(found.directive, Unreadable)
    assert found.directive.reason == reason.strip(" |").replace("\\`", "`")


def test_the_first_example_is_taken_out() -> None:
    reading = read(BLOCKS[0], UPSTREAMS)
    assert reading.text.strip() == "Please mend the failing tests."
    assert len(reading.directives) == 2


def test_the_example_about_code_is_left_alone() -> None:
    assert read(BLOCKS[1], UPSTREAMS) == Reading(BLOCKS[1], ())


@pytest.mark.parametrize("text", ["<**very important**>", "<**v1.2**>"])
def test_unknown_marks_are_removed_unless_they_are_kept(text: str) -> None:
    assert f"`{text}`" in PAGE
    assert read(text, UPSTREAMS).text == ""
    assert read(text, UPSTREAMS, keep_unknown=True) == Reading(text, ())


def test_limits_are_those_in_force() -> None:
    assert f"At most {MOST_IN_A_TEXT} are read" in PAGE
    assert f"at most {LONGEST_BYTES // 1024} KiB long" in PAGE
    assert f"longer than {LONGEST_BYTES // 1024} KiB" in PAGE
    assert f"more than {LONGEST_TEXT_BYTES // 1024**2} MB, or with more than {MOST_MARKS:,}" in PAGE
