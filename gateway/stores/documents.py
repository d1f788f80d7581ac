"""The protocol of a store of documents, and how a document is changed.

StoreUnavailable                 503  state cannot be read or kept now; says why
 ├── Conflict                         somebody else changed the document first
 ├── Corrupt                          the document cannot be read as what it should be
 ├── Newer                            it was written by a newer Holdgate, and is left alone
 ├── TooLarge                         it would be larger than documents may be
 └── InUse                            another process owns the place

A document is a small JSON object of one kind that belongs to one session of one owner. A store
reads and writes it as bytes and knows nothing of its meaning; a `Shape` turns the bytes into a
value and back, and `update` applies a pure function to that value.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import msgspec

from gateway.errors import Unavailable
from gateway.stores.chores import Chores
from gateway.stores.delivery_rows import AnnouncementRows
from gateway.stores.entries import SessionEntries
from gateway.stores.hints import SessionHints
from gateway.stores.hints import SessionKey as SessionKey
from gateway.stores.instance import Instance
from gateway.stores.waiting import KeyLocks, Unsubscribe

T = TypeVar("T")
R = TypeVar("R")

OnQuarantine = Callable[[str, str], None]
"""Called with the name of a document or row that was set aside, and the reason."""

LOCAL_OWNER = "local"
LARGEST_DOCUMENT = 4 * 1024 * 1024
ENVELOPE = frozenset({"version", "owner", "sessionId", "updatedAtMs"})
# Another process may win a few times in a row; in this process, changes of a key are serialized.
ATTEMPTS = 32
LATEST = 2**63 - 1
# Documents that are swept together: they share one commit. More were not faster, but blocked the
# disk for others.
AT_ONCE = 16
# If more than this stay due, the store is down, and it is not just some bad documents.
MOST_LEFT = 2_000


class StoreUnavailable(Unavailable):
    """State cannot be read or kept now."""

    code = "store_unavailable"


class Conflict(StoreUnavailable):
    """Somebody else changed the document first."""


class Corrupt(StoreUnavailable):
    """The document cannot be read as what it should be."""


class Newer(StoreUnavailable):
    """The document was written by a newer Holdgate, and is left as it is."""


class TooLarge(StoreUnavailable):
    """The document would be larger than documents may be."""


class InUse(StoreUnavailable):
    """Another process owns the place where state is kept."""


class DocumentKey(NamedTuple):
    """The key of a document: its kind (`session`, `clock` …), owner and session."""

    kind: str
    owner: str
    session: str


@dataclass(slots=True, eq=False)
class Stored:
    """A document as it was read, and the revision that a write must name to replace it."""

    document: bytes
    revision: int
    # A cached document is decoded only once: its key, the shape, and the decoded value.
    memo: tuple[DocumentKey, object, object] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SealedDocument:
    """A document to write, with the times by which the store finds it."""

    document: bytes
    updated_ms: int
    due_ms: int | None = None
    replaced_holders: tuple[str, ...] = ()
    """Instances whose reservations it replaces: it is a conflict if one of them is not buried."""


class Listed(NamedTuple):
    """A session in a listing; the last of a page is where the next page begins."""

    updated_ms: int
    session: str


def never(_: object) -> None:
    """Return None: nothing is ever due."""


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """How values of one kind are written, and when something in them is due.

    `decode` gets the whole document with its `version`, so that it can read older ones too. It
    raises `Corrupt`, or a lookup, type or value error, if it cannot. Values are immutable.
    """

    kind: str
    version: int
    empty: T
    encode: Callable[[T], Mapping[str, object]]
    decode: Callable[[Mapping[str, Any]], T]
    due: Callable[[T], int | None] = never

    def is_empty(self, value: T) -> bool:
        """Return whether there is nothing to store; such a document is deleted."""
        return value == self.empty


class Documents(Protocol):
    """A store: one document for each key, replaced as a whole, durable when a call returns."""

    now_ms: Callable[[], int]
    key_locks: KeyLocks
    hints: SessionHints
    """What changed lately; whoever changes documents tells it, the store does not."""
    instance: Instance
    """This process among those that share the store."""
    entries: SessionEntries | None
    """What requests look at in one round trip; None where reading costs nothing."""
    chores: Chores
    """Which of what is done once in a while is to be done by this instance."""

    @property
    def announcements(self) -> AnnouncementRows | None:
        """Which sessions have reminders to be announced; None: each process watches its own."""

    async def read(self, key: DocumentKey) -> Stored | None:
        """Return the document, or None if there is none."""

    def absent(self, key: DocumentKey) -> bool:
        """Return without I/O whether there is surely no document; False means not known."""

    def recall(self, key: DocumentKey) -> Stored | None:
        """Return without I/O what the document was lately, where reading takes long; or None.

        Of revision 0: there was none. It may have changed since, so it only counts for a change
        that names its revision.
        """

    async def write(self, key: DocumentKey, draft: SealedDocument, revision: int) -> int:
        """Replace the document of this revision (0: there is none yet); return the new revision.

        Raise `Conflict` if the document has another revision. A revision is never used again for
        another content.
        """

    async def delete(self, key: DocumentKey, revision: int | None = None) -> None:
        """Delete the document of this revision, else raise `Conflict`; None: of any revision."""

    async def set_aside(self, key: DocumentKey, revision: int, reason: str) -> None:
        """Quarantine a corrupt document, if it still has this revision."""

    async def due(self, kind: str, before_ms: int, limit: int) -> list[DocumentKey]:
        """Return the keys whose documents have something due before a time, the earliest first."""

    async def listing(
        self, kind: str, owner: str, after: Listed | None, limit: int
    ) -> list[Listed]:
        """Return a page of an owner's sessions, the one written last first."""

    async def find_updated(self, kind: str, owner: str, sessions: Sequence[str]) -> dict[str, int]:
        """Return when the documents of these sessions were written; absent ones are left out."""

    async def list_owners(self, kind: str) -> list[str]:
        """Return the owners of all documents of a kind."""

    def watch(self, key: DocumentKey, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback after each committed change of this key."""

    async def check(self) -> None:
        """Raise `StoreUnavailable` if the store does not work."""

    async def aclose(self) -> None:
        """Finish pending writes, and release all resources."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What an index knows about a document."""

    key: DocumentKey
    updated_ms: int
    due_ms: int | None


async def fetch(store: Documents, key: DocumentKey, shape: Shape[T]) -> T:
    """Return the session's value; a corrupt document is set aside and counts as empty."""
    value, _ = await _fetch(store, key, shape)
    return value


async def update(
    store: Documents, key: DocumentKey, change: Callable[[T], T], shape: Shape[T]
) -> T:
    """Apply a pure function to the session's value, durably, and return the new value."""

    def both(value: T) -> tuple[T, T]:
        changed = change(value)
        return changed, changed

    return await amend(store, key, both, shape)


async def amend(
    store: Documents,
    key: DocumentKey,
    change: Callable[[T], tuple[T, R]],
    shape: Shape[T],
    replaced_holders: Sequence[str] = (),
) -> R:
    """Apply a pure function that returns a new value and an answer, durably; return the answer.

    After a conflict the function is called again. Nothing is written if the value stays equal or
    the function raises. Each call may set anew whose reservations it replaces.
    """
    await store.key_locks.acquire(key)
    try:
        recalled = store.recall(key)
        for _ in range(ATTEMPTS):
            value, revision = await _fetch(store, key, shape, recalled)
            try:
                changed, answer = change(value)
            except Exception:
                if recalled is None:
                    raise
                changed = value
            if changed is value or changed == value:
                if recalled is None:
                    return answer
                # No write has shown that nothing else was stored since.
                recalled = None
                continue
            recalled = None
            try:
                if shape.is_empty(changed):
                    await _drop(store, key, revision)
                else:
                    draft = seal(key, changed, shape, store.now_ms(), replaced_holders)
                    await store.write(key, draft, revision)
            except Conflict:
                continue
            return answer
    finally:
        store.key_locks.release(key)
    raise StoreUnavailable("Too many requests change this session's state at once; try again.")


async def _fetch(
    store: Documents, key: DocumentKey, shape: Shape[T], recalled: Stored | None = None
) -> tuple[T, int]:
    if key.kind != shape.kind:
        raise ValueError(
            f"A {key.kind} document does not have the shape of a {shape.kind} document."
        )
    if recalled is not None and not recalled.revision:
        return shape.empty, 0
    stored = recalled or await store.read(key)
    while stored is not None:
        try:
            return unseal(key, stored, shape), stored.revision
        except Corrupt as error:
            await store.set_aside(key, stored.revision, error.message)
        stored = await store.read(key)
    return shape.empty, 0


async def _drop(store: Documents, key: DocumentKey, revision: int) -> None:
    if revision:
        await store.delete(key, revision)


async def iterate_due(
    store: Documents, kind: str, before_ms: int
) -> AsyncGenerator[tuple[DocumentKey, ...]]:
    """Yield the keys of due documents in groups; those that stay due are left to the next sweep."""
    handed: tuple[DocumentKey, ...] = ()
    left: set[DocumentKey] = set()
    while len(left) < MOST_LEFT:
        listed = await store.due(kind, before_ms, AT_ONCE + len(left) + len(handed))
        left.update(set(handed).intersection(listed))
        handed = tuple(islice((key for key in listed if key not in left), AT_ONCE))
        if not handed:
            return
        yield handed


def seal(
    key: DocumentKey,
    value: T,
    shape: Shape[T],
    now_ms: int,
    replaced_holders: Sequence[str] = (),
) -> SealedDocument:
    """Encode a value as the document of a session."""
    own = shape.encode(value)
    if not ENVELOPE.isdisjoint(own):
        raise ValueError(f"A {shape.kind} document uses field names of its envelope.")
    document = msgspec.json.encode(
        {
            "version": shape.version,
            "owner": key.owner,
            "sessionId": key.session,
            **own,
            "updatedAtMs": now_ms,
        }
    )
    if len(document) > LARGEST_DOCUMENT:
        raise TooLarge(
            f"The session's state would take {len(document)} bytes; "
            f"at most {LARGEST_DOCUMENT} are allowed."
        )
    return SealedDocument(document, now_ms, _due(value, shape), tuple(replaced_holders))


def unseal(key: DocumentKey, stored: Stored, shape: Shape[T]) -> T:
    """Decode a session's value from its document, or raise `Corrupt` or `Newer`."""
    memo = stored.memo
    if memo is not None and memo[1] is shape and memo[0] == key:
        return cast(T, memo[2])
    fields = _parse_fields(stored.document)
    if _key(shape.kind, fields) != key:
        raise Corrupt("It belongs to another owner or session.")
    value = _decode_value(fields, shape)
    stored.memo = (key, shape, value)
    return value


def sight(stored: Stored, shape: Shape[T]) -> Sighting:
    """Decode a document for an index: its key, and when it was written and is due."""
    fields = _parse_fields(stored.document)
    key = _key(shape.kind, fields)
    value = _decode_value(fields, shape)
    stored.memo = (key, shape, value)
    return Sighting(key, fields.get("updatedAtMs", 0), _due(value, shape))


_decode = msgspec.json.Decoder(dict[str, Any]).decode
UNREADABLE = (
    msgspec.MsgspecError,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
)


def _parse_fields(document: bytes) -> dict[str, Any]:
    try:
        return _decode(document)
    except RecursionError as error:
        raise Corrupt("It is nested too deeply.") from error
    except UNREADABLE as error:
        raise Corrupt("It is not a JSON object.") from error


def _key(kind: str, fields: Mapping[str, Any]) -> DocumentKey:
    owner, session = fields.get("owner", LOCAL_OWNER), fields.get("sessionId")
    if not isinstance(owner, str) or not isinstance(session, str):
        raise Corrupt("It does not name its owner and session.")
    return DocumentKey(kind, owner, session)


def _number(fields: Mapping[str, Any], name: str, default: int | None = None) -> int:
    number = fields.get(name, default)
    if type(number) is not int or not 0 <= number <= LATEST:
        raise Corrupt(f"Its {name} is not a valid number.")
    return number


def _decode_value(fields: Mapping[str, Any], shape: Shape[T]) -> T:
    version = _number(fields, "version")
    if version > shape.version:
        raise Newer(
            f"The session's state was written by a newer Holdgate (version {version}, "
            f"known up to {shape.version}); it is left as it is."
        )
    _number(fields, "updatedAtMs", 0)
    try:
        return shape.decode(fields)
    except UNREADABLE as error:
        raise Corrupt(f"It is not a valid {shape.kind} document.") from error


def _due(value: T, shape: Shape[T]) -> int | None:
    due = shape.due(value)
    # Clamped to the integers of a database.
    return None if due is None else max(-LATEST, min(due, LATEST))
