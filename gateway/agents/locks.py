"""Locks of sessions: one exchange at a time in a session, by a lease that is renewed.

What other instances hold is asked for in shared_locks.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn
from uuid import uuid4

import anyio

from gateway.agents.shared_locks import HOLD_PATIENCE, SharedLocks
from gateway.reminders.holds import Holds
from gateway.stores.conversation_rows import LockRows
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.waiting import Unsubscribe

Note = Callable[..., None]

LEASE_MS = 15_000
RENEW_SECONDS = 5.0
# How long to wait for an exchange that is about to end, since it frees the session soon.
GRACE = 0.3
# How long to wait for the news that a client left, if its next message comes at the same time.
HEARING = 0.01
# Waited for in steps: a process that got no time for a while has used up only one of them.
HEARING_STEP = 0.001
STORE_PATIENCE = 10.0
AT_ONCE = 64
DONE = "done"


class Lease:
    """The lock of one session, held by one exchange: released once, and only with its token."""

    __slots__ = (
        "_locks",
        "_released",
        "closing",
        "freed",
        "is_awaited",
        "key",
        "reason",
        "stop_hearing",
        "token",
    )

    def __init__(self, locks: Locks, key: SessionKey, token: str, reason: str) -> None:
        self._locks = locks
        self._released = False
        self.key = key
        self.token = token
        self.reason = reason
        self.closing = anyio.Event()
        """Set when the exchange is about to end: its client left, or its answer is being stored."""
        self.freed = anyio.Event()
        self.is_awaited = False
        """Whether another instance has asked for it."""
        self.stop_hearing: Unsubscribe = _nothing

    def __repr__(self) -> str:
        return f"<Lease {self.reason} {'free' if self.freed.is_set() else 'held'}>"

    def mark_closing(self) -> None:
        """Mark it as ending soon, so that the session's next message waits for it."""
        self.closing.set()
        self._locks.tell_closing(self)

    async def release(self, why: str = DONE, is_unlocked: bool = False) -> None:
        """Release the lock, unless that was done in the store; only the first call counts."""
        if not self._released:
            self._released = True
            self.closing.set()
            await self._locks.free(self, why, is_unlocked)

    async def rest(self, resting: bool) -> None:
        """Note for other instances whether this exchange waits in a hold, which ends if asked."""
        if not self._released:
            await self._locks.rest(self, resting)


