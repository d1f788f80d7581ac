"""How long signatures of calls are remembered, how many, and what happens without a store."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects import DIALECTS
from gateway.sessions.call_signatures import (
    KEPT_MS,
    KIND,
    MOST_KEPT,
    MOST_KEPT_BYTES,
    CallSignatures,
    SignedCall,
    add_signatures,
)
from gateway.stores import Memory
from gateway.stores.documents import DocumentKey, StoreUnavailable
from tests.dialects.answers_wire import CHAT
from tests.sessions.talk import talk

DIALECT = DIALECTS[CHAT]
ASKED = DIALECT.read(talk("hi"), 9)


class Settable(Memory):
    """A store whose clock and health the test sets."""

    def __init__(self) -> None:
        super().__init__(lambda: self.at_ms, lambda *_: None)
        self.at_ms = 0
        self.is_down = False

    async def read(self, key: DocumentKey) -> Any:
        if self.is_down:
            raise StoreUnavailable("down")
        return await super().read(key)

    def absent(self, key: DocumentKey) -> bool:
        return not self.is_down and super().absent(key)


def remember(store: Memory) -> tuple[CallSignatures, list[str]]:
    notes: list[str] = []
    return CallSignatures(store, lambda event, **_: notes.append(event)), notes


async def recall(kept: CallSignatures, owner: str = "ann", session: str = "s") -> dict[str, str]:
    return await kept.recall(owner, session, DIALECT, ASKED)


async def test_they_are_known_for_a_day_to_their_owner_and_session() -> None:
    store = Settable()
    kept, notes = remember(store)
    await kept.remember("ann", "s", {"a": "sig-a"}, ())
    store.at_ms = 1000
    await kept.remember("ann", "s", {"b": "sig-b"}, ())
    assert await recall(kept) == {"a": "sig-a", "b": "sig-b"}
    assert await recall(kept, "bob") == await recall(kept, session="t") == {}
    store.at_ms = KEPT_MS
    await kept.sweep()
    assert await recall(kept) == {"b": "sig-b"}
    assert await kept.knows("ann", "s")
    store.at_ms = KEPT_MS + 1001
    await kept.sweep()
    assert await store.read(DocumentKey(KIND, "ann", "s")) is None
    assert not await kept.knows("ann", "s")
    assert notes == []


def test_the_newest_are_kept() -> None:
    calls: tuple[SignedCall, ...] = ()
    for number in range(MOST_KEPT + 3):
        calls = add_signatures(calls, {f"call-{number}": "sig"}, number)
    assert [call.call for call in calls] == [f"call-{n}" for n in range(3, MOST_KEPT + 3)]
    large = add_signatures(calls, {"large": "x" * (MOST_KEPT_BYTES - 100)}, 999)
    assert large[-1].call == "large"
    assert sum(call.size for call in large) <= MOST_KEPT_BYTES
    assert len(large) > 1


def test_what_is_larger_than_all_that_is_kept_is_not_kept() -> None:
    calls = add_signatures((), {"a": "sig-a"}, 0)
    assert add_signatures(calls, {"b": "x" * MOST_KEPT_BYTES}, 1) == calls


def test_an_id_that_is_used_again_proves_nothing() -> None:
    calls = add_signatures((), {"a": "sig-a"}, 0)
    assert add_signatures(calls, {"a": "sig-a"}, 1) == (SignedCall("a", "sig-a", 1),)
    assert add_signatures(calls, {"a": "sig-2"}, 1) == (SignedCall("a", "", 1),)


@pytest.mark.parametrize("session", ["s", None])
async def test_without_a_store_they_are_not_known_and_that_is_noted(session: str | None) -> None:
    store = Settable()
    kept, notes = remember(store)
    await kept.remember("ann", session, {"a": "sig-a"}, ("a",))
    store.is_down = True
    await kept.remember("ann", session, {"b": "sig-b"}, ("b",))
    assert await recall(kept) == {}
    assert notes == ["signatures_not_stored", "signatures_not_read"]


async def test_a_bad_document_does_not_stop_the_sweep() -> None:
    store = Settable()
    kept, notes = remember(store)
    for session in ("s", "t"):
        await kept.remember("ann", session, {"a": "sig-a"}, ())
    store.at_ms, store.is_down = KEPT_MS + 1, True
    await kept.sweep()
    assert notes == ["signatures_not_swept"] * 2


async def test_a_turn_that_nobody_sees_is_not_kept_without_a_session() -> None:
    store = Settable()
    kept, _ = remember(store)
    await kept.remember("ann", None, {"a": "sig-a"}, ())
    await kept.remember("ann", None, {"x" * 2**20: "sig-a"}, ("x" * 2**20,))
    assert await store.listing(KIND, "ann", None, 9) == []
