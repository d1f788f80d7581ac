"""A gateway whose every trace is recorded, and compared with the record that is kept of it.

A record is made anew with `HOLDGATE_RECORD=1`; look at what changed in it before it is committed.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from gateway.clock import ManualClock
from tests.gateway.client import Answer, Client
from tests.gateway.wire import request
from tests.golden.placeholders import START, Placeholders
from tests.golden.reading import (
    answer_lines,
    event_of,
    log_lines,
    metric_lines,
    posted_lines,
    request_lines,
    store_lines,
    upstream_lines,
)
from tests.outbox.receiver import Posted
from tests.pairs.neutral import Ask, Tongue
from tests.run import Running, in_process, until
from tests.sessions.talk import JSON, SESSION
from tests.wire.fake import Story

RECORDS = Path(__file__).parent / "records"
ANEW = "HOLDGATE_RECORD"
AGENTS = [
    {"id": "helper", "name": "Helper", "model": "m", "system": "You help."},
    {"id": "planner", "model": "m", "tools": ["schedule_task"]},
]
_AROUND = 90


class Visitor(Client):
    """A client that keeps every byte it was sent."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self.asked = b""
        self.raw = b""
        self.ending = ""

    async def send(self, data: bytes) -> None:
        self.asked += data
        await super().send(data)

    async def answer(self, *, bodyless: bool = False) -> Answer:
        found = await super().answer(bodyless=bodyless)
        assert not self.spare
        self.ending = found.ending
        return found

    async def _more(self) -> str:
        known = len(self._seen)
        how = await super()._more()
        self.raw += self._seen[known:]
        return how

    def leave(self) -> None:
        self.ending = self.ending or "the client left"
        super().leave()


class Stage:
    """A gateway, its clients and its clock, all of it recorded."""

    def __init__(self, gate: Running, clock: ManualClock, directory: Path) -> None:
        self.gate = gate
        self.clock = clock
        self._directory = directory
        self._visitors: list[Visitor] = []
        self.posted: list[Posted] = []
        self._looks: list[tuple[str, list[str]]] = []

    async def begin(self, asked: bytes) -> Visitor:
        """Send a request, and leave its answer to the story."""
        visitor = await Visitor.connected(self.gate.port)
        assert isinstance(visitor, Visitor)
        self._visitors.append(visitor)
        await visitor.send(asked)
        return visitor

    async def fetch(self, asked: bytes) -> Answer:
        """Send a request, read its answer to the end, and wait until all is quiet again."""
        visitor = await self.begin(asked)
        answer = await visitor.answer(bodyless=(await visitor.head()).status == 204)
        visitor.leave()
        await self.gate.quiet()
        return answer

    async def ask(
        self,
        tongue: Tongue,
        ask: Ask,
        *headers: str,
        stream: bool = True,
        session: bool = False,
        **more: Any,
    ) -> Answer:
        """Ask for a model's answer in a dialect."""
        asked = asking(tongue, ask, *headers, stream=stream, session=session, **more)
        return await self.fetch(asked)

    def keeps(self, text: str) -> bool:
        """Tell whether something is kept by now."""
        return any(text in line for line in store_lines(self._directory))

    def look(self, when: str) -> None:
        """Record what is kept at this moment."""
        self._looks.append((when, store_lines(self._directory)))

    def sections(self, log: list[str], metrics: list[str], beating: bool) -> Iterator[str]:
        """Write all that was seen."""
        for number, visitor in enumerate(self._visitors, 1):
            head, _, body = visitor.asked.partition(b"\r\n\r\n")
            yield f"## client {number}"
            yield from request_lines(head, body)
            yield from answer_lines(visitor.raw, visitor.ending, beating)
            yield ""
        for name, fake in zip("abcdef", self.gate.fakes, strict=False):
            yield f"## upstream {name}"
            yield from upstream_lines(fake.requests)
            yield ""
        if self.posted:
            yield "## webhook"
            yield from posted_lines(self.posted)
            yield ""
        for when, lines in self._looks:
            yield f"## kept {when}"
            yield from lines
            yield ""
        yield "## kept"
        yield from store_lines(self._directory)
        yield ""
        yield "## log"
        yield from log
        yield ""
        yield "## metrics"
        yield from metrics


