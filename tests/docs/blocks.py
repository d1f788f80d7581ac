"""The fenced examples of README and docs, and what is said of each before it.

A comment right before a fence says how it is tried, if not as it is:

    <!-- not run: why -->        it is not; the reason is for people
    <!-- run until: text -->     it does not end by itself; it is fine when it has written the text
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (*sorted(ROOT.glob("README*.md")), *sorted(ROOT.joinpath("docs").rglob("*.md")))
TRANSLATED = ".zh-CN.md"
MARKS = ("not run", "run until")
FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[a-z ]+): (?P<about>[^\n]+) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\S*)\n(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class FencedBlock:
    """One fenced example: where it stands, its language, and how it is tried."""

    page: str
    line: int
    language: str
    code: str
    mark: str = ""
    about: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read_blocks(page: Path) -> Iterator[FencedBlock]:
    """Find all fenced examples of a page, in order."""
    text = page.read_text()
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("indent")) + 1
        name = str(page.relative_to(ROOT))
        mark, about = found["mark"] or "", found["about"] or ""
        yield FencedBlock(name, line, found["language"], found["code"], mark, about)


BLOCKS = tuple(block for page in PAGES for block in read_blocks(page))
