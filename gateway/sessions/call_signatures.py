"""Signatures of tool calls, which an upstream wants back and clients do not carry.

They are kept for a session in a document of its own, which only requests to such an upstream read
and write. Without a session each turn has a document, found by the id of its first call. Both are
bounded, and forget after a day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from gateway.dialects.protocol import Dialect
from gateway.exchange.model import ModelRequest
from gateway.sessions.request_kind import LONGEST_CALL, last_calls
from gateway.sessions.session_request import CALL
from gateway.stores.documents import (
    DocumentKey,
    Documents,
    Shape,
    StoreUnavailable,
    fetch,
    iterate_due,
    update,
)

KIND = "signature"
KEPT_MS = 24 * 60 * 60 * 1000
MOST_KEPT = 256
MOST_KEPT_BYTES = 512 * 1024
Note = Callable[..., None]


class SignedCall(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A call's signature; empty if its id was used again, so that nobody knows whose it is."""

    call: str
    signature: str
    at_ms: int

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.call) + len(self.signature)


SignedCalls = tuple[SignedCall, ...]
"""The oldest first."""


def add_signatures(calls: SignedCalls, found: Mapping[str, str], now_ms: int) -> SignedCalls:
    """Add signatures; if there is no room, the oldest are dropped."""
    after = {item.call: item for item in living(calls, now_ms)}
    for call, signature in found.items():
        known = after.pop(call, None)
        if known is not None and known.signature != signature:
            signature = ""
        item = SignedCall(call, signature, now_ms)
        # For one that is larger than all may be, all others would be dropped.
        if item.size <= MOST_KEPT_BYTES:
            after[call] = item
    room = MOST_KEPT_BYTES
    left: list[SignedCall] = []
    for item in reversed(after.values()):
        room -= item.size
        if room < 0 or len(left) == MOST_KEPT:
            break
        left.append(item)
    return tuple(reversed(left))


def living(calls: SignedCalls, now_ms: int) -> SignedCalls:
    """Return what is not too old."""
    return tuple(call for call in calls if now_ms - call.at_ms < KEPT_MS)


def _encode(calls: SignedCalls) -> Mapping[str, object]:
    return {"calls": msgspec.to_builtins(calls)}


def _decode(document: Mapping[str, Any]) -> SignedCalls:
    return msgspec.convert(document["calls"], SignedCalls)


def _find_expiry(calls: SignedCalls) -> int | None:
    return calls[-1].at_ms + KEPT_MS if calls else None


SHAPE: Shape[SignedCalls] = Shape(KIND, 1, (), _encode, _decode, _find_expiry)


class CallSignatures:
    """Remembers what upstreams signed calls with."""

    def __init__(self, store: Documents, note: Note) -> None:
        self._store = store
        self._note = note

    async def remember(
        self, owner: str, session: str | None, found: Mapping[str, str], shown: Iterable[str]
    ) -> None:
        """Keep the signatures of a turn; `shown` are the ids of the calls that the client sees.

        Without a session, a turn of which the client sees nothing never comes back.
        """
        names = [session] if session is not None else _name_turn(found, tuple(shown))
        now_ms = self._store.now_ms()
        for name in names:
            key = DocumentKey(KIND, owner, name)
            try:
                await update(
                    self._store, key, lambda calls: add_signatures(calls, found, now_ms), SHAPE
                )
            except StoreUnavailable as error:
                who = {"owner": owner, "session": session}
                self._note("signatures_not_stored", **who, why=error.message)

    async def recall(
        self, owner: str, session: str | None, dialect: Dialect, asked: ModelRequest
    ) -> dict[str, str]:
        """Return the signatures that a request may have to carry, by the ids of the calls."""
        calls = () if session is not None else last_calls(dialect, asked)
        names = [CALL + call for call in calls] if session is None else [session]
        entries = self._store.entries
        if entries is not None and not await entries.look_also([(owner, one) for one in names]):
            return {}
        found: dict[str, str] = {}
        for name in names:
            found |= await self._read(DocumentKey(KIND, owner, name))
        return found

    async def knows(self, owner: str, session: str) -> bool:
        """Return whether anything is kept for a session."""
        return bool(await self._read(DocumentKey(KIND, owner, session)))

    async def forget(self, owner: str, session: str) -> None:
        """Delete what is kept for a session."""
        key = DocumentKey(KIND, owner, session)
        if not self._store.absent(key):
            await self._store.delete(key)

    async def sweep(self) -> None:
        """Delete what is too old."""
        now_ms = self._store.now_ms()
        async with aclosing(iterate_due(self._store, KIND, now_ms)) as found:
            async for keys in found:
                for key in keys:
                    await self._tidy(key, now_ms)

    async def _tidy(self, key: DocumentKey, now_ms: int) -> None:
        try:
            await update(self._store, key, lambda calls: living(calls, now_ms), SHAPE)
        except StoreUnavailable as error:
            # One bad document must not stop the sweep of the others.
            who = {"owner": key.owner, "session": key.session}
            self._note("signatures_not_swept", **who, why=error.message)

    async def _read(self, key: DocumentKey) -> dict[str, str]:
        if self._store.absent(key):
            return {}
        try:
            calls = await fetch(self._store, key, SHAPE)
        except StoreUnavailable as error:
            who = {"owner": key.owner, "session": key.session}
            self._note("signatures_not_read", **who, why=error.message)
            return {}
        return {call.call: call.signature for call in living(calls, self._store.now_ms())}


def _name_turn(found: Mapping[str, str], shown: tuple[str, ...]) -> list[str]:
    """Return where a turn is looked for: by its first call, and by the first that is shown.

    The two differ where a server tool was called before the client's.
    """
    if not shown:
        return []
    calls = dict.fromkeys((next(iter(found)), shown[0]))
    return [CALL + call for call in calls if len(call) <= LONGEST_CALL]
