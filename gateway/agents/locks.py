"""One exchange at a time in a session: who has it, for how long, and how it is given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn
from uuid import uuid4

import anyio

from gateway.reminders.holds import Holds
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.rows import LockRows

Note = Callable[..., None]

LEASE_MS = 15_000
RENEW_SECONDS = 5.0
# How long a hold may take to end, once it is told to.
HOLD_PATIENCE = 5.0
# A client that left, or whose answer is just ending, has freed the session in a moment.
GRACE = 0.3
# So long a client's leaving may take to be heard, when its next message comes at the same instant.
HEARING = 0.01
# Waited for in steps: a process that got no time for a while has used up only one of them.
HEARING_STEP = 0.001
STORE_PATIENCE = 10.0
AT_ONCE = 64
DONE = "done"


class Lease:
    """The lock of one session, held by one exchange: given back once, and only by its token."""

    __slots__ = ("_locks", "_released", "closing", "freed", "reason", "token", "where")

    def __init__(self, locks: Locks, where: SessionKey, token: str, reason: str) -> None:
        self._locks = locks
        self._released = False
        self.where = where
        self.token = token
        self.reason = reason
        self.closing = anyio.Event()
        """Set when the exchange is about to end: its client has left, or its answer is kept."""
        self.freed = anyio.Event()

    def __repr__(self) -> str:
        return f"<Lease {self.reason} {'free' if self.freed.is_set() else 'held'}>"

    async def release(self, why: str = DONE) -> None:
        """Give the lock back; however often and late this is called, only the first time counts."""
        if not self._released:
            self._released = True
            self.closing.set()
            await self._locks.free(self, why)


class Locks:
    """The locks of all sessions: leases in the store, and whoever holds them here."""

    def __init__(self, rows: LockRows, holds: Holds, note: Note) -> None:
        self.rows = rows
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
        """Take a session's lock; if somebody has it, return what for: `chat` or `job`.

        Who has it and is about to end is waited for as long as `grace` says, in seconds; nobody
        else is. An answer that is only held open is ended for it. Raises if the store is down.
        """
        where = (owner, session)
        busy = await self._wait_for_holder(where, grace)
        return busy or await self._take(where, reason)

    async def _wait_for_holder(self, where: SessionKey, grace: float) -> str:
        """Wait for an exchange here that is about to end; return what it is for if it stays."""
        ends_hold = self._ends_hold(where)
        lease = self._leases.get(where)
        if lease is None:
            return ""
        if not ends_hold and not await _is_closing(lease, min(grace, HEARING)):
            return lease.reason
        return await self._wait_until_free(where, HOLD_PATIENCE if ends_hold else grace)

    def _ends_hold(self, where: SessionKey) -> bool:
        before = len(self._holds)
        self._holds.end(*where)
        return len(self._holds) < before

    async def _wait_until_free(self, where: SessionKey, patience: float) -> str:
        """Wait a moment for whoever holds the lock here; return what for, if that was too short."""
        with anyio.move_on_after(patience):
            while (lease := self._leases.get(where)) is not None:
                await lease.freed.wait()
            return ""
        lease = self._leases.get(where)
        return "" if lease is None else lease.reason

    async def _take(self, where: SessionKey, reason: str) -> Lease | str:
        lease = Lease(self, where, uuid4().hex, reason)
        # Whoever leaves meanwhile is held until it is known whether there is something to free.
        with anyio.move_on_after(STORE_PATIENCE, shield=True):
            busy = await self.rows.take(*where, lease.token, reason, LEASE_MS)
            if busy is not None:
                return busy
            self._leases[where] = lease
            self._taken.set()
            self._note("lock_taken", owner=where[0], session=where[1], why=reason)
            return lease
        raise StoreUnavailable("The store of locks does not answer; try again later.")

    async def free(self, lease: Lease, why: str) -> None:
        """Free a lease's lock, if it still is this lease's."""
        event = "lock_not_released"
        try:
            with anyio.move_on_after(STORE_PATIENCE, shield=True):
                freed = await self.rows.release(*lease.where, lease.token)
                event = "lock_released" if freed else "lock_lost"
        except StoreUnavailable as error:
            # Nobody renews it any more, so it ends by itself.
            why = error.message
        finally:
            if self._leases.get(lease.where) is lease:
                del self._leases[lease.where]
            lease.closing.set()
            lease.freed.set()
            self._log(event, lease, why)

    async def run(self) -> NoReturn:
        """Renew all leases in time, for ever; while there are none, nothing wakes up."""
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
            if await self.rows.extend(*lease.where, lease.token, LEASE_MS):
                return
            why = "the lease ended before it was renewed"
        except StoreUnavailable as error:
            why = error.message
        if not lease.freed.is_set():
            self._log("lock_not_renewed", lease, why)

    def _log(self, event: str, lease: Lease, why: str) -> None:
        owner, session = lease.where
        self._note(event, owner=owner, session=session, held_for=lease.reason, why=why)


async def _is_closing(lease: Lease, patience: float) -> bool:
    for _ in range(round(patience / HEARING_STEP)):
        with anyio.move_on_after(HEARING_STEP):
            await lease.closing.wait()
    return lease.closing.is_set()
