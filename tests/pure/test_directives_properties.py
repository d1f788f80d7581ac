"""What holds for any text at all, and how long hostile text may take."""

import json
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.sessions.directives.model import Unreadable
from gateway.sessions.directives.reader import (
    MOST_IN_A_TEXT,
    MOST_MARKS,
    Reading,
    fill_empty,
    may_contain,
    read,
)

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
    "<**＃glm**>",
    "<**glm。m**>",
    "<**two\nlines**>",
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
    "\n\n    ",
    "\n\n\t",
    "\n\n      ",
    "x```\n",
    "x~~~\n",
    "\n~~~\n",
    "\n- ",
    "\n- x",
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
        self.indented = list(indented_lines(text))
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
            skipped = self._indented(at) or self._block(at) or self._inline(at)
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
                if opened >= 0 and is_mark(self.text[opened + 3 : at - 3]):
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

    def _indented(self, at: int) -> int:
        """The end of the line if it is one of indented code."""
        return next((end for start, end in self.indented if start <= at < end), 0)

    def _inner_fence(self, at: int) -> int:
        """The end of a fence in the middle of a line, or of the run that begins none."""
        run = self._run(at)
        line = self._line(at)[1]
        if run < 3 or line[run:].rstrip(" \t\r").strip("abcdefghijklmnopqrstuvwxyz#."):
            return at + run
        if self.text[at] == "~":
            end = self._fence_end(at, run, in_item=True)
            return end if end > 0 and self._closes(end, run) else at + run
        place = at + run
        while place < len(self.text):
            if self.text[place] == "`" and self._run(place) >= run:
                return place + self._run(place)
            place += self._run(place)
        return place

    def _closes(self, end: int, run: int) -> bool:
        """Whether the line that ends here is one of at least so many tildes."""
        last = self.text[:end].split("\n")[-1].strip(" \t\r")
        return "\n" in self.text[:end] and len(last) >= run and not last.strip("~")

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
        if self.text[at] == "~":
            return self._inner_fence(at)
        if self.text[at] != "`":
            return 0
        length = self._run(at)
        place = at + length
        while place < len(self.text):
            if self.text[place] == "\n" and ends_a_paragraph(self._line(place + 1)[1]):
                return self._inner_fence(at)
            if self.text[place] == "`":
                if self._run(place) == length:
                    return place + length
                place += self._run(place)
            else:
                place += 1
        return self._inner_fence(at)

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


def indented_lines(text: str) -> Iterator[tuple[int, int]]:
    """The lines of indented code, each with its line break."""
    start, after_blank, in_code, before = 0, True, False, ""
    for line in text.split("\n"):
        end = start + len(line) + 1
        lead = line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4)
        if not line.strip(" \t\r"):
            after_blank = True
        elif len(lead) >= 4 and (in_code or (after_blank and begins_code(len(lead), before))):
            in_code = True
            yield start, end
        else:
            in_code, after_blank, before = False, False, line
        start = end


def begins_code(indent: int, before: str) -> bool:
    """Whether a line so far indented begins code after a paragraph that ends with this line."""
    space = before[1:5]
    space = space[: len(space) - len(space.lstrip(" \t"))]
    if before[:1] in ("-", "+", "*") and space:
        return indent >= 1 + len(space) + 4
    return not before[:1].isspace()


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


def is_mark(inside: str) -> bool:
    return is_known(inside) or ("\n" not in inside and "\r" not in inside)


def is_known(inside: str) -> bool:
    while inside and (inside[0].isspace() or inside[0] == "\u200b"):
        inside = inside[1:]
    while inside and (inside[-1].isspace() or inside[-1] == "\u200b"):
        inside = inside[:-1]
    if inside[:1] in ("!", "#", "@", "＃"):
        names = inside[1:].replace("\u200b", " ").split(",")
        return not any("\n" in name.strip() for name in names)
    upstream, dot, model = inside.replace("\u200b", " ").replace("。", ".").partition(".")
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
    assert read(fill_empty(left), UPSTREAMS) == Reading(fill_empty(left), ())


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


