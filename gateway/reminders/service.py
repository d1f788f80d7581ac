"""Schedules, lists, reserves, delivers and sweeps reminders.

The reminders of a session are one document. Whatever happens to them is a pure function of that
document (gateway/reminders/model.py), applied by `_amend`, which is the only writer: with every
change it also writes what is owed and removes what has expired, so that no change can be made to
reminders that are already over. What is acknowledged to a caller is durable by then.

Who carries a reminder now, and what was delivered but is not written yet, is in the ledger
(gateway/outbox/ledger.py): a read is the document with the ledger's debts applied to it.

Time comes in two kinds. What is due is judged by the corrected time, which may step. What has
expired is judged by the earliest time that it can be (`ClockSteps.past_ms`): a clock that is ahead
for a while removes nothing. A store that is down costs requests nothing: they carry no reminders.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import NoReturn, TypeVar
from uuid import uuid4

import anyio

from gateway.clock.protocol import Clock
from gateway.clock.system import ClockSteps
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
    decode_reminders,
    deliver,
    due,
    earliest_due,
    encode_reminders,
    expire,
    next_ready,
    schedule,
)
from gateway.reminders.records import (
    CANCELLED,
    DELIVERED,
    EXPIRED,
    EndedReminder,
    ReminderRecords,
    join_ids,
)
from gateway.sessions.identity import UNKNOWN, Requester
from gateway.stores.documents import (
    AT_ONCE,
    DocumentKey,
    Documents,
    SessionKey,
    Shape,
    StoreUnavailable,
    amend,
    fetch,
    iterate_due,
)
from gateway.stores.waiting import Unsubscribe

R = TypeVar("R")
Note = Callable[..., None]
Change = Callable[[ReminderList], tuple[ReminderList, R]]

KIND = "clock"
SHAPE = Shape(KIND, 1, ReminderList(), encode_reminders, decode_reminders, earliest_due)
EVENTS = LedgerEvents(
    reserved="reminders_reserved",
    committed="reminders_committed",
    released="reminders_released",
    owed="reminders_owed",
)
# A change waits for the disk, and for its turn among others; a store that takes longer is down.
PATIENCE_SECONDS = 30.0
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
        self.clock = clock
        self.rules = rules
        self.note = note
        self.events = EVENTS
        self._records = ReminderRecords(note)
        self.counts = self._records.counts
        self.on_schedule: Callable[[str, str], None] = lambda owner, session: None
        """Told of the owner and the session whenever something was scheduled."""
        self.on_delegated: Callable[[str, str], None] = lambda owner, session: None
        """Told of the owner and the session whenever a sub-agent scheduled something."""
        self._steps = ClockSteps(clock, tick_ms)
        self._patience = patience
        self._ledger: Ledger[Reminder] = Ledger(self)

    def __repr__(self) -> str:
        return f"<Reminders {self._ledger!r}>"

    # What a session has.

    async def list_reminders(self, owner: str, session: str) -> ReminderList:
        """Return what a session has and has not expired; raises if the store is down."""
        key = (owner, session)
        try:
            reminders = await self._read(key)
        except StoreUnavailable as error:
            self._records.log_trouble("reminders_not_read", key, error)
            raise
        self._records.log("reminders_listed", key, reminders.items)
        return reminders

    async def list_undelivered(self, owner: str, session: str) -> tuple[Reminder, ...]:
        """Return what waits to be delivered, reserved or not; raises if the store is down."""
        if self.surely_idle(owner, session):
            return ()
        reminders = await self._read((owner, session))
        return tuple(reminder for reminder in reminders.items if reminder.is_pending)

    def surely_idle(self, owner: str, session: str) -> bool:
        """Tell without waiting that a session has no reminders, as nearly all have none.

        The fast twin of `idle`, for every request: it saves the read and the switch of tasks. True
        means that `idle` would say so; False means nothing.
        """
        return self.store.absent(DocumentKey(KIND, owner, session))

    async def idle(self, owner: str, session: str) -> bool:
        """Tell at little cost whether a session has no reminders at all."""
        if self.surely_idle(owner, session):
            return True
        try:
            # Without its turn and what is owed: those that are there may be over, but are there.
            return not (await fetch(self.store, DocumentKey(KIND, owner, session), SHAPE)).items
        except StoreUnavailable:
            # Whoever goes on to look is told, and it is logged there.
            return False

    async def next_ready(self, owner: str, session: str, exchange_id: str) -> int | None:
        """Return when the next one may be carried by a turn of this exchange, or None."""
        key = (owner, session)
        reminders, held = await self._read_or_nothing(key), self._ledger.list_held(key)
        return next_ready(reminders, exchange_id, self.clock.now_ms(), self.rules, held)

    def watch(self, owner: str, session: str, callback: Callable[[], None]) -> Unsubscribe:
        """Have the callback called after each change of a session's reminders or claims."""
        in_store = self.store.watch(DocumentKey(KIND, owner, session), callback)
        return partial(_call_both, in_store, self._ledger.watch((owner, session), callback))

    def recent(self, owner: str, session: str) -> tuple[EndedReminder, ...]:
        """Return what ended in a session during the last day."""
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
        """Add all that is wanted, durably; raises `InvalidInput`, or if the store is down.

        What a sub-agent wants and does not take later passes to the `main` session.
        """
        key, now_ms = (owner, session), self.clock.now_ms()
        origin = ReminderOrigin(session, exchange_id, setter, main)

        def change(
            before: ReminderList,
        ) -> tuple[ReminderList, tuple[tuple[Reminder, ...], int]]:
            after, scheduled = schedule(before, wanted, origin, now_ms, self.rules, _new_id)
            # One that was there already is told of again, and is not new.
            known = {reminder.id for reminder in before.items}
            return after, (scheduled, len({reminder.id for reminder in scheduled} - known))

        scheduled, new = await self._change(key, change)
        self.counts.scheduled += new
        self._records.log("reminders_scheduled", key, scheduled)
        self.on_schedule(owner, session)
        if main:
            self.on_delegated(owner, session)
        return scheduled

    async def hand_over(self, owner: str, session: str) -> int | None:
        """Pass on what a sub-agent scheduled and nobody took in time, durably.

        Return when to look again; None if nothing is left to pass on.
        """
        key, now_ms, rules = (owner, session), self.clock.now_ms(), self.rules
        passed = await self._change(
            key, lambda reminders: mark_passed(reminders, now_ms, self._ledger.list_held(key))
        )
        if passed:
            # Three writes in this order: a crash between any two neither loses nor doubles.
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
        return next_handover(await self._read(key))

    async def cancel(self, owner: str, session: str, reminder_id: str) -> bool:
        """Take one out, durably; False if there is no such one."""
        key = (owner, session)
        found = await self._change(key, lambda reminders: cancel(reminders, reminder_id))
        self._record_removal("reminders_cancelled", key, () if found is None else (found,))
        return found is not None

    async def clear(self, owner: str, session: str) -> int:
        """Take all out, durably, and say how many there were."""
        key = (owner, session)
        removed = await self._change(key, lambda reminders: (clear(reminders)[0], reminders.items))
        self._record_removal("reminders_cleared", key, removed)
        return len(removed)

    def _record_removal(self, event: str, key: SessionKey, removed: tuple[Reminder, ...]) -> None:
        # Whoever removes one that was delivered cancels nothing.
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
        """Claim what is due for a turn of this exchange; without a working store nothing is.

        What a side call of the session has claimed and not delivered yet is taken over. Who
        watches the session and claims by itself need not be called back.
        """
        key = (owner, session)
        reminders = await self._read_or_nothing(key)
        if not reminders.items:
            return None
        # From here to the claim nobody else comes in between.
        held = self._ledger.list_held(key, requester)
        ready = due(reminders, exchange_id, self.clock.now_ms(), self.rules, held)
        if not ready:
            return None
        claim = Claim(f"{exchange_id}:clock", key, ready, requester)
        self._ledger.reserve(claim)
        self._ledger.wake(key, by)
        return claim

    async def commit(self, claim: Claim[Reminder]) -> None:
        """Note that what was claimed is delivered; if it cannot be written yet, it is owed."""
        now_ms = self.clock.now_ms()
        # While the ledger still knows what the claim holds; it may have lost some of it.
        self._records.add_ended(claim.key, self._ledger.list_held_by(claim), DELIVERED, now_ms)
        await self._ledger.commit(claim, now_ms)

    def release(self, claim: Claim[Reminder]) -> None:
        """Give back what was claimed, unless it was committed or given back before."""
        self._ledger.release(claim)

    async def acknowledge(
        self, owner: str, session: str, ids: Container[str]
    ) -> tuple[Reminder, ...]:
        """Take it that somebody has got these by another way, durably; return those who waited.

        A turn that carries one of them now has nothing to deliver or to give back any more.
        """
        key, now_ms = (owner, session), self.clock.now_ms()
        if self.surely_idle(owner, session):
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
        """Return what the log says of a claim."""
        return {"reservation": claim.id, "count": len(items), "tasks": join_ids(items)}

    async def write_delivered(self, key: SessionKey) -> None:
        """Write what is owed for a session, as every change does; raises if the store is down."""
        await self._amend(key, _keep)

    # What is over.

    async def run(self, tick_ms: int) -> NoReturn:
        """Sweep now, and then every tick, for ever."""
        while True:
            try:
                await self.sweep()
            except StoreUnavailable as error:
                self.note("reminders_not_swept", why=error.message)
            await anyio.sleep(tick_ms / 1000)

    async def sweep(self) -> int:
        """Write what is owed, remove what has expired, and say how many did so undelivered."""
        self._records.recent.forget(self.clock.now_ms())
        expired = 0
        debtors = iter(self._ledger.debtors())
        while keys := tuple(islice(debtors, AT_ONCE)):
            expired += await self._tidy(keys)
        # A clock that is ahead for a while loses nothing.
        before_ms = self._steps.past_ms() - self.rules.retention_ms
        async with aclosing(iterate_due(self.store, KIND, before_ms)) as found:
            async for documents in found:
                expired += await self._tidy([(one.owner, one.session) for one in documents])
        return expired

    async def _tidy(self, keys: Sequence[SessionKey]) -> int:
        """Write what is owed and remove what has expired in some sessions; one may fail alone."""
        expired: list[int] = []
        troubles: list[StoreUnavailable] = []

        async def tidy(key: SessionKey) -> None:
            try:
                _, lost = await self._amend(key, _keep)
                expired.append(lost)
            except StoreUnavailable as error:
                troubles.append(error)

        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(tidy, key)
        if troubles:
            self.note("reminders_not_swept", sessions=len(troubles), why=troubles[0].message)
        return sum(expired)

    # The document.

    async def _read(self, key: SessionKey) -> ReminderList:
        """Return what a session has now and has not expired."""
        document, locks = DocumentKey(KIND, *key), self.store.key_locks
        # In turn with those who write what was delivered, as the ledger wants it.
        await locks.acquire(document)
        try:
            reminders = await fetch(self.store, document, SHAPE)
        finally:
            locks.release(document)
        if not reminders.items:
            return reminders
        applied = self._apply_owed(key, reminders)
        return expire(applied, self._steps.past_ms(), self.rules)[0]

    async def _read_or_nothing(self, key: SessionKey) -> ReminderList:
        try:
            return await self._read(key)
        except StoreUnavailable as error:
            self._records.log_trouble("reminders_not_read", key, error)
            return ReminderList()

    async def _change(self, key: SessionKey, change: Change[R]) -> R:
        try:
            return (await self._amend(key, change))[0]
        except StoreUnavailable as error:
            self._records.log_trouble("reminders_not_stored", key, error)
            raise

    async def _amend(self, key: SessionKey, change: Change[R]) -> tuple[R, int]:
        """Change a session's reminders; write what is owed and remove what expired with it.

        Whoever leaves meanwhile is held until it is known what became of it, but not for ever.
        """

        def whole(
            stored: ReminderList,
        ) -> tuple[ReminderList, tuple[R, tuple[Reminder, ...], list[str]]]:
            past_ms = self._steps.past_ms()
            # First what is owed: what was delivered does not expire, and is not asked for again.
            applied = self._apply_owed(key, stored)
            living, lost = expire(applied, past_ms, self.rules, self._ledger.list_held(key))
            changed, answer = change(living)
            return changed, (answer, lost, self._find_settled(key, stored, past_ms))

        with anyio.move_on_after(self._patience, shield=True):
            document = DocumentKey(KIND, *key)
            answer, lost, settled = await amend(self.store, document, whole, SHAPE)
            self._ledger.settle(key, settled)
            if lost:
                self.counts.expired += len(lost)
                self._records.add_ended(key, lost, EXPIRED, self.clock.now_ms())
                self._records.log("reminders_expired", key, lost, tasks=join_ids(lost))
            return answer, len(lost)
        raise StoreUnavailable("The store of reminders does not answer; try again later.")

    def _apply_owed(self, key: SessionKey, reminders: ReminderList) -> ReminderList:
        """Return a session's reminders as they will be when nothing is owed any more."""
        for reminder_id, at_ms in self._ledger.list_owed(key).items():
            reminders = deliver(reminders, (reminder_id,), at_ms)
        return reminders

    def _find_settled(self, key: SessionKey, stored: ReminderList, past_ms: int) -> list[str]:
        """Return which deliveries are no longer owed when these reminders are written.

        Reminders that are not there may be on a disk that is away for a while; they are remembered
        until they have expired for certain.
        """
        over_ms = past_ms - self.rules.due_window_ms - self.rules.retention_ms
        there = {reminder.id for reminder in stored.items}
        owed = self._ledger.list_owed(key).items()
        return [one for one, at_ms in owed if one in there or at_ms < over_ms]


def _new_id() -> str:
    return str(uuid4())


def _call_both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()


def _keep(reminders: ReminderList) -> tuple[ReminderList, None]:
    return reminders, None
