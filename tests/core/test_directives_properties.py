"""What holds for any text at all, and how long hostile text may take."""

import json
import time
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core.directives import MOST_IN_A_TEXT, Reading, Unreadable, cleaned, may_contain, read

UPSTREAMS = ("glm", "openai")

# Pieces that make all kinds of trouble when they meet.
PIECES = (
    "<**clear**>",
    "<**clock:clear**>",
    "<**stopMessage:go on,3**>",
    '<**stopMessage:"a **> b",2**>',
    '<**clock:{"time":"t","message":"**>"}**>',
    "<**!glm**>",
    "<**#nobody**>",
    "<**glm.m**>",
    "<**x.y**>",
    "<**unknown**>",
    "<**stopMessage:",
    '<**stopMessage:"',
    '<**clock:{"',
    "<**!",
    "<**",
    "**>",
    "<",
    "*",
    ">",
    "`",
    "``",
    "```",
    "````",
    "~~~",
    "\n",
    "\n\n",
    "\n```\n",
    "\n> ",
    "\n   ",
    "\n    ",
    "\n- ",
    "\n---\n",
    "\n## ",
    "\r\n",
    " ",
    "\u200b",
    '"',
    "\\",
    "}",
    ",",
    ":",
    "“",
    "”",
    "clear",
    "glm",
    "a",
    "\ud800",
)
texts = st.lists(st.sampled_from(PIECES), max_size=24).map("".join) | st.text(
    alphabet='<*>`~"\\\n !#@.,:{}ac', max_size=60
)


class Oracle:
    """Finds directives one character after the other, without haste and without expressions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans = list(self._spans())

    @property
    def sources(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]

    @property
    def rest(self) -> str:
        """The text with every character of a directive left out."""
        inside = {place for span in self.spans for place in range(*span)}
        return "".join(c for place, c in enumerate(self.text) if place not in inside)

    def _spans(self) -> Iterator[tuple[int, int]]:
        at, opened = 0, -1
        while at < len(self.text):
            skipped = self._block(at) or self._inline(at)
            if skipped:
                at = skipped
            elif self._here(at, "<**"):
                opened, end = at, self._enclosed(at)
                at = end or at + 3
                if end:
                    yield opened, end
                    opened = -1
            elif self._here(at, "**>"):
                at += 3
                if opened >= 0 and is_known(self.text[opened + 3 : at - 3]):
                    yield opened, at
                opened = -1
            else:
                at += 1

    def _here(self, at: int, word: str) -> bool:
        return self.text[at : at + len(word)].lower() == word.lower()

    def _run(self, at: int) -> int:
        """How often the character here is repeated."""
        end = at
        while end < len(self.text) and self.text[end] == self.text[at]:
            end += 1
        return end - at

    def _line(self, at: int) -> tuple[str, str]:
        """The line of a place: before it, and from it on."""
        before = self.text[:at].split("\n")[-1]
        return before, self.text[at:].split("\n")[0]

    def _block(self, at: int) -> int:
        if self.text[at] not in ">`~":
            return 0
        before, rest = self._line(at)
        if not leads_a_block(before):
            return 0
        if self.text[at] == ">":
            return at + len(rest)
        run = self._run(at)
        if run < 3 or (self.text[at] == "`" and "`" in rest[run:]):
            return 0
        return self._fence_end(at, run, in_item=bool(before.strip()))

    def _fence_end(self, at: int, run: int, in_item: bool) -> int:
        mark = self.text[at]
        end = at + len(self._line(at)[1])
        while end < len(self.text):
            line = self._line(end + 1)[1]
            end += 1 + len(line)
            indent = len(line) - len(line.lstrip(" \t"))
            indented = not in_item and (indent > 3 or "\t" in line[:indent])
            closing = line.strip(" \t\r")
            if not indented and closing == mark * len(closing) and len(closing) >= run:
                return end
        return end

    def _inline(self, at: int) -> int:
        if self._here(at, "\\\\") or self._here(at, "\\`"):
            return at + 2
        if self.text[at] != "`":
            return 0
        length = self._run(at)
        place = start = at + length
        while place < len(self.text):
            if self.text[place] == "\n" and ends_a_paragraph(self._line(place + 1)[1]):
                return start
            if self.text[place] == "`":
                if self._run(place) == length:
                    return place + length
                place += self._run(place)
            else:
                place += 1
        return start

    def _enclosed(self, at: int) -> int:
        place = self._blanks(at + 3)
        for keyword, closed in (("stopMessage", self._quoted), ("clock", self._json)):
            if self._here(place, keyword):
                place = self._blanks(place + len(keyword))
                if self.text[place : place + 1] in (":", "："):
                    end = closed(self._blanks(place + 1))
                    return end + 3 if end and self._here(end, "**>") else 0
        return 0

    def _blanks(self, at: int) -> int:
        while at < len(self.text) and (self.text[at].isspace() or self.text[at] == "\u200b"):
            at += 1
        return at

    def _string(self, at: int, closing: str, forbidden: str = "") -> int:
        """The end of the string whose first character stands before this place, or 0."""
        while at < len(self.text) and self.text[at] not in closing + forbidden:
            at += 2 if self.text[at] == "\\" else 1
        return at + 1 if at < len(self.text) and self.text[at] == closing else 0

    def _quoted(self, at: int) -> int:
        closing = {'"': '"', "“": "”"}.get(self.text[at : at + 1])
        if closing is None:
            return 0
        end = self._string(at + 1, closing, "“" if closing == "”" else "")
        end = end and self._blanks(end)
        if end and self.text[end : end + 1] in (",", "，"):
            while end < len(self.text) and self.text[end] not in "<>*":
                end += 1
        return end

    def _json(self, at: int) -> int:
        if not self._here(at, "{"):
            return 0
        while at and at < len(self.text) and self.text[at] not in "<>*\\":
            at = self._string(at + 1, '"') if self.text[at] == '"' else at + 1
        return at


def leads_a_block(before: str) -> bool:
    """Whether a fence or a quote may follow this in a line: little space, maybe an item's mark."""
    rest = before[min(3, len(before) - len(before.lstrip(" "))) :]
    mark, space = rest[:1], rest[1:]
    return not rest or (mark in "-+*" and 1 <= len(space) <= 4 and not space.strip(" \t"))


