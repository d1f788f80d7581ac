"""Who carries what, and what is owed to the store: one ledger for reminders and for results.

Items wait for a session in a store: reminders in its document, results of runs in rows. A turn
that is to bring some of them to a model claims them here, and the client's answer decides:

    waiting ──reserve──> claimed ──commit──> owed ──settle──> delivered, in the store too
       ^                    │
       └──────release───────┘

The ledger lives in memory, and knows items only by their ids. Which of them are due, how they are
read and written and what a model is told of them is up to their keeper. Invariants:

1. An item is held by one claim at most. A conversation may take over what a side call of its
   session holds (`Requester.outranks`); from then on the side call's claim has no say about it.
2. An item is committed once at most: only the claim that holds it can do so, and what is owed is
   never offered again, since keepers leave out what `list_owed` names from all they read.
3. Nothing is lost. A release forgets a claim and nothing else; a process that dies forgets all
   claims and debts, and the store still has their items as waiting: at least once, then.
4. An item is owed from the instant at which the client has seen it. It counts as delivered in this
   process at once, and stays owed until a write that names it has succeeded, however often it
   failed before.
5. Keepers await nothing between `list_held` and `reserve`, and read a session in turn with those
   who write what was delivered in it. A read that overlaps such a write could come back after it,
   with items that nothing holds any more as if they still waited.

In a store that several processes share, claims are tokens in the store itself; these methods are
the place where that is put in.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from gateway.sessions.identity import UNKNOWN, Requester
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.waiting import Unsubscribe, Watchers


class LedgerItem(Protocol):
    """Anything that waits for a session, and has an id of its own."""

    @property
    def id(self) -> str: ...


I = TypeVar("I", bound=LedgerItem)  # noqa: E741


class Claim(msgspec.Struct, Generic[I], frozen=True, eq=False, gc=False):
    """The items that one turn carries, until they are delivered or given back."""

    id: str
    key: SessionKey
    items: tuple[I, ...]
    requester: Requester = UNKNOWN


class LedgerCounts(Protocol):
    """How many items went which way since the process began."""

    reserved: int
    committed: int
    released: int
    acknowledged: int


class LedgerEvents(NamedTuple):
    """What the steps of a claim are called in the log."""

    reserved: str
    committed: str
    released: str
    owed: str


class ItemKeeper(Protocol[I]):
    """Whoever reads and writes the items of a ledger."""

    @property
    def counts(self) -> LedgerCounts: ...
    @property
    def events(self) -> LedgerEvents: ...
    @property
    def note(self) -> Callable[..., None]: ...

    def describe_claim(self, claim: Claim[I], items: tuple[I, ...]) -> Mapping[str, object]:
        """Return what the log says of a claim and the items that it holds; never their text."""

    async def write_delivered(self, key: SessionKey) -> None:
        """Write what is owed for a session, durably, and settle it; raises if the store is down."""


class Ledger(Generic[I]):
    """The claims of all sessions, and the deliveries that are not in the store yet."""

    def __init__(self, keeper: ItemKeeper[I]) -> None:
        self._keeper = keeper
        self._held: dict[SessionKey, dict[str, Claim[I]]] = {}
        self._owed: dict[SessionKey, dict[str, int]] = {}
        self._watchers = Watchers()

    def __repr__(self) -> str:
        return f"<Ledger {len(self._held)} sessions reserved, {len(self._owed)} owed>"

    def list_held(self, key: SessionKey, requester: Requester = UNKNOWN) -> Container[str]:
        """Return the ids of a session's items that a turn carries now, and this one may not."""
        held = self._held.get(key)
        # Who offers no tools outranks nobody: then all of them are, and none is looked at.
        if held is None or not requester.tools:
            return held or ()
        return {one for one, by in held.items() if not requester.outranks(by.requester)}

    def reserve(self, claim: Claim[I]) -> None:
        """Hold items for one turn, also those that a turn of lower rank held."""
        self._held.setdefault(claim.key, {}).update((item.id, claim) for item in claim.items)
        self._keeper.counts.reserved += len(claim.items)
        self._log(self._keeper.events.reserved, claim, claim.items)

    def list_held_by(self, claim: Claim[I]) -> tuple[I, ...]:
        """Return those items of a claim that it has neither lost nor delivered nor given back."""
        held = self._held.get(claim.key, {})
        # By identity: an exchange that claims again has another claim of the same id.
        return tuple(item for item in claim.items if held.get(item.id) is claim)

    async def commit(self, claim: Claim[I], at_ms: int) -> None:
        """Note that what a claim holds is delivered; if it cannot be written yet, it is owed."""
        items, key = self._end_claim(claim), claim.key
        if not items:
            return
        # Before anything is awaited: whoever leaves now does not undo what the client has seen.
        self._owed.setdefault(key, {}).update((item.id, at_ms) for item in items)
        self._keeper.counts.committed += len(items)
        try:
            await self._keeper.write_delivered(key)
        except StoreUnavailable as error:
            # No reason to fail the turn: its keeper writes what is owed when the store is back.
            owner, session = key
            self._keeper.note(
                self._keeper.events.owed, owner=owner, session=session, why=error.message
            )
        self._log(self._keeper.events.committed, claim, items)
        self.wake(key)

    def release(self, claim: Claim[I]) -> None:
        """Give back what a claim holds: nothing, if it was committed or given back before."""
        if items := self._end_claim(claim):
            self._keeper.counts.released += len(items)
            self._log(self._keeper.events.released, claim, items)
            self.wake(claim.key)

    def acknowledge(self, key: SessionKey, ids: tuple[str, ...]) -> None:
        """Take items that somebody has got by another way, and that are written, out of claims."""
        self._keeper.counts.acknowledged += len(ids)
        self._end_holds(key, ids)

    def list_owed(self, key: SessionKey) -> Mapping[str, int]:
        """Return what was delivered in a session and is not written, and when it was."""
        return self._owed.get(key, {})

    def debtors(self) -> tuple[SessionKey, ...]:
        """Return the sessions of which something is to be written."""
        return tuple(self._owed)

    def settle(self, key: SessionKey, ids: Iterable[str]) -> None:
        """Forget deliveries that were written; what was delivered meanwhile stays owed."""
        owed = self._owed.get(key, {})
        for one in ids:
            owed.pop(one, None)
        if not owed:
            self._owed.pop(key, None)

    def forget(self, key: SessionKey) -> None:
        """Forget a session that was deleted."""
        self._held.pop(key, None)
        self._owed.pop(key, None)

    def watch(self, key: SessionKey, callback: Callable[[], None]) -> Unsubscribe:
        """Have the callback called after each change of a session's claims."""
        return self._watchers.watch(key, callback)

    def wake(self, key: SessionKey, by: Callable[[], None] | None = None) -> None:
        """Call those who watch a session, but for whoever changed it and knows already."""
        self._watchers.notify(key, by)

    def _end_claim(self, claim: Claim[I]) -> tuple[I, ...]:
        items = self.list_held_by(claim)
        self._end_holds(claim.key, (item.id for item in items))
        return items

    def _end_holds(self, key: SessionKey, ids: Iterable[str]) -> None:
        held = self._held.get(key, {})
        for one in ids:
            held.pop(one, None)
        # Sessions come and go by the thousand: one that holds nothing takes no memory.
        if not held:
            self._held.pop(key, None)

    def _log(self, event: str, claim: Claim[I], items: tuple[I, ...]) -> None:
        owner, session = claim.key
        told = self._keeper.describe_claim(claim, items)
        self._keeper.note(event, owner=owner, session=session, **told)
