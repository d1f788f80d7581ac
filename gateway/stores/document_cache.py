"""Documents in memory: a cache of their contents, and an index of which are due or newest."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from operator import itemgetter
from typing import Generic, TypeVar

from gateway.stores.disk import Signature
from gateway.stores.documents import DocumentKey, Listed, SessionKey, Sighting, Stored

T = TypeVar("T", str, SessionKey)

LARGEST_CHUNK = 1000
BUDGET_BYTES = 64 * 1024 * 1024
# The memory of an entry beside its document: key, names, signature, dictionary.
ENTRY_BYTES = 600


@dataclass(frozen=True, slots=True)
class CachedDocument:
    """A document, and the signature of the file it was read from or written to."""

    signature: Signature
    stored: Stored


class DocumentCache:
    """An LRU cache of documents, limited by bytes."""

    def __init__(self, budget: int = BUDGET_BYTES) -> None:
        self._budget = budget
        self._taken = 0
        self._entries: OrderedDict[DocumentKey, CachedDocument] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: DocumentKey) -> CachedDocument | None:
        """Return an entry, and mark it as used."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: DocumentKey, entry: CachedDocument) -> None:
        """Add an entry; drop the least recently used ones if there are too many bytes."""
        self.drop(key)
        self._entries[key] = entry
        self._taken += _size(entry)
        while self._taken > self._budget:
            _, forgotten = self._entries.popitem(last=False)
            self._taken -= _size(forgotten)

    def drop(self, key: DocumentKey) -> None:
        """Forget an entry."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._taken -= _size(entry)


def _size(entry: CachedDocument) -> int:
    return len(entry.stored.document) + ENTRY_BYTES


class Ranking(Generic[T]):
    """Things sorted by a number, in chunks, so that an insert stays cheap among many."""

    __slots__ = ("_chunks", "_ranks")

    def __init__(self) -> None:
        self._ranks: dict[T, int] = {}
        # Each chunk is sorted and not empty, and comes before the next one as a whole.
        self._chunks: list[list[tuple[int, T]]] = []

    def __contains__(self, thing: T) -> bool:
        return thing in self._ranks

    def __len__(self) -> int:
        return len(self._ranks)

    def find(self, things: Iterable[T]) -> dict[T, int]:
        """Return the numbers of these things; those that have none are left out."""
        ranks = self._ranks
        return {thing: ranks[thing] for thing in things if thing in ranks}

    def place(self, thing: T, rank: int | None) -> None:
        """Set the number of a thing; None removes it."""
        before = self._ranks.get(thing)
        if before == rank:
            return
        if before is not None:
            del self._ranks[thing]
            self._take_out((before, thing))
        if rank is not None:
            self._ranks[thing] = rank
            self._put_in((rank, thing))

    def lowest(self, below: int, limit: int) -> list[T]:
        """Return the things whose number is below a limit, the lowest first."""
        low = takewhile(lambda place: place[0] < below, chain.from_iterable(self._chunks))
        return [thing for _, thing in islice(low, limit)]

    def highest(self, before: tuple[int, T] | None, limit: int) -> list[tuple[int, T]]:
        """Return things with numbers, the highest first; only those before a place if given."""
        return list(islice(self._descending(before), limit))

    def _descending(self, before: tuple[int, T] | None) -> Iterator[tuple[int, T]]:
        end = len(self._chunks) if before is None else self._chunk_of(before) + 1
        for chunk in reversed(self._chunks[:end]):
            for place in reversed(chunk):
                if before is None or place < before:
                    yield place

    def _chunk_of(self, place: tuple[int, T]) -> int:
        return max(0, bisect_right(self._chunks, place, key=itemgetter(0)) - 1)

    def _put_in(self, place: tuple[int, T]) -> None:
        if not self._chunks:
            self._chunks.append([place])
            return
        index = self._chunk_of(place)
        chunk = self._chunks[index]
        insort(chunk, place)
        if len(chunk) > LARGEST_CHUNK:
            half = len(chunk) // 2
            self._chunks[index : index + 1] = [chunk[:half], chunk[half:]]

    def _take_out(self, place: tuple[int, T]) -> None:
        index = self._chunk_of(place)
        chunk = self._chunks[index]
        del chunk[bisect_left(chunk, place)]
        if not chunk:
            del self._chunks[index]


class DocumentIndex:
    """Which documents of a store are due, and which were written last.

    It uses plain tuples of strings and numbers, which the garbage collector does not track: with
    100,000 documents its pauses would matter otherwise.
    """

    def __init__(self) -> None:
        self._due: defaultdict[str, Ranking[SessionKey]] = defaultdict(Ranking)
        self._newest: defaultdict[tuple[str, str], Ranking[str]] = defaultdict(Ranking)

    def __contains__(self, key: DocumentKey) -> bool:
        newest = self._newest.get((key.kind, key.owner))
        return newest is not None and key.session in newest

    def put(self, sighting: Sighting) -> None:
        """Add or update a document."""
        kind, owner, session = sighting.key
        self._due[kind].place((owner, session), sighting.due_ms)
        self._newest[kind, owner].place(session, sighting.updated_ms)

    def drop(self, key: DocumentKey) -> None:
        """Remove a document."""
        kind, owner, session = key
        self._due[kind].place((owner, session), None)
        self._newest[kind, owner].place(session, None)

    def due(self, kind: str, before_ms: int, limit: int) -> list[DocumentKey]:
        """Return the keys that have something due before a time, the earliest first."""
        return [DocumentKey(kind, *whose) for whose in self._due[kind].lowest(before_ms, limit)]

    def listing(self, kind: str, owner: str, after: Listed | None, limit: int) -> list[Listed]:
        """Return a page of an owner's sessions, the one written last first."""
        found = self._newest[kind, owner].highest(after, limit)
        return [Listed(*place) for place in found]

    def find_updated(self, kind: str, owner: str, sessions: Iterable[str]) -> dict[str, int]:
        """Return when the documents of these sessions were written."""
        return self._newest[kind, owner].find(sessions)

    def list_owners(self, kind: str) -> list[str]:
        """Return the owners of all documents of a kind."""
        return [owner for (of, owner), found in self._newest.items() if of == kind and len(found)]
