"""Where the code and the quotes of a Markdown text are: places in which nothing is a directive.

Fences, inline code and quotes follow CommonMark, except that containers are not tracked: a fence may
begin on the line of a list item, and a quote is a line that begins with `>`, no more.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cached_property

# Every repetition is possessive: what one token has passed over, no other looks at again.
_ITEM = r"(?:[-+*]|\d{1,9}+[.)])[ \t]++"
_FENCE = rf"^ {{0,3}}+(?:{_ITEM})?(?:`{{3,}}+[^`\n]*+$|~{{3,}}+.*+$)"
_QUOTE = r"^ {0,3}+>.*+$"
_TOKEN = re.compile(
    rf"(?P<fence>{_FENCE})|(?P<quote>{_QUOTE})|(?P<escape>\\[\\`])|(?P<ticks>`++)"
    r"|(?P<mark><\*\*|\*\*>)",
    re.MULTILINE,
)
# Where a paragraph ends, and with it the inline code in it: also at headings, rules, list items.
_BREAK = re.compile(
    rf"{_FENCE}|{_QUOTE}|^ {{0,3}}+#{{1,6}}+[ \t].*+$|^[-=*_ \t\r]*+$|^[ \t]*+{_ITEM}",
    re.MULTILINE,
)
_CLOSING = re.compile(r"^([ \t]*+)(`{3,}+|~{3,}+)[ \t\r]*+$", re.MULTILINE)
_CLOSING_INDENTS = ("", " ", "  ", "   ")
_ITEM_CHARACTERS = " \t-+*.)0123456789"
_TICKS = re.compile("`++")


class Prose:
    """Finds the marks `<**` and `**>` of one text, passing over its code and quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def next_mark(self, at: int) -> re.Match[str] | None:
        """Return the first mark from here on; `at` is a place that is not in code itself."""
        while token := _TOKEN.search(self._text, at):
            if token.lastgroup == "mark":
                return token
            at = self._past(token)
        return None

    def _past(self, token: re.Match[str]) -> int:
        match token.lastgroup:
            case "fence":
                return self._past_fence(token)
            case "ticks":
                return self._past_ticks(token)
        return token.end()

    def _past_fence(self, opening: re.Match[str]) -> int:
        """Return the end of the closing fence, or of the text if there is none."""
        fence = opening[0].lstrip(_ITEM_CHARACTERS)
        in_item = len(opening[0].lstrip(" ")) > len(fence)
        run = fence[: len(fence) - len(fence.lstrip(fence[0]))]
        for closing in _CLOSING.finditer(self._text, opening.end()):
            indent, marks = closing.groups()
            if marks.startswith(run) and (in_item or indent in _CLOSING_INDENTS):
                return closing.end()
        return len(self._text)

    def _past_ticks(self, opening: re.Match[str]) -> int:
        """Return the end of the code that a run of backticks opens, or of the run itself."""
        start, length = opening.end(), len(opening[0])
        runs = self._runs.get(length, [])
        closing = bisect_left(runs, start)
        if closing == len(runs) or self._parted(start, runs[closing]):
            return start
        return runs[closing] + length

    def _parted(self, start: int, end: int) -> bool:
        following = bisect_left(self._breaks, start)
        return following < len(self._breaks) and self._breaks[following] <= end

    @cached_property
    def _runs(self) -> dict[int, list[int]]:
        """Where the runs of backticks begin, by their length."""
        runs: dict[int, list[int]] = {}
        for run in _TICKS.finditer(self._text):
            runs.setdefault(len(run[0]), []).append(run.start())
        return runs

    @cached_property
    def _breaks(self) -> list[int]:
        """Where paragraphs end and begin."""
        return [at for found in _BREAK.finditer(self._text) for at in found.span()]
