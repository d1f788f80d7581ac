"""Finds the code and the quotes of a Markdown text, in which nothing is a directive.

Fences, inline code, indented code and quotes follow CommonMark, with three exceptions. Containers
are not tracked: a fence or a quote may begin on the line of a list item, and a quote is one line,
no more. A fence may begin in the middle of a line, if only the name of a language follows it there:
people write that, and mean code.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cached_property
from itertools import accumulate

# Every repetition is possessive, so that hostile text cannot cause backtracking, and every search
# begins with a literal, which makes it fast.
_TOKEN = re.compile(r"``*+|~~~~*+|>|<\*\*|\*\*>|(?:\\[\\`])++")
_CLOSE = "**>"
_MARKS = ("<**", _CLOSE)
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
_INFO = re.compile(r"[\w+#./-]*+[ \t\r]*+$", re.MULTILINE)
_BLANK_LINES = r"(?:[ \t\r]*+\n)"
_INDENTED_LINES = rf"(?:(?: {{4}}| {{0,3}}\t)[^\n]*+(?:\n|\Z)|{_BLANK_LINES})++"
# It also matches blank lines without code after them, so that they are scanned only once.
_INDENTED = re.compile(rf"\n{_BLANK_LINES}++({_INDENTED_LINES})?")
_INDENTED_FIRST = re.compile(rf"{_BLANK_LINES}*+({_INDENTED_LINES})")
_LIST_ITEM = re.compile(_ITEM)
_INDENT = re.compile("[ \t]*+")


class Prose:
    """Finds the marks `<**` and `**>` of one text outside its code and quotes.

    The text is scanned once, from its beginning to its end.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        # After the last closing mark there is nothing to find.
        self._end = text.rfind(_CLOSE) + len(_CLOSE)
        self._paragraph_end = -1
        self._indented_at = 0

    def next_mark(self, at: int) -> re.Match[str] | None:
        """Return the first mark from `at` on; `at` must not be inside code."""
        while token := _TOKEN.search(self._text, at, self._end):
            indented = self._skip_indented(token.start()) if self._indented_blocks else None
            if indented is not None:
                at = indented
            elif token[0] in _MARKS:
                return token
            else:
                at = self._past(token)
        return None

    def _past(self, token: re.Match[str]) -> int:
        """Return where to continue after a token: behind the code or quote it begins, if any."""
        sign, end = token[0][0], None
        if sign != "\\" and (sign == ">" or len(token[0]) >= 3):
            end = self._past_block(token)
        if end is None and sign == "`":
            end = self._past_ticks(token)
        if end is None and sign in "`~" and len(token[0]) >= 3:
            end = self._past_inner_fence(token)
        return token.end() if end is None else end

    def _past_block(self, token: re.Match[str]) -> int | None:
        lead = self._lead(token.start())
        if lead is None or not self._opens_block(token):
            return None
        if token[0] == ">":
            return self._line_end(token.end())
        return self._past_fence(token, in_item=bool(lead[1]))

    def _lead(self, at: int) -> re.Match[str] | None:
        """Return the text before this position in its line, if a block may begin here."""
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

    def _past_ticks(self, opening: re.Match[str]) -> int | None:
        start, length = opening.end(), len(opening[0])
        runs = self._runs.get(length, [])
        closing = bisect_left(runs, start)
        if closing == len(runs) or runs[closing] > self._end_of_paragraph(start):
            return None
        return runs[closing] + length

    @cached_property
    def _runs(self) -> dict[int, list[int]]:
        """Where runs of backticks begin, by their length."""
        runs: dict[int, list[int]] = {}
        for run in _TICKS.finditer(self._text):
            runs.setdefault(len(run[0]), []).append(run.start())
        return runs

    def _end_of_paragraph(self, at: int) -> int:
        if at > self._paragraph_end:
            found = _PARAGRAPH_END.search(self._text, at)
            self._paragraph_end = found.start() if found else len(self._text)
        return self._paragraph_end

    def _past_inner_fence(self, opening: re.Match[str]) -> int | None:
        """Return the end of a fence that begins in the middle of a line.

        A fence of backticks may also end in the middle of a line, or never. Tildes are often
        decoration, so a fence of tildes must end with a proper closing line.
        """
        run, at = opening[0], opening.end()
        if not _INFO.match(self._text, at):
            return None
        if run[0] == "~":
            return self._past_tildes(run, at)
        for closing in _TICKS.finditer(self._text, at):
            if len(closing[0]) >= len(run):
                return closing.end()
        return len(self._text)

    def _past_tildes(self, run: str, at: int) -> int | None:
        starts, ends, lengths, longest = self._tilde_closings
        first = bisect_left(starts, at)
        # Checked before the search: a text may open many that are never closed.
        if first == len(starts) or longest[first] < len(run):
            return None
        return next(ends[n] for n in range(first, len(starts)) if lengths[n] >= len(run))

    @cached_property
    def _tilde_closings(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Starts, ends and lengths of closing tilde lines, and the longest from each on."""
        found = [closing for closing in _CLOSING.finditer(self._text) if closing[2][0] == "~"]
        lengths = [len(closing[2]) for closing in found]
        longest = list(accumulate(reversed(lengths), max))[::-1]
        starts, ends = [c.start() for c in found], [c.end() for c in found]
        return starts, ends, lengths, longest

    def _skip_indented(self, at: int) -> int | None:
        """Return the end of the indented code around this position; None if there is none."""
        blocks = self._indented_blocks
        while self._indented_at < len(blocks) and blocks[self._indented_at][1] <= at:
            self._indented_at += 1
        if self._indented_at == len(blocks) or blocks[self._indented_at][0] > at:
            return None
        return blocks[self._indented_at][1]

    @cached_property
    def _indented_blocks(self) -> list[tuple[int, int]]:
        """Spans of indented code: after a blank line or at the beginning, and not in a list."""
        text = self._text
        first = _INDENTED_FIRST.match(text)
        blocks = [first.span(1)] if first else []
        if "\n    " in text or "\t" in text:
            found = _INDENTED.finditer(text, first.end() if first else 0)
            blocks += [block.span(1) for block in found if block[1] and self._is_code(block)]
        return blocks

    def _is_code(self, block: re.Match[str]) -> bool:
        """Whether an indented block is code and does not continue a list item before it."""
        line = self._text.rfind("\n", 0, block.start()) + 1
        item = _LIST_ITEM.match(self._text, line, block.start())
        if item is None:
            return not self._text[line].isspace()
        indent = _INDENT.match(self._text, block.start(1))
        assert indent is not None
        return len(indent[0].expandtabs(4)) >= item.end() - line + 4
