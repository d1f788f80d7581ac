"""Asks the `bd` task tracker whether work is left, within a short time limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

import anyio
import msgspec

LIMIT_SECONDS = 2.0
CACHE_SECONDS = 5.0
QUESTIONS = (
    ("--no-db", "list", "--status", "in_progress", "--json"),
    ("--no-db", "ready", "--json"),
)


class TaskTracker:
    """Asks `bd` and caches its answer for some seconds; without `bd` nothing is asked."""

    def __init__(
        self, now: Callable[[], float], path: str | None, directory: str | None = None
    ) -> None:
        self._now = now
        self._directory = directory
        self._program = shutil.which("bd", path=path)
        self._said: bool | None = None
        self._said_at = -CACHE_SECONDS
        self._asking = anyio.Lock()

    async def is_work_left(self) -> bool | None:
        """Return whether work is left; None if that is not known."""
        if self._program is None:
            return None
        # If many ask at once, one runs the command and the others wait for its answer.
        async with self._asking:
            if self._now() - self._said_at >= CACHE_SECONDS:
                self._said = await self._ask(self._program)
                self._said_at = self._now()
        return self._said

    async def _ask(self, program: str) -> bool | None:
        for question in QUESTIONS:
            listed = await _lists_anything((program, *question), self._directory)
            if listed is None or listed:
                return listed
        return False


async def _lists_anything(command: tuple[str, ...], directory: str | None) -> bool | None:
    """Return whether the command lists anything, or None when it fails or takes too long."""
    with anyio.move_on_after(LIMIT_SECONDS):
        try:
            status, output = await _run(command, directory)
        except OSError:
            return None
        return _any_in(output) if status == 0 else None
    return None


async def _run(command: tuple[str, ...], directory: str | None) -> tuple[int, bytes]:
    """Run a command to its end; on cancel, kill it and all processes that it started."""
    quiet = subprocess.DEVNULL
    # While it starts, there is no process yet that could be killed.
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            command, stdin=quiet, stderr=quiet, cwd=directory, start_new_session=True
        )
    async with process:
        assert process.stdout is not None
        try:
            output = b"".join([data async for data in process.stdout])
            return await process.wait(), output
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


def _any_in(output: bytes) -> bool | None:
    try:
        items = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if items is None:
        return False
    return bool(items) if isinstance(items, list) else None