def ends_a_paragraph(line: str) -> bool:
    indent = len(line) - len(line.lstrip(" "))
    rest = line[indent:]
    if not line.strip("-=*_ \t\r"):
        return True
    if line.lstrip(" \t")[:2] in ("- ", "* ", "-\t", "*\t", "+ ", "+\t"):
        return True
    if indent > 3:
        return False
    hashes = len(rest) - len(rest.lstrip("#"))
    heading = 1 <= hashes <= 6 and rest[hashes : hashes + 1] in (" ", "\t")
    fence = rest.startswith("```") and "`" not in rest.lstrip("`")
    return heading or fence or rest.startswith((">", "~~~"))


def is_known(inside: str) -> bool:
    while inside and (inside[0].isspace() or inside[0] == "\u200b"):
        inside = inside[1:]
    while inside and (inside[-1].isspace() or inside[-1] == "\u200b"):
        inside = inside[:-1]
    if inside[:1] in ("!", "#", "@"):
        names = inside[1:].replace("\u200b", " ").split(",")
        return not any("\n" in name.strip() for name in names)
    upstream, dot, model = inside.replace("\u200b", " ").partition(".")
    model = model.strip()
    if dot and upstream.strip().lower() in UPSTREAMS:
        return bool(model) and not any(c.isspace() or c in ',"“”<>*' for c in model)
    keyword, colon, _ = inside.replace("\u200b", " ").partition(":")
    return inside.lower() == "clear" or (
        bool(colon) and keyword.strip().lower() in ("stopmessage", "clock")
    )


def is_within(part: str, whole: str) -> bool:
    """Whether a text is another one with some characters left out."""
    characters = iter(whole)
    return all(character in characters for character in part)


@given(st.text())
def test_text_without_the_mark_is_returned_as_it_is(text: str) -> None:
    text = text.replace("<**", "<*")
    reading = read(text, UPSTREAMS)
    assert reading.text is text
    assert reading.directives == ()


@given(texts)
@example("` <**stopMessage:x\n\ny**> `b <**clear**>`")
@example("<**clear**>~~~\n<**a**>\n~~~\n<**clear**>")
def test_the_oracle_finds_the_same(text: str) -> None:
    found = read(text, UPSTREAMS).directives
    assert [one.source for one in found] == Oracle(text).sources