class Locks:
    """The locks of all sessions: leases in the store, and their holders in this process."""

    def __init__(
        self, rows: LockRows, holds: Holds, note: Note, shared: SharedLocks | None = None
    ) -> None:
        self.rows = rows
        self._shared = shared
        self._holds = holds
        self._note = note
        self._leases: dict[SessionKey, Lease] = {}
        self._taken = anyio.Event()

    def __len__(self) -> int:
        return len(self._leases)

    def __repr__(self) -> str:
        return f"<Locks {len(self._leases)} held>"

    async def take(
        self, owner: str, session: str, reason: str, grace: float = GRACE
    ) -> Lease | str:
        """Take a session's lock; if it is taken, return the holder's reason: `chat` or `job`.

        A holder that is about to end is waited for, up to `grace` seconds; others are not. A hold
        is ended. Raise if the store is down.
        """
        key = (owner, session)
        if busy := await self._wait_for_holder(key, grace):
            return busy
        taken = await self._take(key, reason)
        if self._shared is None or not isinstance(taken, str):
            return taken
        return await self._shared.take(key, grace, partial(self._take, key, reason))

    async def _wait_for_holder(self, key: SessionKey, grace: float) -> str:
        """Wait for a holder in this process that is about to end; return its reason if it stays."""
        ends_hold = self._ends_hold(key)
        lease = self._leases.get(key)
        if lease is None:
            return ""
        if not ends_hold and not await _is_closing(lease, min(grace, HEARING)):
            return lease.reason
        return await self._wait_until_free(key, HOLD_PATIENCE if ends_hold else grace)

    def _ends_hold(self, key: SessionKey) -> bool:
        before = len(self._holds)
        self._holds.end(*key)
        return len(self._holds) < before

    async def _wait_until_free(self, key: SessionKey, patience: float) -> str:
        """Wait until the holder in this process ends; return its reason if it takes too long."""
        with anyio.move_on_after(patience):
            while (lease := self._leases.get(key)) is not None:
                await lease.freed.wait()
            return ""
        lease = self._leases.get(key)
        return "" if lease is None else lease.reason

    async def _take(self, key: SessionKey, reason: str) -> Lease | str:
        lease = Lease(self, key, uuid4().hex, reason)
        # A cancel waits until it is known whether there is a lock to release.
        with anyio.move_on_after(STORE_PATIENCE, shield=True):
            busy = await self.rows.take(*key, lease.token, reason, LEASE_MS)
            if busy is not None:
                return busy
            self._leases[key] = lease
            if self._shared is not None:
                lease.stop_hearing = self._shared.watch_asked(key, partial(self._hear, lease))
            self._taken.set()
            self._note("lock_taken", owner=key[0], session=key[1], why=reason)
            return lease
        raise StoreUnavailable("The store of locks does not answer; try again later.")

    def _hear(self, lease: Lease) -> None:
        """End the hold of a lease, since another instance asks for it."""
        lease.is_awaited = True
        if not self._ends_hold(lease.key) and lease.closing.is_set():
            self.tell_closing(lease)

    def tell_closing(self, lease: Lease) -> None:
        """Tell who asked for a lease at another instance that it is about to end."""
        if self._shared is not None and lease.is_awaited:
            self._shared.answer(lease.key)

    async def rest(self, lease: Lease, resting: bool) -> None:
        """Note for other instances whether a lease's exchange waits in a hold."""
        if self._shared is not None:
            await self._shared.rest(lease.key, lease.token, resting)

    async def free(self, lease: Lease, why: str, is_unlocked: bool = False) -> None:
        """Release the lock of a lease, if the lease still holds it."""
        event = "lock_not_released"
        try:
            with anyio.move_on_after(STORE_PATIENCE, shield=True):
                freed = is_unlocked or await self.rows.release(*lease.key, lease.token)
                event = "lock_released" if freed else "lock_lost"
        except StoreUnavailable as error:
            # It is not renewed any more, so it ends by itself.
            why = error.message
        finally:
            if self._leases.get(lease.key) is lease:
                del self._leases[lease.key]
            lease.closing.set()
            lease.freed.set()
            lease.stop_hearing()
            self.tell_closing(lease)
            self._log(event, lease, why)

    async def run(self) -> NoReturn:
        """Renew all leases in time, forever; without leases it sleeps."""
        while True:
            if not self._leases:
                self._taken = anyio.Event()
                await self._taken.wait()
            await anyio.sleep(RENEW_SECONDS)
            await self.renew()

    async def renew(self) -> None:
        """Renew all leases."""
        leases = list(self._leases.values())
        for at in range(0, len(leases), AT_ONCE):
            async with anyio.create_task_group() as group:
                for lease in leases[at : at + AT_ONCE]:
                    group.start_soon(self._renew, lease)

    async def _renew(self, lease: Lease) -> None:
        try:
            if await self.rows.extend(*lease.key, lease.token, LEASE_MS):
                return
            why = "the lease ended before it was renewed"
        except StoreUnavailable as error:
            why = error.message
        if not lease.freed.is_set():
            self._log("lock_not_renewed", lease, why)

    def _log(self, event: str, lease: Lease, why: str) -> None:
        owner, session = lease.key
        self._note(event, owner=owner, session=session, held_for=lease.reason, why=why)


async def _is_closing(lease: Lease, patience: float) -> bool:
    for _ in range(round(patience / HEARING_STEP)):
        with anyio.move_on_after(HEARING_STEP):
            await lease.closing.wait()
    return lease.closing.is_set()


def _nothing() -> None:
    return None
