"""What this process knows of reminders before its store does: who carries them, what is owed.

A turn that is to carry what is due reserves it: there are no two reservations of a task. When the
client has seen the turn's answer begin, the tasks are delivered, and from that instant on they are
owed to the store: they count as delivered here, and are written as soon as that is possible.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import msgspec

from gateway.exchange.model import UNKNOWN, Requester
from gateway.reminders.model import Reminder, ReminderList, Rules, deliver
from gateway.stores.documents import DocumentKey


class Reservation(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The claim of one turn on what is due in its session."""

    id: str
    key: DocumentKey
    tasks: tuple[Reminder, ...]
    requester: Requester = UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """Tasks that were delivered, and when; to be written."""

    ids: frozenset[str]
    at_ms: int


Debts = tuple[Delivery, ...]


class Claims:
    """The reservations and the deliveries that are owed, of all sessions."""

    def __init__(self) -> None:
        self._held: dict[DocumentKey, dict[str, Reservation]] = {}
        self._owed: dict[DocumentKey, Debts] = {}

    def __repr__(self) -> str:
        return f"<Claims {len(self._held)} sessions reserved, {len(self._owed)} owed>"

    def reserved(self, key: DocumentKey, requester: Requester = UNKNOWN) -> Container[str]:
        """Return the ids of a session's tasks that a turn carries now, and this one may not."""
        held = self._held.get(key)
        if held is None or not requester.tools:
            return held or ()
        return {one for one, by in held.items() if not requester.outranks(by.requester)}

    def reserve(self, reservation: Reservation) -> None:
        """Hold tasks for one turn, also those that a turn of lower rank held."""
        held = self._held.setdefault(reservation.key, {})
        for task in reservation.tasks:
            held[task.id] = reservation

    def let_go(self, reservation: Reservation) -> tuple[Reminder, ...]:
        """End a reservation, and return what it still held."""
        held = self._held.get(reservation.key, {})
        tasks = tuple(task for task in reservation.tasks if held.get(task.id) is reservation)
        for task in tasks:
            del held[task.id]
        if not held:
            self._held.pop(reservation.key, None)
        return tasks

    def drop(self, key: DocumentKey, tasks: tuple[Reminder, ...]) -> None:
        """Take tasks out of whatever reservations hold them."""
        held = self._held.get(key, {})
        for task in tasks:
            held.pop(task.id, None)
        if not held:
            self._held.pop(key, None)

    def owe(self, key: DocumentKey, tasks: tuple[Reminder, ...], at_ms: int) -> None:
        """Note that tasks were delivered."""
        delivery = Delivery(frozenset(task.id for task in tasks), at_ms)
        self._owed[key] = (*self._owed.get(key, ()), delivery)

    def debtors(self) -> tuple[DocumentKey, ...]:
        """Return the sessions of which something is to be written."""
        return tuple(self._owed)

    def applied(self, key: DocumentKey, tasks: ReminderList) -> ReminderList:
        """Return a session's tasks as they will be when nothing is owed any more."""
        for delivery in self._owed.get(key, ()):
            tasks = deliver(tasks, delivery.ids, delivery.at_ms)
        return tasks

    def payable(self, key: DocumentKey, tasks: ReminderList, now_ms: int, rules: Rules) -> Debts:
        """Return the deliveries that are settled when these tasks are written.

        Tasks that are not there may be on a disk that is away for a while; they are remembered
        until they have expired for certain.
        """
        there = {task.id for task in tasks.items}
        over_ms = now_ms - rules.due_window_ms - rules.retention_ms
        owed = self._owed.get(key, ())
        return tuple(one for one in owed if one.ids <= there or one.at_ms < over_ms)

    def settle(self, key: DocumentKey, paid: Debts) -> None:
        """Forget deliveries that were written."""
        owed = tuple(one for one in self._owed.pop(key, ()) if one not in paid)
        if owed:
            self._owed[key] = owed