@given(texts)
def test_all_that_is_no_directive_is_kept(text: str) -> None:
    left = read(text, UPSTREAMS).text
    kept = Oracle(text).rest
    assert left == kept if not Oracle(kept).spans else is_within(left, kept)


@given(texts)
def test_what_is_left_says_nothing_more(text: str) -> None:
    left = read(text, UPSTREAMS).text
    assert Oracle(left).spans == []
    assert read(left, UPSTREAMS) == Reading(left, ())
    assert read(cleaned(left), UPSTREAMS) == Reading(cleaned(left), ())


@given(texts)
def test_reasons_fit_into_a_header(text: str) -> None:
    for found in read(text, UPSTREAMS).directives:
        if isinstance(found.directive, Unreadable):
            said = found.directive.keyword + found.directive.reason
            assert said.isascii()
            assert said.isprintable()
            assert not set(said) & set('"\\')


@given(texts, st.booleans())
def test_the_quick_filter_lets_no_directive_pass(text: str, as_ascii: bool) -> None:
    raw = json.dumps(text, ensure_ascii=as_ascii).encode(errors="replace")
    for written in (raw, raw.replace(b"<", b"\\u003c"), raw.replace(b"*", b"\\u002A")):
        assert may_contain(written) >= bool(Oracle(text).spans)


SIZE = 200_000
DENSE = (
    "<**",
    "**>",
    "`",
    "``` ",
    "```\n",
    "~~~\n",
    "\n",
    "> <**\n",
    "<",
    "*",
    " ",
    '"',
    "\\",
    '\\"',
    "<** ",
    "<**!",
    "<**#",
    "<**clear**>",
    "`<**clear**>",
    "<**!a**>",
    "<**x.y**>",
    "<**glm.x**>",
    '<**stopMessage:"',
    '<**stopMessage:"\\',
    "<**stopMessage:“",
    '<**stopMessage:"",',
    '<**stopMessage:"`",1**>`x',
    "<**clock:{",
    '<**clock:{"',
    '<**clock:{\\"',
    '<**clock:{"":"',
    '<**clock:{"time":"t","message":"m"}**>',
    "` <**stopMessage:x\n\ny**> `b <**clear**>`",
    "<**clear**>~~~\n<**u**>\n~~~\n<**clock:clear**>\n",
)
RUNS, LINES = " ".join("`" * n for n in range(1, 300)), "\na" * (SIZE // 2)
HOSTILE = {piece: piece * (SIZE // len(piece)) for piece in DENSE} | {
    "nested": "<**" * (SIZE // 11) + "clear**>" * (SIZE // 11),
    "cut apart": "<**cl" * (SIZE // 11) + "<**clear**>" + "ear**>" * (SIZE // 11),
    "other names each": "".join(f"<**!gl{n}**>" for n in range(SIZE // 12)),
    "one late quote": "<**stopMessage:“" * (SIZE // 16) + "”",
    "escaped from one side": '<**clock:{"' + '<**clock:{\\"' * (SIZE // 12),
    "runs of all lengths": "<**clear**>" + " ".join("`" * n for n in range(1, 630)),
    "runs in two paragraphs": f"<**clear**>{RUNS}{LINES}\n\n{RUNS}",
    "shorter and shorter fences": "<**clear**>\n" + "".join("~" * n + " x\n" for n in range(630, 3, -1)),
    "one long list": "<**!" + "," * SIZE + "**>",
    "one long text": "<**stopMessage:" + ", 1" * (SIZE // 3) + "x**>",
    "one long gap": "<**" + "\n" * SIZE + "stopMessage" + " " * SIZE + ":**>",
    "one long json": "<**clock:{" + '"":"",' * (SIZE // 6) + "}**>",
    "deep json": '<**clock:{"time":' + "[" * SIZE + "**>",
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=map(repr, HOSTILE))
def test_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    started = time.process_time()
    reading = read(text, UPSTREAMS)
    # A tenth of this is usual, and half of it while coverage is measured.
    assert time.process_time() - started < 3
    assert len(reading.directives) <= MOST_IN_A_TEXT + 1
