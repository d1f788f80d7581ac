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
from typing import Any, TextIO

import msgspec

FLUSH_SECONDS = 0.1
_is_bare = re.compile(r"[\w.,:/@*+-]+").fullmatch

Fields = dict[str, Any]
Writer = Callable[[str, str, str, Fields], str]


def text_line(when: str, level: str, event: str, fields: Fields) -> str:
    """Write a line for people: `time LEVEL event name=value …`."""
    said = [f"{name}={_text(value)}" for name, value in fields.items() if value is not None]
    return " ".join((when, level, event, *said)) + "\n"


def json_line(when: str, level: str, event: str, fields: Fields) -> str:
    """Write a line for machines: one JSON object."""
    line = {"time": when, "level": level.lower(), "event": event, **fields}
    return msgspec.json.encode(line).decode() + "\n"


def _text(value: object) -> str:
    if not isinstance(value, str):
        return str(value)
    return quoted(value)


def quoted(value: str) -> str:
    """Return a text as a line can hold it."""
    # What is not plain is quoted as JSON does it: a line stays one line, whatever is in it.
    return value if _is_bare(value) else json.dumps(value)


WRITERS: dict[str, Writer] = {"text": text_line, "json": json_line}


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
        self._line = WRITERS[form]
        self._stream = stream
        self._now = now
        self._stamp = Stamp()
        self._lines: list[str] = []

    def note(self, event: str, **fields: Any) -> None:
        """Note what happened, with its particulars."""
        self._add(self._line(self._stamp(self._now()), "INFO", event, fields))

    def line(self, event: str, said: str) -> None:
        """Note what happened in words that are ready, in the form for people."""
        self._add(f"{self._stamp(self._now())} INFO {event} {said}\n")

    def _add(self, line: str) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
        self._lines.append(line)

    def flush(self) -> None:
        """Write what was noted."""
        lines, self._lines = self._lines, []
        if lines:
            self._stream.write("".join(lines))
            self._stream.flush()


class _Lines(logging.Formatter):
    def __init__(self, form: str) -> None:
        super().__init__()
        self._line = WRITERS[form]
        self._stamp = Stamp()

    def format(self, record: logging.LogRecord) -> str:
        fields: Fields = {"logger": record.name, "says": record.getMessage()}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        when = self._stamp(record.created)
        return self._line(when, record.levelname, "log", fields).removesuffix("\n")


def set_up(form: str, stream: TextIO) -> None:
    """Send what `logging` takes, ours and the libraries', to this stream in this form."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Lines(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
