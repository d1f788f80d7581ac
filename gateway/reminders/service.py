"""Schedules, lists, reserves, delivers and sweeps reminders.

The reminders of a session are one document. Every change is a pure function of that document
(gateway/reminders/model.py), applied by `ReminderDocuments.amend`. When a call returns, its change
is durable.

The ledger (gateway/outbox/ledger.py) knows which turn carries a reminder now, and which deliveries
are not written yet (owed).

There are two kinds of time. Due is judged by the corrected time, which may step. Expired is judged
by the earliest time that it can be (`ClockSteps.past_ms`): a clock that is ahead for a while
removes nothing. If the store is down, requests go on without reminders.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import NoReturn, TypeVar
from uuid import uuid4

import anyio

from gateway.clock.protocol import Clock
from gateway.outbox.ledger import Claim, Ledger, LedgerEvents
from gateway.reminders.handover_model import drop_passed, inherit, mark_passed, next_handover
from gateway.reminders.model import (
    Reminder,
    ReminderList,
    ReminderOrigin,
    ReminderRequest,
    Rules,
    cancel,
    clear,
    deliver,
    due,
    next_ready,
    schedule,
)
from gateway.reminders.records import (
    CANCELLED,
    DELIVERED,
    EndedReminder,
    ReminderCounts,
    ReminderRecords,
    join_ids,
)
from gateway.reminders.reminder_documents import (
    KIND,
    PATIENCE_SECONDS,
    SHAPE,
    Change,
    ReminderDocuments,
    Tells,
    tell_always,
    tell_if_waiting,
)
from gateway.reminders.reservations import ReservationAttempt
from gateway.sessions.identity import UNKNOWN, Requester
from gateway.stores.documents import (
    AT_ONCE,
    DocumentKey,
    Documents,
    SessionKey,
    StoreUnavailable,
    fetch,
    iterate_due,
)
from gateway.stores.waiting import Unsubscribe, join_both

R = TypeVar("R")
Note = Callable[..., None]

EVENTS = LedgerEvents(
    reserved="reminders_reserved",
    committed="reminders_committed",
    released="reminders_released",
    owed="reminders_owed",
)
TICK_MS = 60_000


class ReminderService:
    """Schedules, lists, reserves, delivers and sweeps the reminders of all sessions."""

    def __init__(
        self,
        store: Documents,
        clock: Clock,
        rules: Rules,
        note: Note,
        patience: float = PATIENCE_SECONDS,
        tick_ms: int = TICK_MS,
    ) -> None:
        self.store = store
        self.hints = store.hints
        self.instance = store.instance
        self.clock = clock
        self.note = note
        self.events = EVENTS
        self._records = ReminderRecords(note)
        self._ledger: Ledger[Reminder] = Ledger(self)
        self._documents = ReminderDocuments(
            store, self._ledger, self._records, clock, rules, tick_ms
        )
        self._documents.patience = patience
        self.on_schedule: Callable[[str, str], None] = lambda owner, session: None
        """Called with owner and session whenever something was scheduled."""
        self.on_delegated: Callable[[str, str], None] = lambda owner, session: None
        """Called with owner and session whenever a sub-agent scheduled something."""

    def __repr__(self) -> str:
        return f"<Reminders {self._ledger!r}>"

    @property
    def counts(self) -> ReminderCounts:
        """What was done with reminders since the process began."""
        return self._records.counts

    @counts.setter
    def counts(self, counts: ReminderCounts) -> None:
        self._records.counts = counts

    @property
    def rules(self) -> Rules:
        """The operator's settings."""
        return self._documents.rules

    @rules.setter
    def rules(self, rules: Rules) -> None:
        self._documents.rules = rules

    # What a session has.

    async def list_reminders(self, owner: str, session: str) -> ReminderList:
        """Return a session's reminders that have not expired; raise if the store is down."""
        key = (owner, session)
        try:
            reminders = await self._documents.read(key)
        except StoreUnavailable as error:
            self._records.log_trouble("reminders_not_read", key, error)
            raise
        self._records.log("reminders_listed", key, reminders.items)
        return reminders

    async def list_undelivered(self, owner: str, session: str) -> tuple[Reminder, ...]:
        """Return a session's undelivered reminders, reserved or not; raise if the store is down."""
        # A shared store is read: who waits here need not have been told of all changes.
        if self.instance.is_alone and self.surely_idle(owner, session):
            return ()
        reminders = await self._documents.read((owner, session))
        return tuple(reminder for reminder in reminders.items if reminder.is_pending)

    def find_mark(self, owner: str, session: str) -> int:
        """Return the mark of the look that `surely_idle` goes by."""
        entries = self.store.entries
        return self.hints.mark() if entries is None else entries.find_mark((owner, session))

    def surely_idle(self, owner: str, session: str) -> bool:
        """Return without I/O whether a session surely has no reminders, as nearly all have none.

        The fast twin of `idle`, for every request: it saves the read and the task switch. True
        means that `idle` would return True; False means that it is not known.
        """
        return self.store.absent(DocumentKey(KIND, owner, session))

    async def idle(self, owner: str, session: str) -> bool:
        """Return at little cost whether a session has no reminders at all."""
        if self.surely_idle(owner, session):
            return True
        try:
            # Without lock and owed deliveries: some may have ended, but they are there.
            return not (await fetch(self.store, DocumentKey(KIND, owner, session), SHAPE)).items
        except StoreUnavailable:
            # The caller reads next, and the error is raised and logged there.
            return False

    async def next_ready(self, owner: str, session: str, exchange_id: str) -> int | None:
        """Return when a turn of this exchange may carry the next reminder, or None."""
        key = (owner, session)
        reminders = await self._read_or_nothing(key)
        taken = self._documents.list_taken(key, reminders)
        return next_ready(reminders, exchange_id, self.clock.now_ms(), self.rules, taken)

    def watch(self, owner: str, session: str, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback after each change of a session's reminders or claims."""
        key = (owner, session)
        in_store = self.store.watch(DocumentKey(KIND, owner, session), callback)
        return join_both(in_store, self._ledger.watch(key, callback))

    def list_taken(
        self, owner: str, session: str, reminders: tuple[Reminder, ...]
    ) -> Container[str]:
        """Return the ids of those of a session's reminders that turns carry now."""
        return self._documents.list_taken((owner, session), ReminderList(reminders))

    def recent(self, owner: str, session: str) -> tuple[EndedReminder, ...]:
        """Return the reminders that ended in a session during the last day."""
        return self._records.recent.of((owner, session), self.clock.now_ms())

    # What is asked for.

    async def schedule(
        self,
        owner: str,
        session: str,
        wanted: tuple[ReminderRequest, ...],
        exchange_id: str = "",
        setter: str = "",
        main: str = "",
    ) -> tuple[Reminder, ...]:
        """Schedule all wanted reminders, durably; raise `InvalidInput`, or if the store is down.

        Reminders that a sub-agent does not take later are handed over to the `main` session.
        """
        key, now_ms = (owner, session), self.clock.now_ms()
        origin = ReminderOrigin(session, exchange_id, setter, main)

        def change(
            before: ReminderList,
        ) -> tuple[ReminderList, tuple[tuple[Reminder, ...], int]]:
            after, scheduled = schedule(before, wanted, origin, now_ms, self.rules, _new_id)
            # A reminder that existed before is returned again, but does not count as new.
            known = {reminder.id for reminder in before.items}
            return after, (scheduled, len({reminder.id for reminder in scheduled} - known))

        # An exchange that schedules holds its own answer, if nothing else waits there.
        tells = tell_if_waiting if exchange_id else tell_always
        scheduled, new = await self._change(key, change, tells)
        self.counts.scheduled += new
        self._records.log("reminders_scheduled", key, scheduled)
        self.on_schedule(owner, session)
        if main:
            self.on_delegated(owner, session)
        return scheduled

    async def hand_over(self, owner: str, session: str) -> int | None:
        """Hand over a sub-agent's reminders that nobody took in time, durably.

        Return when to look again; None if nothing is left to hand over.
        """
        key, now_ms, rules = (owner, session), self.clock.now_ms(), self.rules
        passed = await self._change(
            key,
            lambda reminders: mark_passed(
                reminders, now_ms, self._documents.list_taken(key, reminders)
            ),
        )
        if passed:
            # Three writes in this order: a crash between any two loses and doubles nothing.
            main = passed[0].main
            there = await self._change(
                (owner, main), lambda reminders: inherit(reminders, passed, main, now_ms, rules)
            )
            await self._change(key, lambda reminders: (drop_passed(reminders, there), None))
            if arrived := tuple(reminder for reminder in passed if reminder.id in there):
                self._records.log(
                    "reminders_passed_on", key, arrived, main=main, tasks=join_ids(arrived)
                )
                self.on_schedule(owner, main)
        return next_handover(await self._documents.read(key))

    async def cancel(self, owner: str, session: str, reminder_id: str) -> bool:
        """Remove a reminder, durably; return False if there is no such reminder."""
        key = (owner, session)
        found = await self._change(key, lambda reminders: cancel(reminders, reminder_id))
        self._record_removal("reminders_cancelled", key, () if found is None else (found,))
        return found is not None

    async def clear(self, owner: str, session: str) -> int:
        """Remove all reminders, durably; return how many there were."""
        key = (owner, session)
        removed = await self._change(key, lambda reminders: (clear(reminders)[0], reminders.items))
        self._record_removal("reminders_cleared", key, removed)
        return len(removed)

    def _record_removal(self, event: str, key: SessionKey, removed: tuple[Reminder, ...]) -> None:
        # Removing a delivered reminder does not count as a cancel.
        cancelled = tuple(one for one in removed if one.delivered_ms is None)
        self.counts.cancelled += len(cancelled)
        self._records.add_ended(key, cancelled, CANCELLED, self.clock.now_ms())
        self._records.log(event, key, removed)

    # What turns carry.

    async def reserve(
        self,
        owner: str,
        session: str,
        exchange_id: str,
        requester: Requester = UNKNOWN,
        by: Callable[[], None] | None = None,
    ) -> Claim[Reminder] | None:
        """Claim what is due for a turn of this exchange; None if nothing is, or the store is down.

        A claim of a side call of the session that is not delivered yet is taken over. `by` is the
        caller's own callback, which is not called.
        """
        key = (owner, session)
        reminders = await self._read_or_nothing(key)
        if not reminders.items:
            return None
        # No task switch from here to the claim in the ledger of a lone instance.
        choose = partial(self._choose_due, exchange_id)
        taken = self._documents.list_taken(key, reminders, requester)
        ready, token = choose(reminders, taken), ""
        if ready and not self.instance.is_alone:
            attempt = ReservationAttempt(self.instance, requester)
            try:
                ready = await self._documents.reserve(key, attempt, choose)
            except StoreUnavailable as error:
                self._records.log_trouble("reminders_not_read", key, error)
                return None
            token = attempt.token
        if not ready:
            return None
        claim = Claim(f"{exchange_id}:clock", key, ready, requester, token)
        self._ledger.reserve(claim)
        self._ledger.wake(key, by)
        return claim

    def _choose_due(
        self, exchange_id: str, reminders: ReminderList, taken: Container[str]
    ) -> tuple[Reminder, ...]:
        return due(reminders, exchange_id, self.clock.now_ms(), self.rules, taken)

    async def commit(self, claim: Claim[Reminder]) -> None:
        """Mark the claimed reminders as delivered; if that cannot be written yet, it is owed."""
        now_ms = self.clock.now_ms()
        # Before the commit, while the ledger still knows which items the claim holds.
        held = self._ledger.list_held_by(claim)
        self._records.add_ended(claim.key, held, DELIVERED, now_ms)
        if claim.token:
            self._documents.tokens.need(held, claim.token)
        await self._ledger.commit(claim, now_ms)

    def release(self, claim: Claim[Reminder]) -> None:
        """Release a claim, unless it was committed or released before."""
        self._ledger.release(claim)
        if claim.token:
            self._documents.end_reservation(claim.key, claim.token)

    async def settle(self, owner: str, session: str) -> None:
        """Wait until what was committed and released here is in a store that instances share."""
        await self._documents.settle((owner, session))

    async def is_held(self, claim: Claim[Reminder]) -> bool:
        """Return whether a claim still holds its reminders in the store, by a new read."""
        return await self._documents.is_held(claim)

    async def run_settling(self) -> NoReturn:
        """Write soon what is owed to a store that instances share, forever."""
        await self._documents.run_settling()

    async def acknowledge(
        self, owner: str, session: str, ids: Container[str]
    ) -> tuple[Reminder, ...]:
        """Mark reminders as delivered in another way, durably; return those that were waiting.

        A turn that carries one of them now no longer delivers or releases it.
        """
        key, now_ms = (owner, session), self.clock.now_ms()
        if self.instance.is_alone and self.surely_idle(owner, session):
            return ()

        def change(reminders: ReminderList) -> tuple[ReminderList, tuple[Reminder, ...]]:
            found = tuple(one for one in reminders.items if one.id in ids and one.is_pending)
            return deliver(reminders, frozenset(one.id for one in found), now_ms), found

        found = await self._change(key, change)
        if found:
            self._ledger.acknowledge(key, tuple(one.id for one in found))
            self._records.add_ended(key, found, DELIVERED, self.clock.now_ms())
            self._records.log("reminders_acknowledged", key, found, tasks=join_ids(found))
        return found

    def describe_claim(
        self, claim: Claim[Reminder], items: tuple[Reminder, ...]
    ) -> Mapping[str, object]:
        """Return the log fields of a claim."""
        return {"reservation": claim.id, "count": len(items), "tasks": join_ids(items)}

    async def write_delivered(self, key: SessionKey) -> None:
        """Write the owed deliveries of a session; raise if the store is down."""
        await self._documents.write_delivered(key)

    # The sweep.

    async def run(self, tick_ms: int) -> NoReturn:
        """Sweep now, and then every tick, for ever."""
        while True:
            try:
                await self._sweep_debtors()
                # Of instances that share a store one does it for all.
                if await self.store.chores.take("reminders", tick_ms):
                    await self._sweep_due()
            except StoreUnavailable as error:
                self.note("reminders_not_swept", why=error.message)
            await anyio.sleep(tick_ms / 1000)

    async def sweep(self) -> int:
        """Write owed deliveries, remove expired reminders; return how many were undelivered."""
        return await self._sweep_debtors() + await self._sweep_due()

    async def _sweep_debtors(self) -> int:
        self._records.recent.forget(self.clock.now_ms())
        expired = 0
        debtors = iter(self._ledger.debtors())
        while keys := tuple(islice(debtors, AT_ONCE)):
            expired += await self._documents.tidy(keys)
        return expired

    async def _sweep_due(self) -> int:
        expired = 0
        # A clock that is ahead for a while must not remove anything.
        before_ms = self._documents.past_ms - self.rules.retention_ms
        async with aclosing(iterate_due(self.store, KIND, before_ms)) as found:
            async for documents in found:
                expired += await self._documents.tidy(
                    [(one.owner, one.session) for one in documents]
                )
        return expired

    async def _read_or_nothing(self, key: SessionKey) -> ReminderList:
        try:
            return await self._documents.read(key)
        except StoreUnavailable as error:
            self._records.log_trouble("reminders_not_read", key, error)
            return ReminderList()

    async def _change(self, key: SessionKey, change: Change[R], tells: Tells = tell_always) -> R:
        try:
            return (await self._documents.amend(key, change, tells))[0]
        except StoreUnavailable as error:
            self._records.log_trouble("reminders_not_stored", key, error)
            raise


def _new_id() -> str:
    return str(uuid4())
