"""The protocol of a store of items that wait for sessions, and of events of sessions."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

import msgspec

from gateway.stores.documents import SessionKey


class OutboxItem(msgspec.Struct, frozen=True):
    """An item that waits for a session: the result of a run, or a notice about a job."""

    id: str
    owner: str
    session: str
    at_ms: int
    text: str
    """The text for the model."""
    job_id: str = ""
    run_id: str = ""
    name: str = ""
    status: Literal["ok", "failed", "missed"] = "ok"
    """`ok` for a result; `failed` or `missed` for a notice about a job."""
    missed: int = 0
    """How many runs were missed."""
    seq: int = 0
    """Its place in the session's queue, given by the store; higher is later."""

    @property
    def deliveries(self) -> int:
        """How often it was delivered: an item that was is not read again."""
        return 0


class WaitingItems(NamedTuple):
    """How many items wait for a session, and when the newest was added."""

    owner: str
    session: str
    items: int
    newest_ms: int


class DeliveredItem(NamedTuple):
    """An item that was delivered, and when."""

    item: OutboxItem
    delivered_ms: int


class SessionEvent(msgspec.Struct, frozen=True):
    """Something that happened in a session; `key` is unique for each kind in a session."""

    owner: str
    session: str
    kind: str
    key: str
    at_ms: int
    data: bytes
    """A JSON object."""
    seq: int = 0


class DeliveryRows(Protocol):
    """Items that wait for sessions, and events of sessions."""

    async def add(self, item: OutboxItem) -> OutboxItem:
        """Append an item to its session's queue; the same id twice is one item."""

    async def pending(self, owner: str, session: str) -> list[OutboxItem]:
        """Return undelivered items, in order, reserved or not."""

    async def waiting(self) -> list[SessionKey]:
        """Return the sessions that have undelivered items."""

    async def count_waiting(self, owner: str | None) -> list[WaitingItems]:
        """Count undelivered items by session: an owner's, or everybody's."""

    async def list_delivered(self, owner: str, session: str, limit: int) -> list[DeliveredItem]:
        """Return items that were delivered and are not pruned yet, the last delivered first."""

    async def deliver(self, owner: str, session: str, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Mark items as delivered; return the ids of those that were not yet."""

    async def forget(self, owner: str, session: str) -> None:
        """Delete a session's items, its events, and the interest in it."""

    async def note(self, event: SessionEvent) -> SessionEvent | None:
        """Append an event to the log of a session; return None if it is already there.

        If the log is too long, its oldest events are deleted.
        """

    async def events(self, owner: str, session: str, after: int, limit: int) -> list[SessionEvent]:
        """Return a session's events after a number, in order."""

    async def events_since(self, owner: str, after: int, limit: int) -> list[SessionEvent]:
        """Return the events of all sessions of an owner after a number, in order."""

    async def last_event(self, owner: str, session: str) -> int:
        """Return the number of the newest event of all sessions, 0 if there is none."""

    async def prune(self, before_ms: int) -> int:
        """Delete events, delivered items and interests that are older; return how many."""

    async def note_interest(self, owner: str, session: str, at_ms: int) -> None:
        """Store that somebody listens to this session."""

    async def interests(self) -> list[SessionKey]:
        """Return the sessions that somebody listens to, or did lately."""

    async def position(self, name: str) -> int:
        """Return the stored position of a reader of events; 0 if there is none."""

    async def move(self, name: str, seq: int) -> None:
        """Store the position of a reader of events; it never goes back."""
