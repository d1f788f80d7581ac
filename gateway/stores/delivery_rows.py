"""The protocol of a store of items that wait for sessions, and of events of sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from gateway.stores.hints import SessionKey


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
    token: str = ""
    """The reservation that holds it now, in a store that instances share; empty if none does."""

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
    """Its number, given by the store; of two events of a session, the later has the higher one."""


class ItemReservation(NamedTuple):
    """Some items of a session, for one turn."""

    owner: str
    session: str
    ids: tuple[str, ...]
    token: str
    replaced: tuple[str, ...] = ()
    """The tokens of reservations that this one may take items from."""


TellDelivered = Callable[[str], SessionEvent]
"""Makes the event that tells that an item was delivered, from the item's id."""


class DeliveryRows(Protocol):
    """Items that wait for sessions, and events of sessions.

    Items and events of one session are numbered in the order in which they were stored; numbers of
    different sessions cannot be compared.
    """

    is_shared: bool
    """Whether other processes use this store: then turns reserve items in it."""

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

    async def reserve(self, wanted: ItemReservation) -> tuple[str, ...]:
        """Reserve items for a turn; return the ids of those that nobody else holds.

        In a store of one process the ledger in memory decides this, and nothing is written.
        """

    async def release(self, owner: str, session: str, token: str) -> None:
        """Release what is still reserved under a token."""

    async def deliver(
        self, owner: str, session: str, ids: tuple[str, ...], tell: TellDelivered | None = None
    ) -> tuple[str, ...]:
        """Mark items as delivered; return the ids of those that were not yet.

        The events that tell of them are stored in the same transaction.
        """

    async def forget(self, owner: str, session: str) -> None:
        """Delete a session's items, its events, and the interest in it."""

    async def note(self, event: SessionEvent) -> SessionEvent | None:
        """Append an event to the log of a session; return None if it is already there.

        If the log is too long, its oldest events are deleted.
        """

    async def events(self, owner: str, session: str, after: int, limit: int) -> list[SessionEvent]:
        """Return a session's events after a number, in order."""

    async def last_event(self, owner: str, session: str) -> int:
        """Return a number that no event of the session exceeds, and that was given already.

        It is 0 if there is no event.
        """

    async def prune(self, before_ms: int) -> int:
        """Delete events, delivered items and interests that are older; return how many."""

    async def note_interest(self, owner: str, session: str, at_ms: int) -> None:
        """Store that somebody listens to this session."""

    async def interests(self) -> list[SessionKey]:
        """Return the sessions that somebody listens to, or did lately."""


class EventLogRows(Protocol):
    """The events of all sessions in one order, as only a store of one process numbers them."""

    async def events_since(self, owner: str, after: int, limit: int) -> list[SessionEvent]:
        """Return the events of all sessions of an owner after a number, in order."""

    async def last_event(self, owner: str, session: str) -> int:
        """Return the number of the newest event of all sessions; 0 if there is none."""

    async def position(self, name: str) -> int:
        """Return the stored position of a reader of events; 0 if there is none."""

    async def move(self, name: str, seq: int) -> None:
        """Store the position of a reader of events; it never goes back."""


class Post(NamedTuple):
    """An event that this instance posts to a webhook."""

    hook: str
    event: SessionEvent
    tries: int
    """How often it was tried, this time included."""


class PostRows(Protocol):
    """The posts of events to webhooks, of which each instance takes some."""

    def use_hooks(self, hooks: Mapping[str, Sequence[str]]) -> None:
        """From now on, events of these owners get a post to each of their hooks."""

    async def take_posts(self, hooks: Sequence[str], now_ms: int, limit: int) -> list[Post]:
        """Take posts that are due, the lowest number of each session first."""

    async def settle_post(self, post: Post) -> bool:
        """Delete a post that was accepted or given up; return False if it was not ours."""

    async def delay_post(self, post: Post, at_ms: int) -> bool:
        """Have it posted again at a time, by any instance; return False if it was not ours."""

    async def next_post_ms(self, hooks: Sequence[str]) -> int | None:
        """Return when the next post is due that nobody has taken; None if there is none."""


class ReadySession(NamedTuple):
    """A session that one instance looks at, since a reminder of it may be due."""

    owner: str
    session: str
    until_ms: int
    """For how long the others leave it alone; it marks this look."""


class AnnouncementRows(Protocol):
    """Which sessions of a store that instances share have reminders to be announced."""

    def use_owners(self, owners: Iterable[str]) -> None:
        """Watch all sessions of exactly these owners, from their next change on."""

    async def watch(self, owner: str, session: str) -> None:
        """Watch the reminders that a session has already."""

    async def watch_all(self, owner: str) -> None:
        """Watch the reminders that the sessions of an owner have already."""

    async def take(self, now_ms: int) -> list[ReadySession]:
        """Take some sessions that are to be looked at, the first first."""

    async def move_on(self, taken: ReadySession, next_ms: int | None) -> None:
        """Say when to look at a session next, unless its reminders were changed meanwhile."""

    async def next_ready_ms(self) -> int | None:
        """Return when the next session is to be looked at."""
