"""Going through all that is due, some at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import islice

from gateway.stores.documents import DocumentKey, Documents

# Documents that are tidied up at once: they share what makes them durable, and more were not
# faster, but kept the disk from everybody else.
AT_ONCE = 16
# So many that stay due are not some bad documents, but a store that is down.
MOST_LEFT = 2_000


async def overdue(
    store: Documents, kind: str, before_ms: int
) -> AsyncGenerator[tuple[DocumentKey, ...]]:
    """Yield the keys of what is due; what still is after its turn is left to the next sweep."""
    handed: tuple[DocumentKey, ...] = ()
    left: set[DocumentKey] = set()
    while len(left) < MOST_LEFT:
        listed = await store.due(kind, before_ms, AT_ONCE + len(left) + len(handed))
        left.update(set(handed).intersection(listed))
        handed = tuple(islice((key for key in listed if key not in left), AT_ONCE))
        if not handed:
            return
        yield handed
