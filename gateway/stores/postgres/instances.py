"""Instances on one PostgreSQL: leases, burial, whether this one can be trusted, and the time.

Each instance has one lease, which it renews by beats; the time of leases is the database's. Who
does not renew it in time has lapsed, and may go on if nobody has buried it. Once it is buried,
others may take what it holds; it finds that out with its next beat, and goes on under a new id.
Before that it must not believe that it still holds anything: it trusts itself only until shortly
before its lease ends, by a clock that runs on while the host is suspended.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import anyio
from asyncpg import Record

from gateway.stores.postgres.connection import Connection

Note = Callable[..., None]

# What a message or a lease may take to get to the database.
MARGIN_MS = 1000
BEATS_A_LEASE = 3
TOLERATED_SKEW_MS = 1000
# A beat that took longer says too little about the time.
LONGEST_BEAT_MS = 1000

NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms"
LIVING = "ARRAY(SELECT id FROM @instances WHERE NOT buried) AS living"
LEASE = "clock_timestamp() + $2 * interval '1 millisecond'"
JOIN = f"""
    INSERT INTO @instances (id, until, host, build, process) VALUES ($1, {LEASE}, $3, $4, $5)
    ON CONFLICT (id) DO UPDATE SET until = excluded.until
    RETURNING {NOW}, {LIVING}
"""
BEAT = f"""
    UPDATE @instances SET until = {LEASE} WHERE id = $1 AND NOT buried RETURNING {NOW}, {LIVING}
"""
# Only by an instance that `may_bury`. The runs of all that are buried are ended by `end_lapsed`.
BURY = """
    UPDATE @instances SET buried = true WHERE id IN (
        SELECT id FROM @instances WHERE NOT buried AND until < clock_timestamp()
        ORDER BY id LIMIT 5 FOR UPDATE SKIP LOCKED
    ) RETURNING id
"""
LEAVE = "UPDATE @instances SET until = clock_timestamp() WHERE id = $1 AND NOT buried"


def read_boot_ms() -> float:
    """Return the milliseconds since the host was started, suspended or not."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


def make_instance_id() -> str:
    """Return a new id: 12 characters, and no two alike."""
    return secrets.token_urlsafe(9)


class SharedInstance:
    """This process among those that share one PostgreSQL."""

    is_alone = False

    def __init__(
        self,
        lease_ms: int,
        host: str,
        build: str,
        note: Note,
        boot_ms: Callable[[], float] = read_boot_ms,
        process: str = "",
    ) -> None:
        """Begin under a new id; `process` is what the ids of its exchanges carry."""
        self.id = make_instance_id()
        self.lease_ms = lease_ms
        self.living: frozenset[str] = frozenset()
        """The instances that were not buried at the last beat."""
        self._distrust_callbacks: list[Callable[[], None]] = []
        self._facts = (host, build, process)
        self._note = note
        self._boot_ms = boot_ms
        self._trusted_until = 0.0
        self._offset_ms = 0.0
        self._steady_since = 0.0
        self._last_beat = float("-inf")
        self._has_beaten = anyio.Event()
        self._skewed = False

    def __repr__(self) -> str:
        return f"<SharedInstance {self.id}{'' if self.is_trusted else ' not trusted'}>"

    @property
    def is_trusted(self) -> bool:
        """Whether it is certain that nobody has buried it."""
        return self._boot_ms() < self._trusted_until

    @property
    def may_bury(self) -> bool:
        """Whether it has beaten for a whole lease without a gap.

        After an outage of the database all have lapsed, and all get the time to come back.
        """
        return self.is_trusted and self._last_beat - self._steady_since >= self.lease_ms

    @property
    def skew_ms(self) -> int:
        """How far the host's clock is ahead of the database's."""
        return round(time.time() * 1000 - self._boot_ms() - self._offset_ms)

    @property
    def notable_skew_ms(self) -> int:
        """How far the host's clock is ahead of the database's, if more than a second; else 0."""
        skew_ms = self.skew_ms
        return skew_ms if abs(skew_ms) > TOLERATED_SKEW_MS else 0

    def now_ms(self) -> int:
        """Return the database's time."""
        return int(self._boot_ms() + self._offset_ms)

    def may_be_buried(self, holder: str) -> bool:
        """Return whether this instance was not among the living at the last beat."""
        return holder not in self.living

    def note_living(self, holder: str) -> None:
        """Note that an instance is not buried; the next beat says it anew."""
        self.living |= {holder}

    @property
    def beat_seconds(self) -> float:
        """How long after the last beat the next one is due."""
        return self.lease_ms / BEATS_A_LEASE / 1000

    async def beat(self, connection: Connection) -> None:
        """Renew the lease; if it was buried, join under a new id."""
        began = self._boot_ms()
        if self._last_beat > 0 and (rows := await connection.ask(BEAT, self.id, self.lease_ms)):
            self._take_beat(began, rows[0])
            return
        if self._last_beat > 0:
            self._rename()
        began = self._boot_ms()
        joined = await connection.ask(JOIN, self.id, self.lease_ms, *self._facts)
        self._take_beat(began, joined[0])

    async def leave(self, connection: Connection) -> None:
        """Let the lease end now, so that the others need not wait for it."""
        self._trusted_until = 0.0
        await connection.run(LEAVE, self.id)

    async def watch_trust(self) -> None:
        """Say forever when it can trust itself no more."""
        while True:
            left = self._trusted_until - self._boot_ms()
            if left > 0:
                await anyio.sleep(left / 1000)
                continue
            self._note("instance_lapsed", instance=self.id)
            self._call_distrust()
            self._has_beaten = anyio.Event()
            await self._has_beaten.wait()

    def on_distrust(self, callback: Callable[[], None]) -> None:
        """Call this when it can trust itself no more: what it runs has to end."""
        self._distrust_callbacks.append(callback)

    def _call_distrust(self) -> None:
        for callback in self._distrust_callbacks:
            callback()

    def _rename(self) -> None:
        former, self.id = self.id, make_instance_id()
        self._trusted_until, self._last_beat = 0.0, float("-inf")
        self._note("instance_buried", instance=former, now=self.id)
        # Perhaps it slept so long that it did not notice that its lease ended.
        self._call_distrust()

    def _take_beat(self, began: float, answer: Record) -> None:
        ended = self._boot_ms()
        if began - self._last_beat > self.lease_ms:
            self._steady_since = began
        self._last_beat = began
        self._trusted_until = began + self.lease_ms - min(MARGIN_MS, self.lease_ms / 3)
        self.living = frozenset((*answer["living"], self.id))
        if ended - began <= LONGEST_BEAT_MS or not self._offset_ms:
            self._offset_ms = answer["now_ms"] - (began + ended) / 2
        self._has_beaten.set()
        self._tell_skew()

    def _tell_skew(self) -> None:
        skew_ms = self.notable_skew_ms
        if skew_ms and not self._skewed:
            self._note("host_clock_skewed", instance=self.id, skew_ms=skew_ms)
        self._skewed = skew_ms != 0
