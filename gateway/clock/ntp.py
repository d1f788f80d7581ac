"""The host's clock, corrected by time servers: best effort, and never in anybody's way.

All servers are asked at once, in threads that nobody waits for beyond a limit. Of the answers that
can be believed the nearest counts; where several answer, a large correction needs two that agree.
`offset_ms` is changed only on the event loop, in one assignment, so a reader sees the old time or
the new one. A failure changes `ntp.status` and `ntp.last_error` only: the last correction stays in
force. Each outcome is written to a file, so that a restart without network begins with the last
correction; a file that cannot be read or written costs a warning and nothing else. `_syncing` keeps
two rounds apart; nobody who asks for the time waits for it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio
import msgspec

from gateway.clock import state_file
from gateway.clock.detached import Detached, NotStarted
from gateway.clock.protocol import NtpState
from gateway.clock.sntp import (
    STEP_MS,
    Kissed,
    NoTime,
    OffsetSample,
    Resolve,
    choose,
    judge,
    query,
    resolve,
    silence,
)
from gateway.clock.system import Host, sleep_a_slice

JITTER = 0.1
KISS_REST_S = 86_400.0
# A thread that keeps to its limit says more about what went wrong than one that is given up.
GRACE_S = 0.1
FILE_LIMIT_S = 5.0
STATE_FILE = "state file"
DISK_HANGS = "the disk does not answer"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NtpSettings:
    """Whom to ask, how often, and what to believe."""

    servers: tuple[str, ...]
    timeout_ms: int = 800
    stale_after_ms: int = 21_600_000
    resync_ms: int = 3_600_000
    max_offset_ms: int = 600_000


class NtpClock:
    """Shows the host's time plus what the best server says is missing."""

    def __init__(
        self,
        settings: NtpSettings,
        path: Path | None = None,
        host: Host | None = None,
        look_up: Resolve = resolve,
    ) -> None:
        self.offset_ms = 0
        self._settings = settings
        self._path = path
        self._host = host or Host()
        self._wall = self._host.wall
        self._look_up = look_up
        self._state = NtpState("stale")
        self._restored = False
        self._corrected = anyio.Event()
        self._detached = Detached()
        self._syncing = anyio.Lock()
        self._resting: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<NtpClock {self.ntp.status} {self.offset_ms:+d} ms>"

    @property
    def ntp(self) -> NtpState:
        """How the time was last corrected, and whether that is still fresh."""
        state = self._state
        if state.status != "synced" or state.last_sync_ms is None:
            return state
        # A correction far in the future is as doubtful as one long past: some clock was stepped.
        if abs(self.now_ms() - state.last_sync_ms) <= self._settings.stale_after_ms:
            return state
        return msgspec.structs.replace(state, status="stale")

    def now_ms(self) -> int:
        """Return the corrected time."""
        return int(self._wall() * 1000) + self.offset_ms

    def steady_ms(self) -> int:
        """Return the host's steady time."""
        return int(self._host.steady() * 1000)

    async def sleep_until(self, at_ms: int) -> None:
        """Return at this time, or after a slice; a correction meanwhile is taken into account."""
        await sleep_a_slice(self._host, lambda: at_ms - self.now_ms(), self._pause)

    async def _pause(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._corrected.wait()

    async def run(self) -> NoReturn:
        """Correct the time at once, and again and again for ever."""
        await self.restore()
        while True:
            await self.sync()
            await self._rest()

    async def _rest(self) -> None:
        """Wait until it is time to ask again, or the host's clock was stepped."""
        host, before = self._host, self._lead()
        spread = 1 - JITTER + 2 * JITTER * host.chance()
        end = host.steady() + self._settings.resync_ms * spread / 1000
        while (left := end - host.steady()) > 0:
            await anyio.sleep(min(left, host.slice_s))
            if abs(self._lead() - before) * 1000 > STEP_MS:
                return

    def _lead(self) -> float:
        return self._host.wall() - self._host.steady()

    async def sync(self) -> NtpState:
        """Ask all servers at once, take the best answer, and keep it over a restart."""
        async with self._syncing:
            answers, problems = await self._ask_all()
            best = choose(answers, self.offset_ms)
            if best is not None:
                self._take(best)
            else:
                self._fail(_why(answers, problems))
            await self._keep()
        return self.ntp

    async def _ask_all(self) -> tuple[list[OffsetSample], dict[str, str]]:
        answers: list[OffsetSample] = []
        problems = dict.fromkeys(self._settings.servers, "")

        async def ask(server: str) -> None:
            try:
                answers.append(await self._ask(server))
            except NoTime as error:
                problems[server] = str(error)

        async with anyio.create_task_group() as group:
            for server in problems:
                group.start_soon(ask, server)
        return answers, problems

    async def _ask(self, server: str) -> OffsetSample:
        if self._host.steady() < self._resting.get(server, 0.0):
            raise NoTime("it asked not to be queried; it is asked again after a day")
        limit_s = self._settings.timeout_ms / 1000
        work = partial(query, server, limit_s, self._host, self._look_up)
        try:
            reply = await self._detached.call(f"ask {server}", work, limit_s + GRACE_S)
            return judge(server, reply, self._settings.max_offset_ms)
        except TimeoutError as error:
            raise NoTime(silence(limit_s)) from error
        except NotStarted as error:
            raise NoTime(str(error)) from error
        except Kissed:
            self._resting[server] = self._host.steady() + KISS_REST_S
            raise

    def _take(self, best: OffsetSample) -> None:
        before, self.offset_ms = self.offset_ms, best.offset_ms
        self._state = NtpState(
            "synced", best.offset_ms, best.server, round(best.rtt_ms), self.now_ms()
        )
        if self.offset_ms != before:
            self._wake()
        if abs(self.offset_ms - before) > STEP_MS:
            log.warning("the time was corrected by %+d ms", self.offset_ms - before)

    def _wake(self) -> None:
        corrected, self._corrected = self._corrected, anyio.Event()
        corrected.set()

    def _fail(self, reason: str) -> None:
        log.warning("the time cannot be checked: %s", reason)
        self._state = msgspec.structs.replace(self._state, status="error", last_error=reason)

    async def restore(self) -> None:
        """Put the correction of an earlier run in force, once; do nothing if there is none."""
        if self._path is None or self._restored:
            return
        self._restored = True
        read = partial(state_file.read, self._path, self._settings.max_offset_ms)
        try:
            state = await self._detached.call(STATE_FILE, read, FILE_LIMIT_S)
        except (OSError, NotStarted, state_file.StateFileError) as error:
            log.warning(
                "the correction of an earlier run is not used: %s", str(error) or DISK_HANGS
            )
            return
        if state is not None:
            self._state, self.offset_ms = state, state.offset_ms
            self._wake()

    async def _keep(self) -> None:
        if self._path is None:
            return
        write = partial(state_file.write, self._path, self._state)
        try:
            await self._detached.call(STATE_FILE, write, FILE_LIMIT_S)
        except (OSError, NotStarted) as error:
            log.warning("the correction is not kept over a restart: %s", str(error) or DISK_HANGS)


def _why(answers: list[OffsetSample], problems: dict[str, str]) -> str:
    """Say in a line why no answer was taken."""
    if answers:
        said = ", ".join(f"{answer.server} {answer.offset_ms:+d} ms" for answer in answers)
        return f"the servers contradict each other: {said}"
    said = "; ".join(f"{server}: {problem}" for server, problem in problems.items())
    return said or "no time server is configured"
