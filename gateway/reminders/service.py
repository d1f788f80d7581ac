"""Schedules, lists, reserves, delivers and sweeps reminders."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import NoReturn, TypeVar
from uuid import uuid4

import anyio

from gateway.clock.protocol import Clock
from gateway.clock.steps import ClockSteps
from gateway.exchange.model import UNKNOWN, Requester
from gateway.reminders.claims import Claims, Debts, Reservation
from gateway.reminders.handover_model import drop_passed, inherit, mark_passed, next_handover
from gateway.reminders.model import (
    Reminder,
    ReminderList,
    ReminderOrigin,
    ReminderRequest,
    Rules,
    cancel,
    clear,
    decoded,
    deliver,
    due,
    earliest_due,
    encoded,
    expire,
    next_ready,
    schedule,
)
from gateway.reminders.records import EndedReminder, RecentlyEnded, ReminderCounts
from gateway.stores.documents import DocumentKey, Documents, Shape, StoreUnavailable, amend, fetch
from gateway.stores.overdue import AT_ONCE, overdue
from gateway.stores.waiting import Unsubscribe, Watchers

R = TypeVar("R")
Note = Callable[..., None]
Change = Callable[[ReminderList], tuple[ReminderList, R]]

KIND = "clock"
SHAPE = Shape(KIND, 1, ReminderList(), encoded, decoded, earliest_due)
DELIVERED, CANCELLED, EXPIRED = "delivered", "cancelled", "expired"
LONGEST_SHOWN = 200
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
        self.counts = ReminderCounts()
        self.on_schedule: Callable[[str, str], None] = _unheard
        """Told of the owner and the session whenever something was scheduled."""
        self.on_delegated: Callable[[str, str], None] = _unheard
        """Told of the owner and the session whenever a sub-agent scheduled something."""
        self._steps = ClockSteps(clock, tick_ms)
        self._patience = patience
        self._claims = Claims()
        self._recent = RecentlyEnded()
        self._watchers = Watchers()

    def __repr__(self) -> str:
        return f"<Reminders {self._claims!r}>"

    async def tasks(self, owner: str, session: str) -> ReminderList:
        """Return what a session has and has not expired; raises if the store is down."""
        key = DocumentKey(KIND, owner, session)
        try:
            tasks = await self._read(key)
        except StoreUnavailable as error:
            self._log_trouble("reminders_not_read", key, error)
            raise
        self._log("reminders_listed", key, tasks.items)
        return tasks

    async def schedule(
        self,
        owner: str,
        session: str,
        wanted: tuple[ReminderRequest, ...],
        chain: str = "",
        setter: str = "",
        main: str = "",
    ) -> tuple[Reminder, ...]:
        """Add all that is wanted, durably; raises `InvalidInput`, or if the store is down.

        What a sub-agent wants and does not take later passes to the `main` session.
        """
        key, now_ms = DocumentKey(KIND, owner, session), self.clock.now_ms()

        def change(tasks: ReminderList) -> tuple[ReminderList, tuple[tuple[Reminder, ...], int]]:
            origin = ReminderOrigin(session, chain, setter, main)
            after, scheduled = schedule(tasks, wanted, origin, now_ms, self.rules, _new_id)
            known = {task.id for task in tasks.items}
            return after, (scheduled, len({task.id for task in scheduled} - known))

        scheduled, new = await self._change(key, change)
        self.counts.scheduled += new
        self._log("reminders_scheduled", key, scheduled)
        self.on_schedule(owner, session)
        if main:
            self.on_delegated(owner, session)
        return scheduled

    async def hand_over(self, owner: str, session: str) -> int | None:
        """Pass on what a sub-agent scheduled and nobody took in time, durably.

        Return when to look again; None if nothing is left to pass on.
        """
        key, now_ms = DocumentKey(KIND, owner, session), self.clock.now_ms()
        passed = await self._change(
            key, lambda tasks: mark_passed(tasks, now_ms, self._claims.reserved(key))
        )
        if passed:
            main = DocumentKey(KIND, owner, passed[0].main)
            there = await self._change(
                main, lambda tasks: inherit(tasks, passed, main.session, now_ms, self.rules)
            )
            await self._change(key, lambda tasks: (drop_passed(tasks, there), None))
            if arrived := tuple(task for task in passed if task.id in there):
                told = {"main": main.session, "tasks": _ids(arrived)}
                self._log("reminders_passed_on", key, arrived, **told)
                self.on_schedule(owner, main.session)
        return next_handover(await self._read(key))

    async def cancel(self, owner: str, session: str, task_id: str) -> bool:
        """Take one out, durably; False if there is no such one."""
        key = DocumentKey(KIND, owner, session)
        found = await self._change(key, lambda tasks: cancel(tasks, task_id))
        removed = (found,) if found is not None else ()
        self._cancelled(key, removed)
        self._log("reminders_cancelled", key, removed)
        return found is not None

    async def clear(self, owner: str, session: str) -> int:
        """Take all out, durably, and say how many there were."""
        key = DocumentKey(KIND, owner, session)
        removed = await self._change(key, lambda tasks: (clear(tasks)[0], tasks.items))
        self._cancelled(key, removed)
        self._log("reminders_cleared", key, removed)
        return len(removed)

    async def undelivered(self, owner: str, session: str) -> tuple[Reminder, ...]:
        """Return what waits to be delivered, reserved or not; raises if the store is down."""
        key = DocumentKey(KIND, owner, session)
        if self.store.absent(key):
            return ()
        return tuple(task for task in (await self._read(key)).items if task.is_pending)

    async def acknowledge(
        self, owner: str, session: str, ids: Container[str]
    ) -> tuple[Reminder, ...]:
        """Take it that somebody has got these by another way, durably; return those who waited.

        A turn that carries one of them now has nothing to deliver or to give back any more.
        """
        key, now_ms = DocumentKey(KIND, owner, session), self.clock.now_ms()
        if self.store.absent(key):
            return ()

        def change(tasks: ReminderList) -> tuple[ReminderList, tuple[Reminder, ...]]:
            found = tuple(t for t in tasks.items if t.id in ids and t.is_pending)
            return deliver(tasks, frozenset(task.id for task in found), now_ms), found

        found = await self._change(key, change)
        if found:
            self._claims.drop(key, found)
            self.counts.acknowledged += len(found)
            self._end(key, found, DELIVERED)
            self._log("reminders_acknowledged", key, found, tasks=_ids(found))
        return found

    def surely_idle(self, owner: str, session: str) -> bool:
        """Tell without waiting that a session has no reminders, as nearly all have none."""
        return self.store.absent(DocumentKey(KIND, owner, session))

    async def idle(self, owner: str, session: str) -> bool:
        """Tell at little cost whether a session has no reminders at all."""
        if self.surely_idle(owner, session):
            return True
        key = DocumentKey(KIND, owner, session)
        try:
            return not (await fetch(self.store, key, SHAPE)).items
        except StoreUnavailable:
            # Whoever goes on to look is told, and it is logged there.
            return False

    async def reserve(
        self,
        owner: str,
        session: str,
        chain: str,
        requester: Requester = UNKNOWN,
        by: Callable[[], None] | None = None,
    ) -> Reservation | None:
        """Claim what is due for a turn of this chain; without a working store nothing is.

        What a side call of the session has claimed and not delivered yet is taken over. Who
        watches the session and claims by itself need not be called back.
        """
        key = DocumentKey(KIND, owner, session)
        tasks = await self._read_or_nothing(key)
        if not tasks.items:
            return None
        # From here to the claim nobody else comes in between.
        taken = self._claims.reserved(key, requester)
        ready = due(tasks, chain, self.clock.now_ms(), self.rules, taken)
        if not ready:
            return None
        reservation = Reservation(f"{chain}:clock", key, ready, requester)
        self._claims.reserve(reservation)
        self.counts.reserved += len(ready)
        self._log_reservation("reminders_reserved", reservation, ready)
        self._watchers.changed(key, by)
        return reservation

    async def commit(self, reservation: Reservation) -> None:
        """Note that what was reserved is delivered; if it cannot be written yet, it is owed."""
        tasks = self._claims.let_go(reservation)
        if not tasks:
            return
        key = reservation.key
        self._claims.owe(key, tasks, self.clock.now_ms())
        self.counts.committed += len(tasks)
        self._end(key, tasks, DELIVERED)
        try:
            await self._amend(key, _unchanged)
        except StoreUnavailable as error:
            self._log_trouble("reminders_owed", key, error)
        self._log_reservation("reminders_committed", reservation, tasks)
        self._watchers.changed(key)

    def release(self, reservation: Reservation) -> None:
        """Give back what was reserved, unless it was committed or given back before."""
        tasks = self._claims.let_go(reservation)
        if not tasks:
            return
        self.counts.released += len(tasks)
        self._log_reservation("reminders_released", reservation, tasks)
        self._watchers.changed(reservation.key)

    async def next_ready(self, owner: str, session: str, chain: str) -> int | None:
        """Return when the next one may be carried by a turn of this chain; None if none waits."""
        key = DocumentKey(KIND, owner, session)
        tasks = await self._read_or_nothing(key)
        taken = self._claims.reserved(key)
        return next_ready(tasks, chain, self.clock.now_ms(), self.rules, taken)

    def watch(self, owner: str, session: str, callback: Callable[[], None]) -> Unsubscribe:
        """Have the callback called after each change of a session's tasks or reservations."""
        key = DocumentKey(KIND, owner, session)
        stops = (self.store.watch(key, callback), self._watchers.watch(key, callback))
        return partial(_call_all, stops)

    def recent(self, owner: str, session: str) -> tuple[EndedReminder, ...]:
        """Return what ended in a session during the last day."""
        return self._recent.of(DocumentKey(KIND, owner, session), self.clock.now_ms())

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
        self._recent.forget(self.clock.now_ms())
        expired = 0
        debtors = iter(self._claims.debtors())
        while keys := tuple(islice(debtors, AT_ONCE)):
            expired += await self._tidy(keys)
        return expired + await self._remove_expired()

    async def _remove_expired(self) -> int:
        # A clock that is ahead for a while loses nothing.
        before_ms = self._steps.past_ms() - self.rules.retention_ms
        expired = 0
        async with aclosing(overdue(self.store, KIND, before_ms)) as found:
            async for keys in found:
                expired += await self._tidy(keys)
        return expired

    async def _tidy(self, keys: Sequence[DocumentKey]) -> int:
        """Write what is owed and remove what has expired in some sessions; one may fail alone."""
        expired: list[int] = []
        troubles: list[StoreUnavailable] = []

        async def tidy(key: DocumentKey) -> None:
            try:
                _, lost = await self._amend(key, _unchanged)
                expired.append(lost)
            except StoreUnavailable as error:
                troubles.append(error)

        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(tidy, key)
        if troubles:
            why = troubles[0].message
            self.note("reminders_not_swept", sessions=len(troubles), why=why)
        return sum(expired)

    async def _read(self, key: DocumentKey) -> ReminderList:
        """Return what a session has now and has not expired.

        Tasks are read in turn with those who change them: a read that overlaps a commit could come
        back after it, and give the tasks as they were before, when nothing holds them any more.
        """
        store = self.store
        if not store.turns.grab(key):
            await store.turns.take(key)
        try:
            tasks = await fetch(store, key, SHAPE)
        finally:
            store.turns.give(key)
        if not tasks.items:
            return tasks
        applied = self._claims.applied(key, tasks)
        return expire(applied, self._steps.past_ms(), self.rules)[0]

    async def _read_or_nothing(self, key: DocumentKey) -> ReminderList:
        try:
            return await self._read(key)
        except StoreUnavailable as error:
            self._log_trouble("reminders_not_read", key, error)
            return ReminderList()

    async def _change(self, key: DocumentKey, change: Change[R]) -> R:
        try:
            return (await self._amend(key, change))[0]
        except StoreUnavailable as error:
            self._log_trouble("reminders_not_stored", key, error)
            raise

    async def _amend(self, key: DocumentKey, change: Change[R]) -> tuple[R, int]:
        """Change a session's tasks, and with that write what is owed and remove what expired.

        Whoever leaves meanwhile is held until it is known what became of it, but not for ever.
        """

        def whole(
            tasks: ReminderList,
        ) -> tuple[ReminderList, tuple[R, tuple[Reminder, ...], Debts]]:
            past_ms, claims = self._steps.past_ms(), self._claims
            applied = claims.applied(key, tasks)
            living, lost = expire(applied, past_ms, self.rules, claims.reserved(key))
            changed, answer = change(living)
            return changed, (answer, lost, claims.payable(key, tasks, past_ms, self.rules))

        with anyio.move_on_after(self._patience, shield=True):
            answer, lost, paid = await amend(self.store, key, whole, SHAPE)
            self._claims.settle(key, paid)
            self._expired(key, lost)
            return answer, len(lost)
        raise StoreUnavailable("The store of reminders does not answer; try again later.")

    def _cancelled(self, key: DocumentKey, removed: Iterable[Reminder]) -> None:
        tasks = tuple(task for task in removed if task.delivered_ms is None)
        self.counts.cancelled += len(tasks)
        self._end(key, tasks, CANCELLED)

    def _expired(self, key: DocumentKey, tasks: tuple[Reminder, ...]) -> None:
        if tasks:
            self.counts.expired += len(tasks)
            self._end(key, tasks, EXPIRED)
            self._log("reminders_expired", key, tasks, tasks=_ids(tasks))

    def _end(self, key: DocumentKey, tasks: tuple[Reminder, ...], outcome: str) -> None:
        now_ms = self.clock.now_ms()
        ended = tuple(
            EndedReminder(task.id, task.text[:LONGEST_SHOWN], task.due_ms, outcome, now_ms)
            for task in tasks
        )
        if ended:
            self._recent.add(key, ended)

    def _log(
        self, event: str, key: DocumentKey, about: tuple[Reminder, ...], **more: object
    ) -> None:
        who = {"owner": key.owner, "session": key.session}
        self.note(
            event, **who, count=len(about), earliest_due=earliest_due(ReminderList(about)), **more
        )

    def _log_reservation(
        self, event: str, reservation: Reservation, tasks: tuple[Reminder, ...]
    ) -> None:
        key = reservation.key
        self.note(
            event,
            owner=key.owner,
            session=key.session,
            reservation=reservation.id,
            count=len(tasks),
            tasks=_ids(tasks),
        )

    def _log_trouble(self, event: str, key: DocumentKey, error: StoreUnavailable) -> None:
        self.note(event, owner=key.owner, session=key.session, why=error.message)


def _new_id() -> str:
    return str(uuid4())


def _ids(tasks: tuple[Reminder, ...]) -> str:
    return tasks[0].id if len(tasks) == 1 else ",".join(task.id for task in tasks)


def _call_all(calls: tuple[Callable[[], None], ...]) -> None:
    for call in calls:
        call()


def _unheard(owner: str, session: str) -> None:
    return None


def _unchanged(tasks: ReminderList) -> tuple[ReminderList, None]:
    return tasks, None
