"""Log lines: one line a record, text or JSON, never a secret or a user's words.

Two ways in. `EventLog` writes what happens on every request: it formats without the machinery of
`logging` and writes a tenth of a second's lines at once, since a line each was a third of what a
small request cost. Warnings and exceptions go through `logging`, in the same form. Both write
through a `LogWriter`, so that nobody waits for a log that is not read.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import re
import select
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO, TypeVar

import msgspec

from gateway.timestamps import iso

FLUSH_SECONDS = 0.1
# What may wait to be written, in characters; what comes beyond is dropped and counted.
MOST_WAITING = 1024 * 1024
EXIT_SECONDS = 1.0
DROPPED = "log_lines_dropped"
_is_bare = re.compile(r"[\w.,:/@*+-]+").fullmatch

Fields = dict[str, Any]
Line = tuple[float, str, Callable[[Any], str], Any]
T = TypeVar("T")


def text_line(when: str, level: str, event: str, members: str) -> str:
    """Write a line for people: `time LEVEL event name=value …`."""
    return f"{when} {level} {event} {members}".rstrip() + "\n"


def json_line(when: str, level: str, event: str, members: str) -> str:
    """Write a line for machines: one JSON object."""
    rest = f",{members}" if members else ""
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
    return quote(value) if isinstance(value, str) else str(value)


def quote(value: str) -> str:
    """Return a text as a line can hold it."""
    # What is not plain is quoted as JSON does it: a line stays one line, whatever is in it.
    return value if _is_bare(value) else json.dumps(value)


FRAMES: dict[str, Callable[[str, str, str, str], str]] = {"text": text_line, "json": json_line}
WRITERS: dict[str, Callable[[Fields], str]] = {"text": pairs, "json": members}


def _instant(at: float) -> str:
    return iso(round(at * 1000))


class LogStream(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object:
        """Take whole lines."""

    def flush(self) -> object:
        """See that they are on their way."""


class LogWriter:
    """Writes lines from a thread of its own: a full pipe or a stopped terminal blocks only that.

    What does not fit into its buffer is dropped, which a line says as soon as one can be written.
    """

    def __init__(self, stream: TextIO, form: str, most: int = MOST_WAITING) -> None:
        self._stream = stream
        self._form = form
        self._most = most
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._size = 0
        self._untold = 0
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """Lines that were never written."""

    def write(self, text: str, /) -> None:
        """Take whole lines; never wait for them to be written."""
        with self._changed:
            if self._size and self._size + len(text) > self._most:
                self._drop(text.count("\n"))
                return
            self._lines.append(text)
            self._size += len(text)
            if self._thread is None:
                self._start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Do nothing: lines are written as soon as that is possible."""

    def close(self, seconds: float = EXIT_SECONDS) -> None:
        """Wait until all is written, but not for long: perhaps nobody reads it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._size, seconds)

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _drop(self, lines: int) -> None:
        self.dropped += lines
        self._untold += lines

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                text, self._lines = "".join(self._lines), []
            lost = self._put(text)
            with self._changed:
                self._size -= len(text)
                if lost:
                    self._drop(lost)
                elif self._untold:
                    self._tell()
                self._changed.notify_all()

    def _tell(self) -> None:
        members = WRITERS[self._form]({"lines": self._untold})
        line = FRAMES[self._form](_instant(time.time()), "WARNING", DROPPED, members)
        self._lines.append(line)
        self._size += len(line)
        self._untold = 0

    def _put(self, text: str) -> int:
        """Write all of it, however long that takes; return how many lines could not be."""
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError):
            self._stream.write(text)
            return 0
        # Not through the stream: one that blocks inside could not be left at the end.
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                select.select((), (descriptor,), ())
            except OSError:
                return bytes(data).count(b"\n")
        return 0


class EventLog:
    """Notes what happens, in lines that are written a moment later, many at once."""

    def __init__(self, form: str, stream: LogStream, now: Callable[[], float] = time.time) -> None:
        self.form = form
        self._stream = stream
        self._now = now
        self._lines: list[Line] = []

    @property
    def dropped(self) -> int:
        """How many lines were never written."""
        return self._stream.dropped if isinstance(self._stream, LogWriter) else 0

    def note(self, event: str, **fields: Any) -> None:
        """Note what happened, with its particulars."""
        self._add((self._now(), event, WRITERS[self.form], fields))

    def warn(self, event: str, **fields: Any) -> None:
        """Note what somebody has to look after, in a line that is written at once."""
        self.flush()
        line = WRITERS[self.form](fields)
        self._stream.write(FRAMES[self.form](_instant(self._now()), "WARNING", event, line))
        self._stream.flush()

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
            frame = FRAMES[self.form]
            written = [
                frame(_instant(at), "INFO", event, write(what)) for at, event, write, what in lines
            ]
            self._stream.write("".join(written))
            self._stream.flush()


class _Lines(logging.Formatter):
    def __init__(self, form: str) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        fields: Fields = {"logger": record.name, "says": record.getMessage()}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        when = _instant(record.created)
        members = WRITERS[self._form](fields)
        return FRAMES[self._form](when, record.levelname, "log", members).removesuffix("\n")


def set_up(form: str, stream: LogStream) -> None:
    """Send what `logging` takes, ours and the libraries', to this stream in this form."""
    handler: logging.StreamHandler[Any] = logging.StreamHandler(stream)
    handler.setFormatter(_Lines(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
