"""Finds directives in user text, `<**…**>`, and removes them.

This module is the entry to the package. It works on text only; dialects say which text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gateway.sessions.directives.code_spans import Prose
from gateway.sessions.directives.model import (
    AllowOnly,
    Clear,
    ClearReminders,
    ClearStopMessage,
    Directive,
    Exclude,
    ForceRoute,
    Found,
    PreferRoute,
    SetReminder,
    SetStopMessage,
    SetStopMessageFile,
    TakeBack,
    Target,
    Unreadable,
)
from gateway.sessions.directives.routing import (
    NOTHING,
    Routing,
    candidates,
    find_forced_route,
    in_force,
    no_route,
    routing_after,
)
from gateway.sessions.directives.syntax import (
    BLANKS,
    Form,
    Names,
    explain_unknown,
    find_enclosed_end,
    read_form,
    recognise,
    spellings,
)

__all__ = [
    "NOTHING",
    "AllowOnly",
    "Clear",
    "ClearReminders",
    "ClearStopMessage",
    "Directive",
    "Exclude",
    "ForceRoute",
    "Found",
    "PreferRoute",
    "Reading",
    "Routing",
    "SetReminder",
    "SetStopMessage",
    "SetStopMessageFile",
    "TakeBack",
    "Target",
    "Unreadable",
    "candidates",
    "fill_empty",
    "find_forced_route",
    "in_force",
    "may_contain",
    "no_route",
    "read",
    "routing_after",
]

OPEN, CLOSE = "<**", "**>"
LESS_THAN, BACKSLASH = b"<\\"
LONGEST_BYTES = 8 * 1024
LONGEST_TEXT_BYTES = 1024 * 1024
MOST_MARKS = 1000
MOST_IN_A_TEXT = 64
PASSES = 4

# A mark that is not written as `<**` has one of these characters escaped.
_ESCAPED_MARKS = (b"\\u003c", b"\\u003C", b"\\u002a", b"\\u002A")
_MARK_RUNS = re.compile(r"[<*]++")
_LINE_BREAK = re.compile(r"[\n\r]")


@dataclass(frozen=True, slots=True)
class Reading:
    """A text without its directives, and the directives in their order."""

    text: str
    directives: tuple[Found, ...] = ()


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    form: Form | None
    """None: an unknown mark."""


@dataclass(frozen=True, slots=True)
class _Reader:
    names: Names
    keep_unknown: bool
    """Whether unknown marks stay in the text."""


def may_contain(raw: bytes) -> bool:
    """Whether JSON may contain a directive in one of its strings; very cheap if not."""
    # One byte is found several times as fast as three, and texts without it are common. It is
    # a number: of bytes, `in` first finds out that they are none, which takes longer than a search.
    if LESS_THAN in raw and b"<**" in raw:
        return True
    return BACKSLASH in raw and b"\\u00" in raw and any(mark in raw for mark in _ESCAPED_MARKS)


def read(text: str, upstreams: Collection[str], keep_unknown: bool = False) -> Reading:
    """Find the directives of a text and remove them; the rest of the text stays unchanged."""
    if OPEN not in text:
        return Reading(text)
    if reason := _reason_not_to_read(text):
        return Reading(text, (Found(Unreadable("directives", reason), ""),))
    reader = _Reader(spellings(upstreams), keep_unknown)
    spans = list(_spans(text, reader))
    if not spans:
        return Reading(text)
    found = [_read_span(text, span, reader.names) for span in spans[:MOST_IN_A_TEXT]]
    if len(spans) > MOST_IN_A_TEXT:
        excess = spans[MOST_IN_A_TEXT]
        reason = f"more than {MOST_IN_A_TEXT} directives in one text"
        source = text[excess.start : excess.end]
        found.append(Found(Unreadable("directives", reason), source))
    return Reading(_empty_text(text, spans, reader), tuple(found))


def _reason_not_to_read(text: str) -> str:
    if text.count(OPEN) > MOST_MARKS:
        return f"a text with more than {MOST_MARKS} marks is not searched"
    if len(text) > LONGEST_TEXT_BYTES or _size(text) > LONGEST_TEXT_BYTES:
        return f"a text of more than {LONGEST_TEXT_BYTES} bytes is not searched"
    return ""


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def fill_empty(text: str) -> str:
    """Return the text to send after directives were removed: a dot if nothing is left."""
    return text if text.strip(BLANKS) else "."


def _spans(text: str, reader: _Reader) -> Iterator[_Span]:
    """Yield spans of directives; of two opening marks before a closing one, the second counts."""
    prose = Prose(text)
    opened: int | None = None
    at = 0
    while mark := prose.next_mark(at):
        at = mark.end()
        if mark[0] == OPEN:
            opened = mark.start()
            end = find_enclosed_end(text, opened)
            if end is None:
                continue
            at = end
        if opened is None:
            continue
        span = _Span(
            opened, at, recognise(text[opened + len(OPEN) : at - len(CLOSE)], reader.names)
        )
        if span.form is not None or (not reader.keep_unknown and _is_mark(text, span)):
            yield span
        opened = None


def _is_mark(text: str, span: _Span) -> bool:
    """Whether this is an unknown mark, and not two unrelated signs in a text."""
    if span.end - span.start > LONGEST_BYTES:
        return False
    source = text[span.start : span.end]
    return not _LINE_BREAK.search(source) and _size(source) <= LONGEST_BYTES


def _read_span(text: str, span: _Span, names: Names) -> Found:
    source = text[span.start : span.end]
    if span.form is None:
        return Found(explain_unknown(source[len(OPEN) : -len(CLOSE)], names), source)
    if _size(source) > LONGEST_BYTES:
        reason = f"it is longer than {LONGEST_BYTES} bytes"
        return Found(Unreadable(span.form.keyword, reason), source)
    return Found(read_form(span.form, names), source)


def _empty_text(text: str, spans: list[_Span], reader: _Reader) -> str:
    """Remove directives, and also those that only appear by the removal, which do not act.

    So no directive goes upstream, however they were nested. If they are nested deeper than any
    person would write, the opening marks themselves are removed.
    """
    for _ in range(PASSES):
        text = _without(text, spans)
        spans = list(_spans(text, reader)) if OPEN in text else []
        if not spans:
            return text
    return _MARK_RUNS.sub(_unless_opening, text)


def _without(text: str, spans: list[_Span]) -> str:
    starts = [0, *(span.end for span in spans)]
    ends = [*(span.start for span in spans), len(text)]
    return "".join(text[start:end] for start, end in zip(starts, ends, strict=True))


def _unless_opening(run: re.Match[str]) -> str:
    return "" if OPEN in run[0] else run[0]
