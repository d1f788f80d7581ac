"""The `bd` task tracker: asked whether work is left, quickly, or not at all."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import anyio
import msgspec

LIMIT_SECONDS = 2.0
CACHE_SECONDS = 5.0
QUESTIONS = (
    ("--no-db", "list", "--status", "in_progress", "--json"),
    ("--no-db", "ready", "--json"),
)


class Tracker:
    """Asks `bd`; what it said holds for some seconds. Where there is none, nothing is asked."""

    def __init__(self, now: Callable[[], float], path: str | None) -> None:
        self._now = now
        self._program = shutil.which("bd", path=path)
        self._said: bool | None = None
        self._said_at = -CACHE_SECONDS

    async def work_left(self) -> bool | None:
        """Return whether work is left, or None when that cannot be known."""
        if self._program is None:
            return None
        if self._now() - self._said_at >= CACHE_SECONDS:
            self._said = await self._ask(self._program)
            self._said_at = self._now()
        return self._said

    async def _ask(self, program: str) -> bool | None:
        for question in QUESTIONS:
            listed = await _listed((program, *question))
            if listed is None or listed:
                return listed
        return False


async def _listed(command: tuple[str, ...]) -> bool | None:
    """Return whether the command lists anything, or None when it fails or takes too long."""
    with anyio.move_on_after(LIMIT_SECONDS):
        try:
            done = await anyio.run_process(command, check=False, stderr=subprocess.DEVNULL)
        except OSError:
            return None
        return _any_in(done.stdout) if done.returncode == 0 else None
    return None


def _any_in(output: bytes) -> bool | None:
    try:
        items = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if items is None:
        return False
    return bool(items) if isinstance(items, list) else None