def asking(
    tongue: Tongue,
    ask: Ask,
    *headers: str,
    stream: bool = True,
    session: bool = False,
    **more: Any,
) -> bytes:
    """Write a request for a model's answer in a dialect; `more` are members of its body."""
    named = (SESSION,) if session else ()
    body = tongue.ask(ask, stream, **more)
    return request("POST", tongue.PATH, JSON, *named, *headers, body=body)


@asynccontextmanager
async def recorded(
    name: str,
    directory: Path,
    *stories: Story | None,
    tables: Mapping[str, Any] | None = None,
    beating: bool = False,
    log_in_order: bool = True,
    **options: Any,
) -> AsyncIterator[Stage]:
    """Run a gateway that keeps files and a database, and compare all of it with its record.

    `beating` is for answers whose heartbeats have no fixed number, `log_in_order` false for work
    whose parts go on side by side.
    """
    clock = ManualClock(START)
    kept = {"store__url": "", "server__session_dir": str(directory)}
    quick = {"clock__due_window_ms": 0, "cron__idle_retry_ms": 10, "clock__timezone": "UTC"}
    settings = {"clock__enabled": False, **kept, **quick, **options.pop("settings", {})}
    told = {"agents": AGENTS, **(tables or {})}
    options["upstream"] = {"ask_usage": True, **options.get("upstream", {})}
    with _warnings() as warnings:
        async with in_process(
            *stories, clock=clock, tables=told, settings=settings, **options
        ) as gate:
            # What is added while jobs are being read at the start may be taken for gone.
            await until(lambda: gate.gateway.parts.job_index.is_loaded)
            stage = Stage(gate, clock, directory)
            yield stage
            await gate.quiet()
            metrics = metric_lines(gate.gateway.metrics.render())
        log = log_lines(gate.log) if log_in_order else sorted(log_lines(gate.log), key=event_of)
        lines = [f"# {name}", "", *stage.sections(log, metrics, beating)]
        lines += ["", "## warnings", *(warnings or ["(none)"])]
    compare(name, Placeholders(directory=str(directory)).put("\n".join(lines)) + "\n")


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect what is said through `logging`."""
    found: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(f"{record.levelname} {record.name}: {record.getMessage()}")

    collector = Collector(logging.WARNING)
    logging.getLogger().addHandler(collector)
    try:
        yield found
    finally:
        logging.getLogger().removeHandler(collector)


def compare(name: str, text: str) -> None:
    """Demand that a record is what it was, or make it anew if that is wished."""
    path = RECORDS / f"{name}.txt"
    if os.environ.get(ANEW):
        path.write_text(text)
    assert path.exists(), f"There is no record {path.name}: make it with {ANEW}=1."
    was = path.read_text()
    if text != was:
        raise AssertionError(f"{path.name} is not what it was:\n{difference(was, text)}")


def difference(was: str, now: str) -> str:
    """Tell what differs, and of long lines only what stands around the difference."""
    old, new = was.split("\n"), now.split("\n")
    told: list[str] = []
    section = ""
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for kind, begin, end, first, last in matcher.get_opcodes():
        if kind != "equal":
            here = next((line for line in reversed(old[: begin + 1]) if line[:2] == "##"), "")
            told += [here] if here != section else []
            section = here
            told += _clipped(old[begin:end], new[first:last])
    return "\n".join(told)


def _clipped(old: list[str], new: list[str]) -> Iterator[str]:
    """Return lines with their marks; those that replace each other from where they differ."""
    pairs = min(len(old), len(new))
    for at in range(pairs):
        common = _common(old[at], new[at])
        yield f"- {_around(old[at], common)}"
        yield f"+ {_around(new[at], common)}"
    yield from (f"- {line}" for line in old[pairs:])
    yield from (f"+ {line}" for line in new[pairs:])


def _common(one: str, other: str) -> int:
    """Tell how many characters two lines begin with are the same."""
    both = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in both if a != b), min(len(one), len(other)))


def _around(line: str, at: int) -> str:
    begin, end = max(0, at - _AROUND), at + _AROUND
    return ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else "")


async def held(stage: Stage) -> None:
    """Wait until one answer is held."""
    await until(lambda: stage.gate.states == ["holding"] and len(stage.gate.gateway.holds) == 1)
