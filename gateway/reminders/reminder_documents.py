"""Reads and changes the documents of reminders; `amend` is their only writer.

With every change, deliveries that are owed are written and expired reminders are removed, so that
nobody changes a reminder that has already ended. A read is the document with the owed deliveries
applied to it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple, NoReturn, TypeVar

import anyio

from gateway.clock.protocol import Clock
from gateway.clock.system import ClockSteps
from gateway.outbox.ledger import Claim, Ledger
from gateway.outbox.wakeup import Wakeup
from gateway.reminders.model import (
    Reminder,
    ReminderList,
    Rules,
    decode_reminders,
    deliver,
    earliest_due,
    encode_reminders,
    expire,
    list_reserved,
)
from gateway.reminders.records import EXPIRED, ReminderRecords, join_ids
from gateway.reminders.reservations import Choose, OwedTokens, ReservationAttempt, list_taken
from gateway.sessions.identity import UNKNOWN, Requester
from gateway.stores.documents import (
    DocumentKey,
    Documents,
    SessionKey,
    Shape,
    StoreUnavailable,
    amend,
    fetch,
)
from gateway.stores.hints import REMINDERS

R = TypeVar("R")
Tells = Callable[[ReminderList], bool]
"""Says of the reminders before a change whether other instances are told of it."""
Change = Callable[[ReminderList], tuple[ReminderList, R]]


class _Settled(NamedTuple):
    """What is no longer to be done once a change is written."""

    lost: tuple[Reminder, ...]
    """The reminders that expired undelivered."""
    delivered: list[str]
    ended: frozenset[str]
    """The tokens of reservations that were released."""


KIND = "clock"
SHAPE = Shape(KIND, 1, ReminderList(), encode_reminders, decode_reminders, earliest_due)
# A change waits for the disk and for earlier changes; a store that takes longer is down.
PATIENCE_SECONDS = 30.0
# How soon a shared store that was away is tried again.
RETRY_SECONDS = 1.0
# How long the error of a turn waits until what it carried is released.
SETTLING_SECONDS = 2.0


def tell_always(before: ReminderList) -> bool:
    """Tell each change to the other instances."""
    return True


def tell_never(before: ReminderList) -> bool:
    """Tell no change: nobody elsewhere waits for it."""
    return False


def tell_if_waiting(before: ReminderList) -> bool:
    """Tell a change if an answer may be held elsewhere for what was there before."""
    return any(one.is_pending for one in before.items)


class ReminderDocuments:
    """The reminders of all sessions, as they are stored."""

    def __init__(
        self,
        store: Documents,
        ledger: Ledger[Reminder],
        records: ReminderRecords,
        clock: Clock,
        rules: Rules,
        tick_ms: int,
    ) -> None:
        self.store = store
        self.rules = rules
        self.patience = PATIENCE_SECONDS
        self.instance = store.instance
        self.tokens = OwedTokens()
        self._unsettled = Wakeup()
        self._settled = anyio.Event()
        self._ledger = ledger
        self._records = records
        self._clock = clock
        self._steps = ClockSteps(clock, tick_ms)

    def __repr__(self) -> str:
        return f"<ReminderDocuments in {self.store!r}>"

    @property
    def past_ms(self) -> int:
        """The latest time that is past for certain: a clock that is ahead removes nothing."""
        return self._steps.past_ms()

    async def read(self, key: SessionKey) -> ReminderList:
        """Return a session's reminders that have not expired, with owed deliveries applied."""
        document, locks = DocumentKey(KIND, *key), self.store.key_locks
        # Locked, so that it does not overlap a write of deliveries (see the ledger).
        await locks.acquire(document)
        try:
            reminders = await fetch(self.store, document, SHAPE)
        finally:
            locks.release(document)
        if not reminders.items:
            return reminders
        applied = self._apply_owed(key, reminders)
        return expire(applied, self.past_ms, self.rules)[0]

    def list_taken(
        self, key: SessionKey, reminders: ReminderList, requester: Requester = UNKNOWN
    ) -> Container[str]:
        """Return the ids of reminders that turns hold against a requester, here or elsewhere."""
        if self.instance.is_alone:
            return self._ledger.list_held(key, requester)
        return list_taken(reminders, self.instance, requester)

    async def amend(
        self,
        key: SessionKey,
        change: Change[R],
        tells: Tells = tell_always,
        replaced_holders: Sequence[str] = (),
    ) -> tuple[R, int]:
        """Change a session's reminders; also write owed deliveries and remove expired reminders.

        A caller that is cancelled meanwhile waits for the outcome, up to the time limit.
        """
        changed_from: list[ReminderList] = []

        def whole(stored: ReminderList) -> tuple[ReminderList, tuple[R, _Settled]]:
            past_ms, ended = self.past_ms, self.tokens.list_ended(key)
            # Owed deliveries first: a delivered reminder does not count as expired undelivered.
            applied = self._apply_owed(key, stored)
            taken = self.list_taken(key, applied)
            living, lost = expire(applied, past_ms, self.rules, taken)
            changed, answer = change(living)
            if changed != stored:
                changed_from.append(stored)
            delivered = self._find_settled(key, stored, past_ms)
            return changed, (answer, _Settled(lost, delivered, ended))

        with anyio.move_on_after(self.patience, shield=True):
            try:
                answer, settled = await amend(
                    self.store, DocumentKey(KIND, *key), whole, SHAPE, replaced_holders
                )
            finally:
                # Also after a failure: it may have been written all the same.
                if changed_from:
                    self.store.hints.tell(REMINDERS, key, tells(changed_from[-1]))
            self._settle(key, settled)
            return answer, len(settled.lost)
        raise StoreUnavailable("The store of reminders does not answer; try again later.")

    # Reservations in a store that instances share.

    async def reserve(
        self, key: SessionKey, attempt: ReservationAttempt, choose: Choose
    ) -> tuple[Reminder, ...]:
        """Reserve what is chosen of a session's reminders, and return that."""
        try:
            # Whoever waits for these elsewhere was told that a request arrived.
            reserved, _ = await self.amend(
                key,
                lambda reminders: attempt.reserve(reminders, choose),
                tell_never,
                attempt.replaced_holders,
            )
        except StoreUnavailable:
            # It may have been written all the same.
            self.end_reservation(key, attempt.token)
            raise
        return reserved

    def end_reservation(self, key: SessionKey, token: str) -> None:
        """Release a reservation soon."""
        self.tokens.end(key, token)
        self._unsettled.rouse()

    async def settle(self, key: SessionKey) -> None:
        """Wait until what is owed to the store is written; if the store is down, not for long."""
        with anyio.move_on_after(SETTLING_SECONDS, shield=True):
            while self.tokens.list_ended(key) or self._ledger.list_owed(key):
                await self._settled.wait()

    async def write_delivered(self, key: SessionKey) -> None:
        """Write the owed deliveries of a session; raise if the store is down.

        In a store that instances share they are written beside the stream: `settle` waits for that.
        """
        if self.instance.is_alone:
            await self.amend(key, keep_reminders, tell_never)
        else:
            self._unsettled.rouse()

    async def is_held(self, claim: Claim[Reminder]) -> bool:
        """Return whether a claim still holds its reminders, by a read of the store."""
        # What is remembered may be old: the listener may have been deaf.
        self.store.hints.lose()
        reserved = {one.id for one in list_reserved(await self.read(claim.key), claim.token)}
        return all(one.id in reserved for one in self._ledger.list_held_by(claim))

    async def run_settling(self) -> NoReturn:
        """Write soon what is owed to the store, forever: other instances wait for it."""
        while True:
            self._unsettled.look()
            try:
                for key in {*self.tokens.sessions(), *self._ledger.debtors()}:
                    tells = tell_always if self.tokens.list_ended(key) else tell_never
                    await self.amend(key, keep_reminders, tells)
                    self._settled.set()
                    self._settled = anyio.Event()
            except StoreUnavailable:
                await anyio.sleep(RETRY_SECONDS)
                self._unsettled.rouse()
            await self._unsettled.wait()

    def _settle(self, key: SessionKey, settled: _Settled) -> None:
        self._ledger.settle(key, settled.delivered)
        for reminder_id in settled.delivered:
            self.tokens.forget_needed(reminder_id)
        if settled.ended:
            self.tokens.forget_ended(key, settled.ended)
        if lost := settled.lost:
            self._records.counts.expired += len(lost)
            self._records.add_ended(key, lost, EXPIRED, self._clock.now_ms())
            self._records.log("reminders_expired", key, lost, tasks=join_ids(lost))

    def _apply_owed(self, key: SessionKey, reminders: ReminderList) -> ReminderList:
        """Return a session's reminders with the owed deliveries applied."""
        for reminder_id, at_ms in self._ledger.list_owed(key).items():
            token = self.tokens.find_needed(reminder_id)
            reminders = deliver(reminders, (reminder_id,), at_ms, token)
        return self.tokens.release_ended(key, reminders)

    def _find_settled(self, key: SessionKey, stored: ReminderList, past_ms: int) -> list[str]:
        """Return which deliveries are no longer owed when these reminders are written.

        Reminders that are missing may be on a disk that is away for a while; their deliveries stay
        owed until they have certainly expired.
        """
        if not self.instance.is_alone:
            # What is missing in a database is gone.
            return list(self._ledger.list_owed(key))
        over_ms = past_ms - self.rules.due_window_ms - self.rules.retention_ms
        there = {reminder.id for reminder in stored.items}
        owed = self._ledger.list_owed(key).items()
        return [one for one, at_ms in owed if one in there or at_ms < over_ms]

    async def tidy(self, keys: Sequence[SessionKey]) -> int:
        """Sweep some sessions side by side; return how many undelivered reminders expired."""
        expired: list[int] = []
        troubles: list[StoreUnavailable] = []

        async def tidy_one(key: SessionKey) -> None:
            try:
                _, lost = await self.amend(key, keep_reminders, tell_never)
                expired.append(lost)
            except StoreUnavailable as error:
                troubles.append(error)

        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(tidy_one, key)
        if troubles:
            self._records.note(
                "reminders_not_swept", sessions=len(troubles), why=troubles[0].message
            )
        return sum(expired)


def keep_reminders(reminders: ReminderList) -> tuple[ReminderList, None]:
    """Change nothing, so that only what is owed is written."""
    return reminders, None
