"""Reminders that turns of several instances carry: reserved in the document that they share.

A turn reserves reminders by a token, in one compare-and-swap of the document. So nothing lies
between reading a reminder and claiming it. What another instance reserved counts as long as that
instance is not buried; the store checks that when the reservation is replaced. Delivery and release
find their token, or do nothing: then somebody else has taken the reminder over.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from gateway.outbox.queue import read_token, write_token
from gateway.reminders.model import Reminder, ReminderList, Reservation, release, reserve
from gateway.sessions.identity import UNKNOWN, Requester
from gateway.stores.hints import SessionKey
from gateway.stores.instance import Instance

Choose = Callable[[ReminderList, Container[str]], tuple[Reminder, ...]]
"""Returns the reminders that a turn may carry, without those that are taken."""


def list_taken(
    reminders: ReminderList, instance: Instance, requester: Requester = UNKNOWN
) -> frozenset[str]:
    """Return the ids of reminders that turns of living instances hold against a requester."""
    return frozenset(
        one.id
        for one in reminders.items
        if one.reserved is not None
        and not requester.outranks(read_token(one.reserved.token))
        and not instance.may_be_buried(one.reserved.instance)
    )


class ReservationAttempt:
    """Reserves reminders for one turn, as often as the document changes meanwhile."""

    def __init__(self, instance: Instance, requester: Requester) -> None:
        self.token = write_token(requester)
        self.replaced_holders: list[str] = []
        """Whose reservations it replaces: instances that have to be buried."""
        self._instance = instance
        self._requester = requester
        self._tried: set[str] = set()

    def reserve(
        self, reminders: ReminderList, choose: Choose
    ) -> tuple[ReminderList, tuple[Reminder, ...]]:
        """Reserve what a turn may carry."""
        instance, requester = self._instance, self._requester
        # Called again, and still there: its holder is not buried.
        for one in reminders.items:
            if one.reserved is not None and one.reserved.token in self._tried:
                instance.note_living(one.reserved.instance)
        chosen = choose(reminders, list_taken(reminders, instance, requester))
        replaced = [
            one.reserved
            for one in chosen
            if one.reserved is not None and not requester.outranks(read_token(one.reserved.token))
        ]
        self._tried = {reserved.token for reserved in replaced}
        self.replaced_holders[:] = {reserved.instance for reserved in replaced}
        ids = frozenset(one.id for one in chosen)
        return reserve(reminders, ids, Reservation(instance.id, self.token)), chosen


class OwedTokens:
    """Which tokens deliveries need that are not written yet, and which have ended."""

    def __init__(self) -> None:
        self._needed: dict[str, str] = {}
        self._ended: dict[SessionKey, set[str]] = {}

    def __repr__(self) -> str:
        return f"<OwedTokens {len(self._needed)} needed, {len(self._ended)} sessions to release>"

    def need(self, reminders: tuple[Reminder, ...], token: str) -> None:
        """Let these reminders count as delivered only if they are still reserved by the token."""
        self._needed.update((one.id, token) for one in reminders)

    def find_needed(self, reminder_id: str) -> str:
        """Return the token that the delivery of a reminder needs; empty if it needs none."""
        return self._needed.get(reminder_id, "")

    def forget_needed(self, reminder_id: str) -> None:
        """Forget the token of a delivery that was written."""
        self._needed.pop(reminder_id, None)

    def end(self, key: SessionKey, token: str) -> None:
        """Note that a reservation is to be released."""
        self._ended.setdefault(key, set()).add(token)

    def list_ended(self, key: SessionKey) -> frozenset[str]:
        """Return the reservations of a session that are to be released."""
        return frozenset(self._ended.get(key, ()))

    def forget_ended(self, key: SessionKey, tokens: frozenset[str]) -> None:
        """Forget reservations that are released in the store."""
        left = self._ended.get(key, set()) - tokens
        if left:
            self._ended[key] = left
        else:
            self._ended.pop(key, None)

    def sessions(self) -> tuple[SessionKey, ...]:
        """Return the sessions in which something is to be released."""
        return tuple(self._ended)

    def release_ended(self, key: SessionKey, reminders: ReminderList) -> ReminderList:
        """Return a session's reminders without the reservations that have ended."""
        ended = self._ended.get(key)
        return release(reminders, ended) if ended else reminders
