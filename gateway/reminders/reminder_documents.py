"""Reads and changes the documents of reminders; `amend` is their only writer.

With every change, deliveries that are owed are written and expired reminders are removed, so that
nobody changes a reminder that has already ended. A read is the document with the owed deliveries
applied to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import anyio

from gateway.clock.protocol import Clock
from gateway.clock.system import ClockSteps
from gateway.outbox.ledger import Ledger
from gateway.reminders.model import (
    Reminder,
    ReminderList,
    Rules,
    decode_reminders,
    deliver,
    earliest_due,
    encode_reminders,
    expire,
)
from gateway.reminders.records import EXPIRED, ReminderRecords, join_ids
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
Change = Callable[[ReminderList], tuple[ReminderList, R]]

KIND = "clock"
SHAPE = Shape(KIND, 1, ReminderList(), encode_reminders, decode_reminders, earliest_due)
# A change waits for the disk and for earlier changes; a store that takes longer is down.
PATIENCE_SECONDS = 30.0


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

    async def amend(self, key: SessionKey, change: Change[R]) -> tuple[R, int]:
        """Change a session's reminders; also write owed deliveries and remove expired reminders.

        A caller that is cancelled meanwhile waits for the outcome, up to the time limit.
        """
        changes: list[ReminderList] = []

        def whole(
            stored: ReminderList,
        ) -> tuple[ReminderList, tuple[R, tuple[Reminder, ...], list[str]]]:
            past_ms = self.past_ms
            # Owed deliveries first: a delivered reminder does not count as expired undelivered.
            applied = self._apply_owed(key, stored)
            living, lost = expire(applied, past_ms, self.rules, self._ledger.list_held(key))
            changed, answer = change(living)
            if changed != stored:
                changes.append(changed)
            return changed, (answer, lost, self._find_settled(key, stored, past_ms))

        with anyio.move_on_after(self.patience, shield=True):
            document = DocumentKey(KIND, *key)
            try:
                answer, lost, settled = await amend(self.store, document, whole, SHAPE)
            finally:
                # Also after a failure: it may have been written all the same.
                if changes:
                    self.store.hints.tell(REMINDERS, key)
            self._ledger.settle(key, settled)
            if lost:
                self._records.counts.expired += len(lost)
                self._records.add_ended(key, lost, EXPIRED, self._clock.now_ms())
                self._records.log("reminders_expired", key, lost, tasks=join_ids(lost))
            return answer, len(lost)
        raise StoreUnavailable("The store of reminders does not answer; try again later.")

    def _apply_owed(self, key: SessionKey, reminders: ReminderList) -> ReminderList:
        """Return a session's reminders with the owed deliveries applied."""
        for reminder_id, at_ms in self._ledger.list_owed(key).items():
            reminders = deliver(reminders, (reminder_id,), at_ms)
        return reminders

    def _find_settled(self, key: SessionKey, stored: ReminderList, past_ms: int) -> list[str]:
        """Return which deliveries are no longer owed when these reminders are written.

        Reminders that are missing may be on a disk that is away for a while; their deliveries stay
        owed until they have certainly expired.
        """
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
                _, lost = await self.amend(key, keep_reminders)
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
