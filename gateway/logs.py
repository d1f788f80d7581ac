"""Log lines: one line a record, text or JSON, never a secret or a user's words.

Two ways in. `EventLog` writes what happens on every request: it formats without the machinery of
`logging` and writes a tenth of a second's lines at once, since a line each was a third of what a
small request cost. What libraries and `logging` say takes its place among them, in the same form,
so that times never run backwards. All is written through a `LogWriter`, so that nobody waits for a
log that is not read.

Lines about one request carry the same ids: `bind_ids` sets them for the task that answers it, and
every line that is noted in this task, by whatever part, has them.
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
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol, TextIO, TypeVar

import msgspec

from gateway.timestamps import iso

FLUSH_SECONDS = 0.1
# What may wait to be written, in characters; what comes beyond is dropped and counted.
MOST_WAITING = 1024 * 1024
EXIT_SECONDS = 1.0
DROPPED = "log_lines_dropped"
DEBUG, INFO, WARNING, ERROR = "debug", "info", "warning", "error"
LEVELS: Mapping[str, int] = {
    DEBUG: logging.DEBUG,
    INFO: logging.INFO,
    WARNING: logging.WARNING,
    ERROR: logging.ERROR,
}
# The level of an event whose line does not set its own; all others are `info`. An `error` is for
# the operator: something that the gateway keeps could not be read or written.
EVENT_LEVELS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "answer_not_read",
            "answer_not_stored",
            "answers_not_swept",
            "budget_not_read",
            "deliveries_not_kept",
            "deliveries_not_read",
            "deliveries_owed",
            "directive_not_stored",
            "errands_not_read",
            "event_not_kept",
            "events_not_read",
            "events_not_tidied",
            "handover_not_loaded",
            "jobs_not_read",
            "lease_not_renewed",
            "limits_not_shared",
            "lock_not_released",
            "lock_not_renewed",
            "quarantined",
            "reminders_not_read",
            "reminders_not_stored",
            "reminders_not_swept",
            "reminders_owed",
            "result_not_brought",
            "result_not_told",
            "results_not_read",
            "run_not_recorded",
            "session_not_read",
            "session_not_stored",
            "sessions_not_swept",
            "signatures_not_read",
            "sign_in_secret_not_kept",
            "signatures_not_stored",
            "signatures_not_swept",
            "store_away",
            "store_refused",
            "snapshot_not_kept",
            "store_not_tidied",
            "tool_results_not_stored",
            "usage_not_pruned",
            "usage_not_stored",
        ),
        ERROR,
    ),
    **dict.fromkeys(
        (
            "api_key_command_failed",
            "clock_set_back",
            "config_needs_restart",
            "config_not_reloaded",
            "connections_refused",
            "deliveries_dropped",
            "directive_ignored",
            "host_clock_skewed",
            "instance_buried",
            "instance_lapsed",
            "late_write",
            "listener_deaf",
            "listener_lost",
            "reminders_expired",
            "run_interrupted",
            "sessions_away",
            "store_role_refused",
            "stop_message_disarmed",
            "stop_message_lowered",
            "times_missed",
            "webhook_failed",
            "worker_ended",
        ),
        WARNING,
    ),
}
# Where a line begins, in both forms: what it says may have other times in it.
_find_stamps = re.compile(r'^(?:\{"time":")?(\d{4}-\d\d-\d\dT[\d:.]+Z)', re.MULTILINE).findall
_is_bare = re.compile(r"[\w.,:/@*+-]+").fullmatch

Fields = dict[str, Any]
Line = tuple[float, str, str, Callable[[Any], str], Any]
"""When, the level, the event, how its particulars are written, and what these are."""
# The one value that belongs to a task and not to an object: it is the only way in which a line of
# the store or a tool can name the request that it was written for.
_ids: ContextVar[tuple[str, str]] = ContextVar("holdgate_ids", default=("", ""))
T = TypeVar("T")


def bind_ids(exchange_id: str, request_id: str = "") -> None:
    """Have all lines of this task, from now on, name the exchange and the client's request id."""
    _ids.set((exchange_id, request_id))


def _name_request() -> Fields:
    """Return the fields that name the request of this task, if it answers one."""
    exchange_id, request_id = _ids.get()
    if not exchange_id:
        return {}
    named = request_id and request_id != exchange_id
    return {"exchange": exchange_id, **({"request": request_id} if named else {})}


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
    try:
        return msgspec.json.encode(fields).decode()[1:-1]
    except UnicodeEncodeError:
        # A name of a file need not be UTF-8; a line that fails would take others with it.
        return json.dumps(fields, ensure_ascii=False).encode(errors="replace").decode()[1:-1]


def _text(value: object) -> str:
    return quote(value) if isinstance(value, str) else str(value)


def quote(value: str) -> str:
    """Return a text as a line can hold it."""
    # What is not plain is quoted as JSON does it: a line stays one line, whatever is in it.
    return value if _is_bare(value) else json.dumps(value)


FRAMES: dict[str, Callable[[str, str, str, str], str]] = {"text": text_line, "json": json_line}
WRITERS: dict[str, Callable[[Fields], str]] = {"text": pairs, "json": members}
BETWEEN = {"text": " ", "json": ","}


