"""Where the code and the quotes of a Markdown text are: places in which nothing is a directive.

Fences, inline code and quotes follow CommonMark, except that containers are not tracked: a fence
or a quote may begin on the line of a list item, and a quote is one line, no more.
"""

from __future__ import annotations

import re
from bisect import bisect_left

# Every repetition is possessive, so that no stretch of hostile text is looked at twice, and every
# search begins with a literal, which makes it fast.
_TOKEN = re.compile(r"``*+|~~~~*+|>|<\*\*|\*\*>|\\[\\`]")
_ITEM = r"(?:[-+*]|\d{1,9}+[.)])[ \t]{1,4}+"
_LEAD = re.compile(rf" {{0,3}}+({_ITEM})?")
LONGEST_LEAD = 20
_CLOSING = re.compile(r"\n([ \t]*+)(````*+|~~~~*+)[ \t\r]*+$", re.MULTILINE)
_PARAGRAPH_END = re.compile(
    r"\n(?:[-=*_ \t\r]*+$"
    r"| {0,3}+(?:````*+[^`\n]*+$|~~~|>|#{1,6}+[ \t])"
    rf"|[ \t]*+{_ITEM})",
    re.MULTILINE,
)
_TICKS = re.compile("``*+")


class Prose:
    """Finds the marks `<**` and `**>` of one text, passing over its code and quotes.

    A text is gone through once, from its beginning to its end.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._paragraph_end = -1
        self._runs: dict[int, list[int]] = {}
        for run in _TICKS.finditer(text):
            self._runs.setdefault(len(run[0]), []).append(run.start())

    def next_mark(self, at: int) -> re.Match[str] | None:
        """Return the first mark from here on; `at` is a place that is not in code itself."""
        while token := _TOKEN.search(self._text, at):
            if token[0] in ("<**", "**>"):
                return token
            at = self._past(token)
        return None

    def _past(self, token: re.Match[str]) -> int:
        """Return where to go on after a token: at the end of what it begins, if anything."""
        return self._past_block(token) or self._past_ticks(token)

    def _past_block(self, token: re.Match[str]) -> int | None:
        if token[0] != ">" and len(token[0]) < 3:
            return None
        lead = self._lead(token.start())
        if lead is None or not self._opens_block(token):
            return None
        if token[0] == ">":
            return self._line_end(token.end())
        return self._past_fence(token, in_item=bool(lead[1]))

    def _lead(self, at: int) -> re.Match[str] | None:
        """Return what stands before this place in its line, if a block may begin here."""
        start = self._text.rfind("\n", max(0, at - LONGEST_LEAD), at) + 1
        return _LEAD.fullmatch(self._text, start, at)

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _opens_block(self, token: re.Match[str]) -> bool:
        # Backticks that are followed by others in the same line are inline code.
        at = token.end()
        return token[0][0] != "`" or self._text.find("`", at, self._line_end(at)) < 0

    def _past_fence(self, opening: re.Match[str], in_item: bool) -> int:
        for closing in _CLOSING.finditer(self._text, self._line_end(opening.end())):
            indent, run = closing.groups()
            if run.startswith(opening[0]) and (in_item or _LEAD.fullmatch(indent)):
                return closing.end()
        return len(self._text)

    def _past_ticks(self, opening: re.Match[str]) -> int:
        start, length = opening.end(), len(opening[0])
        runs = self._runs.get(length, []) if opening[0][0] == "`" else []
        closing = bisect_left(runs, start)
        if closing == len(runs) or runs[closing] > self._end_of_paragraph(start):
            return start
        return runs[closing] + length

    def _end_of_paragraph(self, at: int) -> int:
        if at > self._paragraph_end:
            found = _PARAGRAPH_END.search(self._text, at)
            self._paragraph_end = found.start() if found else len(self._text)
        return self._paragraph_end
