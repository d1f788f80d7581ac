"""Documents in memory that were used last, within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gateway.stores.disk import Signature
from gateway.stores.documents import DocumentKey, Stored

BUDGET_BYTES = 64 * 1024 * 1024
# What an entry takes beside its document: key, names, signature, dictionary.
ENTRY_BYTES = 600


@dataclass(frozen=True, slots=True)
class CachedDocument:
    """A document, and the signature of the file it was read from or written to."""

    signature: Signature
    stored: Stored


class Cache:
    """Forgets what was not used for longest when there is too much."""

    def __init__(self, budget: int = BUDGET_BYTES) -> None:
        self._budget = budget
        self._taken = 0
        self._entries: OrderedDict[DocumentKey, CachedDocument] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: DocumentKey) -> CachedDocument | None:
        """Return an entry, and remember that it was used."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: DocumentKey, entry: CachedDocument) -> None:
        """Keep an entry, at the cost of those not used for longest."""
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
