"""Log lines: one line a record, text or JSON, never a secret or a user's words.

Two ways in. `Journal` writes what happens on every request: it formats without the machinery of
`logging` and writes a tenth of a second's lines at once, since a line each was a third of what a
small request cost. Warnings and exceptions go through `logging`, in the same form.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

import msgspec

FLUSH_SECONDS = 0.1
_is_bare = re.compile(r"[\w.,:/@*+-]+").fullmatch

Fields = dict[str, Any]
Line = tuple[float, str, Callable[[Any], str], Any]
T = TypeVar("T")


def text_line(when: str, level: str, event: str, said: str) -> str:
    """Write a line for people: `time LEVEL event name=value …`."""
    return f"{when} {level} {event} {said}".rstrip() + "\n"


def json_line(when: str, level: str, event: str, said: str) -> str:
    """Write a line for machines: one JSON object."""
    rest = f",{said}" if said else ""
    return f'{{"time":"{when}","level":"{level.lower()}","event":"{event}"{rest}}}\n'


def pairs(fields: Fields) -> str:
    """Write particulars for people."""
    # What is plain is told apart here: there are half a dozen in every line.
    return " ".join(
        [
            f"{name}={value if isinstance(value, str) and _is_bare(value) else _text(value)}"
            for name, value in fields.items()
            if value is not None
        ]
    )


def members(fields: Fields) -> str:
    """Write particulars for machines: the members of an object, without its braces."""
    return msgspec.json.encode(fields).decode()[1:-1]


def _text(value: object) -> str:
    if not isinstance(value, str):
        return str(value)
    return quoted(value)


def quoted(value: str) -> str:
    """Return a text as a line can hold it."""
    # What is not plain is quoted as JSON does it: a line stays one line, whatever is in it.
    return value if _is_bare(value) else json.dumps(value)


FRAMES: dict[str, Callable[[str, str, str, str], str]] = {"text": text_line, "json": json_line}
WRITERS: dict[str, Callable[[Fields], str]] = {"text": pairs, "json": members}


class Stamp:
    """UTC time in milliseconds as text; the calendar is asked once a second."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def __call__(self, at: float) -> str:
        """Write this instant."""
        second, millisecond = divmod(round(at * 1000), 1000)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._text}.{millisecond:03d}Z"


class Journal:
    """Notes what happens, in lines that are written a moment later, many at once."""

    def __init__(self, form: str, stream: TextIO, now: Callable[[], float] = time.time) -> None:
        self.form = form
        self._stream = stream
        self._now = now
        self._stamp = Stamp()
        self._lines: list[Line] = []

    def note(self, event: str, **fields: Any) -> None:
        """Note what happened, with its particulars."""
        self._add((self._now(), event, WRITERS[self.form], fields))

    def defer(self, event: str, write: Callable[[T], str], what: T) -> None:
        """Note what happened; how it is said is asked when the line is written.

        Said one by one, each line finds the processor's caches full of other things, which
        doubled its cost.
        """
        self._add((self._now(), event, write, what))

    def _add(self, line: Line) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
        self._lines.append(line)

    def flush(self) -> None:
        """Write what was noted."""
        lines, self._lines = self._lines, []
        if lines:
            frame, stamp = FRAMES[self.form], self._stamp
            said = [
                frame(stamp(at), "INFO", event, write(what)) for at, event, write, what in lines
            ]
            self._stream.write("".join(said))
            self._stream.flush()


class _Lines(logging.Formatter):
    def __init__(self, form: str) -> None:
        super().__init__()
        self._form = form
        self._stamp = Stamp()

    def format(self, record: logging.LogRecord) -> str:
        fields: Fields = {"logger": record.name, "says": record.getMessage()}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        when = self._stamp(record.created)
        said = WRITERS[self._form](fields)
        return FRAMES[self._form](when, record.levelname, "log", said).removesuffix("\n")


def set_up(form: str, stream: TextIO) -> None:
    """Send what `logging` takes, ours and the libraries', to this stream in this form."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Lines(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