def _write_named(form: str, instance: str, when: str, level: str, event: str, members: str) -> str:
    """Write a line whose last member names the process."""
    name = WRITERS[form]({"instance": instance})
    return FRAMES[form](when, level, event, f"{members}{BETWEEN[form]}{name}" if members else name)


def _instant(at: float) -> str:
    return iso(round(at * 1000))


def _find_running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _find_whole_lines(data: memoryview) -> int:
    """Return how much of it a pipe takes as one piece: whole lines, as many as fit."""
    if len(data) <= select.PIPE_BUF:
        return len(data)
    end = bytes(data[: select.PIPE_BUF]).rfind(b"\n") + 1
    # No pipe promises anything about a longer line.
    return end or bytes(data).find(b"\n") + 1 or len(data)


class LogStream(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object:
        """Take whole lines."""

    def flush(self) -> object:
        """See that they are on their way."""


class LogWriter:
    """Writes lines from a thread of its own: a full pipe or a stopped terminal blocks only that.

    What does not fit into its buffer is dropped, which a line says as soon as one can be written.
    Other processes write to a shared stream, too: their lines and ours do not tear each other.
    """

    def __init__(
        self, stream: TextIO, form: str, most: int = MOST_WAITING, *, shared: bool = False
    ) -> None:
        self._stream = stream
        self._form = form
        self._most = most
        self._find_piece = _find_whole_lines if shared else len
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._size = 0
        self._untold = 0
        self._newest = ""
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
            self._newest = text
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
        # As of the line before it: lines that are still to come may be older than this moment.
        stamps = _find_stamps(self._newest)
        when = stamps[-1] if stamps else _instant(time.time())
        line = FRAMES[self._form](when, "WARNING", DROPPED, members)
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
                data = data[os.write(descriptor, data[: self._find_piece(data)]) :]
            except BlockingIOError:
                select.select((), (descriptor,), ())
            except OSError:
                return bytes(data).count(b"\n")
        return 0


class EventLog:
    """Notes what happens, in lines that are written a moment later, many at once."""

    def __init__(
        self,
        form: str,
        stream: LogStream,
        now: Callable[[], float] = time.time,
        level: str = INFO,
    ) -> None:
        self.form = form
        self._stream = stream
        self._now = now
        self._least = LEVELS[level]
        self._lines: list[Line] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._newest = 0.0
        self.name_instance: Callable[[], str] = lambda: ""
        """Says which process of several this is; every line names it."""

    def writes(self, level: str) -> bool:
        """Whether lines of this level are written at all."""
        return LEVELS[level] >= self._least

    @property
    def dropped(self) -> int:
        """How many lines were never written."""
        return self._stream.dropped if isinstance(self._stream, LogWriter) else 0

    def note(self, event: str, *, level: str = "", **fields: Any) -> None:
        """Note what happened, with its particulars and the ids of its request."""
        level = level or EVENT_LEVELS.get(event, INFO)
        if LEVELS[level] >= self._least:
            named = {**_name_request(), **fields}
            self._add((self._now(), level, event, WRITERS[self.form], named))

    def defer(self, event: str, write: Callable[[T], str], what: T, *, level: str = INFO) -> None:
        """Note what happened; how it is said is asked when the line is written.

        Said one by one, each line finds the processor's caches full of other things, which
        doubled its cost.
        """
        if LEVELS[level] >= self._least:
            self._add((self._now(), level, event, write, what))

    def note_record(self, record: logging.LogRecord, fields: Fields) -> None:
        """Note what `logging` was told, by whatever thread."""
        level = record.levelname.lower()
        line = (record.created, level, "log", WRITERS[self.form], {**_name_request(), **fields})
        loop = self._loop
        if loop is None or loop.is_closed():
            self._lines.append(line)
            self.flush()
        elif _find_running_loop() is loop:
            self._add(line)
        else:
            loop.call_soon_threadsafe(self._add, line)

    def _add(self, line: Line) -> None:
        if not self._lines:
            self._loop = asyncio.get_running_loop()
            self._loop.call_later(FLUSH_SECONDS, self.flush)
        self._lines.append(line)

    def flush(self) -> None:
        """Write what was noted."""
        lines, self._lines = self._lines, []
        if lines:
            frame = FRAMES[self.form]
            if instance := self.name_instance():
                frame = partial(_write_named, self.form, instance)
            written = [
                frame(self._stamp(at), level.upper(), event, write(what))
                for at, level, event, write, what in lines
            ]
            self._stream.write("".join(written))
            self._stream.flush()

    def _stamp(self, at: float) -> str:
        """Write a time; never one before that of the line before, whatever the host's clock did."""
        self._newest = max(self._newest, at)
        return _instant(self._newest)


class EventLogHandler(logging.Handler):
    """Hands what `logging` is told to an `EventLog`."""

    def __init__(self, event_log: EventLog) -> None:
        super().__init__()
        self._event_log = event_log
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record over."""
        fields: Fields = {"logger": record.name, "says": record.getMessage()}
        if record.exc_info:
            fields["exception"] = self._formatter.formatException(record.exc_info)
        self._event_log.note_record(record, fields)


def set_up(event_log: EventLog) -> None:
    """Have this log take what `logging` is told, by us and by libraries."""
    root = logging.getLogger()
    root.handlers[:] = [EventLogHandler(event_log)]
    root.setLevel(logging.ERROR if not event_log.writes(WARNING) else logging.WARNING)
