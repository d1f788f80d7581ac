"""The ledger: whatever turns, acknowledgements, a failing disk and restarts do, its promises hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from gateway.outbox.ledger import Claim, Ledger, LedgerEvents
from gateway.outbox.queue import DeliveryCounts
from gateway.sessions.identity import UNKNOWN, Requester
from gateway.stores.documents import SessionKey, StoreUnavailable

KEYS = (("ann", "s"), ("ann", "t"), ("bob", "s"))
SIDE_CALL = Requester(system="title")
CONVERSATION = Requester(tools=True, system="agent")


class Letter(msgspec.Struct, frozen=True):
    """Something that waits."""

    id: str
    deliveries: int = 0


class Desk:
    """Keeps letters as a store would, and can be told to fail."""

    def __init__(self) -> None:
        self.counts = DeliveryCounts()
        self.events = LedgerEvents("reserved", "committed", "released", "owed")
        self.log: list[tuple[str, str]] = []
        self.letters: dict[SessionKey, list[Letter]] = {key: [] for key in KEYS}
        self.written: Counter[str] = Counter()
        self.fails = False
        self.ledger: Ledger[Letter] = Ledger(self)

    def note(self, event: str, **members: Any) -> None:
        self.log += [(event, one) for one in members.get("items", ())]

    def describe_claim(
        self, claim: Claim[Letter], items: tuple[Letter, ...]
    ) -> Mapping[str, object]:
        return {"items": tuple(item.id for item in items)}

    async def write_delivered(self, key: SessionKey) -> None:
        if self.fails:
            raise StoreUnavailable("The disk is gone.")
        ids = tuple(self.ledger.list_owed(key))
        self.written.update(ids)
        self.ledger.settle(key, ids)

    def waiting(self, key: SessionKey, requester: Requester = UNKNOWN) -> tuple[Letter, ...]:
        held, owed = self.ledger.list_held(key, requester), self.ledger.list_owed(key)
        return tuple(
            letter
            for letter in self.letters[key]
            if not (letter.id in held or letter.id in owed or self.written[letter.id])
        )


def finish(work: Coroutine[Any, Any, None]) -> None:
    """Run what waits for nothing to its end."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("It waits.")


class LedgerMachine(RuleBasedStateMachine):
    """Turns that claim, deliver and give back; people who acknowledge; a process that dies."""

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk()
        self.made: list[Claim[Letter]] = []
        # What clients have seen in the life of this process, by turns or by an acknowledgement.
        self.seen: Counter[str] = Counter()

    @rule(key=st.sampled_from(KEYS))
    def arrive(self, key: SessionKey) -> None:
        number = sum(map(len, self.desk.letters.values()))
        self.desk.letters[key].append(Letter(f"letter-{number}"))

    @rule(
        target=claims,
        key=st.sampled_from(KEYS),
        requester=st.sampled_from((UNKNOWN, SIDE_CALL, CONVERSATION)),
        most=st.integers(1, 3),
    )
    def reserve(self, key: SessionKey, requester: Requester, most: int) -> Claim[Letter]:
        items = self.desk.waiting(key, requester)[:most]
        claim = Claim(f"turn-{len(self.made)}", key, items, requester)
        for other in self.made:
            is_robbed = not set(items).isdisjoint(self.desk.ledger.list_held_by(other))
            assert not is_robbed or requester.outranks(other.requester)
        self.desk.ledger.reserve(claim)
        self.made.append(claim)
        assert self.desk.ledger.list_held_by(claim) == claim.items
        return claim

    @rule(claim=claims)
    def commit(self, claim: Claim[Letter]) -> None:
        held = self.desk.ledger.list_held_by(claim)
        finish(self.desk.ledger.commit(claim, 1))
        self.seen.update(item.id for item in held)
        assert self.desk.ledger.list_held_by(claim) == ()

    @rule(claim=claims)
    def release(self, claim: Claim[Letter]) -> None:
        held = self.desk.ledger.list_held_by(claim)
        self.desk.ledger.release(claim)
        assert set(held) <= set(self.desk.waiting(claim.key))

    @precondition(lambda self: not self.desk.fails)
    @rule(key=st.sampled_from(KEYS))
    def acknowledge(self, key: SessionKey) -> None:
        owed = self.desk.ledger.list_owed(key)
        found = [one.id for one in self.desk.letters[key] if not self.desk.written[one.id]]
        ids = tuple(one for one in found if one not in owed)[:1]
        self.desk.written.update(ids)
        self.desk.ledger.acknowledge(key, ids)
        self.seen.update(ids)

    @rule(fails=st.booleans())
    def fail(self, fails: bool) -> None:
        self.desk.fails = fails

    @precondition(lambda self: not self.desk.fails)
    @rule()
    def sweep(self) -> None:
        for key in self.desk.ledger.debtors():
            finish(self.desk.write_delivered(key))
        assert self.desk.ledger.debtors() == ()

    @rule()
    def die(self) -> None:
        """Begin again with what the store has: claims and debts are gone, no item is."""
        self.desk.ledger, self.made = Ledger(self.desk), []
        self.seen.clear()
        for key, letters in self.desk.letters.items():
            unwritten = tuple(one for one in letters if not self.desk.written[one.id])
            assert self.desk.waiting(key) == unwritten

    @invariant()
    def no_item_is_held_by_two_claims(self) -> None:
        ledger = self.desk.ledger
        holders = Counter(item.id for claim in self.made for item in ledger.list_held_by(claim))
        assert all(count == 1 for count in holders.values())

    @invariant()
    def an_item_is_delivered_once(self) -> None:
        assert all(count == 1 for count in self.seen.values())
        assert all(count <= 1 for count in self.desk.written.values())

    @invariant()
    def nothing_is_lost(self) -> None:
        ledger = self.desk.ledger
        held = {item.id for claim in self.made for item in ledger.list_held_by(claim)}
        for key, letters in self.desk.letters.items():
            waiting = {one.id for one in self.desk.waiting(key)}
            over = {one.id for one in letters if self.desk.written[one.id]} | set(
                ledger.list_owed(key)
            )
            for letter in letters:
                assert [letter.id in place for place in (held, waiting, over)].count(True) == 1
                assert letter.id in over or letter.id not in self.seen

    @invariant()
    def what_is_counted_is_what_was_logged(self) -> None:
        logged, counts = Counter(event for event, _ in self.desk.log), self.desk.counts
        assert (counts.reserved, counts.committed, counts.released) == (
            logged["reserved"],
            logged["committed"],
            logged["released"],
        )


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