SIZE = 100_000
DENSE = (
    "`",
    "` ",
    "``` ",
    "```\n",
    "x```\n",
    "x ~~~\n",
    "~~~\n",
    "\n",
    "\n\n",
    " \n\n    a",
    "\n\n\n\t",
    "- a\n\n    a\n",
    ">",
    "> ",
    "> a\n",
    "**>",
    "<",
    "*",
    " ",
    "\t",
    '"',
    "\\",
    '\\"',
    "“",
    "a",
)
MARKS = (
    "<**",
    "<** ",
    "<**!",
    "<**＃",
    "<**a",
    "<**clear**>",
    "`<**clear**>",
    "<**!a**>",
    "<**x.y**>",
    "<**glm.x**>",
    "<**stop**>",
    "<**\n**>",
    '<**stopMessage:"',
    '<**stopMessage:"\\',
    "<**stopMessage:“",
    "<**stopMessage:＂",
    '<**stopMessage:"",',
    '<**stopMessage:"`",1**>`x',
    "<**stopMessage:",
    "<**clock:{",
    '<**clock:{"',
    '<**clock:{\\"',
    '<**clock:{"":"',
    '<**clock:{"time":"t","message":"m"}**>',
    "` <**stopMessage:x\n\ny**> `b <**clear**>`",
    "<**clear**>~~~\n<**u**>\n~~~\n<**clock:clear**>\n",
    "x ~~~\n<**clear**>",
    "x ```\n\n<**clear**>",
    "a\n\n    <**clear**>",
)


def filled(piece: str, size: int) -> str:
    """A text of this size with as many marks as are read."""
    gap = size // 900 - len(piece)
    return "".join(piece + "a," * (gap // 2) for _ in range(900 // max(1, piece.count("<**"))))


def runs(most: int) -> str:
    return " ".join("`" * n for n in range(1, most))


def shrinking(mark: str, size: int) -> str:
    """Openings of which none is closed by any that follows."""
    most = int((2 * size) ** 0.5)
    return "".join(f"x {mark * n}\n" for n in range(most, 3, -1))


HOSTILE: dict[str, Callable[[int], str]] = {
    **{repr(p): lambda n, p=p: p * (n // len(p)) + "<**clear**>" for p in DENSE},  # type: ignore[misc]
    **{repr(p): lambda n, p=p: filled(p, n) for p in MARKS},  # type: ignore[misc]
    "nested": lambda n: "<**" * 900 + "a" * (n - 9900) + "clear**>" * 900,
    "cut apart": lambda n: "<**cl" * 900 + "a" * (n - 9900) + "<**clear**>" + "ear**>" * 900,
    "other names each": lambda n: "".join(f"<**!gl{'m' * (n // 900)}{k}**>" for k in range(900)),
    "unknown names": lambda n: "".join(f"<**gl{k}{'m' * (n // 900)}**>" for k in range(900)),
    "one late quote": lambda n: filled("<**stopMessage:“", n) + "”",
    "escaped from one side": lambda n: '<**clock:{"' + filled('<**clock:{\\"', n),
    "runs of all lengths": lambda n: "<**clear**>" + runs(int((2 * n) ** 0.5)),
    "runs in two paragraphs": lambda n: f"<**clear**>{runs(300)}" + "\na" * (n // 2) + f"\n\n{runs(300)}<**",
    "shrinking fences of tildes": lambda n: shrinking("~", n // 2) + "x ~~~\n" * (n // 12) + "<**clear**>",
    "shrinking fences of backticks": lambda n: shrinking("`", n) + "<**clear**>",
    "lines of tildes": lambda n: shrinking("~", n // 2) + "\n~~~\n" * (n // 10) + "<**clear**>",
    "one long list": lambda n: "<**!" + "," * n + "**>",
    "one long text": lambda n: "<**stopMessage:" + ", 1" * (n // 3) + "x**>",
    "one long gap": lambda n: "<**" + "\n" * (n // 2) + "stopMessage" + " " * (n // 2) + ":**>",
    "one long json": lambda n: "<**clock:{" + '"":"",' * (n // 6) + "}**>",
    "deep json": lambda n: '<**clock:{"time":' + "[" * n + "**>",
}  # fmt: skip


def seconds_to_read(text: str) -> float:
    assert text.count("<**") <= MOST_MARKS
    started = time.process_time()
    reading = read(text, UPSTREAMS)
    taken = time.process_time() - started
    assert len(reading.directives) <= MOST_IN_A_TEXT + 1
    return taken


@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_twice_as_long_takes_twice_as_long(name: str) -> None:
    short, long = (HOSTILE[name](size) for size in (SIZE, 2 * SIZE))
    tries: list[tuple[float, float]] = []
    # Other programs take their part now and then: what counts is the best of some tries.
    for _ in range(8):
        tries.append((seconds_to_read(short), seconds_to_read(long)))
        least, most = map(min, zip(*tries, strict=True))
        if most <= 2.5 * least + 0.005:
            return
    pytest.fail(f"{least:.3f} s, and {most:.3f} s for twice as much")


def test_a_flood_of_marks_is_not_even_looked_at() -> None:
    """26 KB of gzip that unpack to this held everybody up for 15 seconds."""
    text = "<**" * 6_000_000
    started = time.process_time()
    assert read(text, UPSTREAMS).text is text
    assert time.process_time() - started < 1
