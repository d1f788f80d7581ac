"""Which documents are due, and which were written last: kept in memory, in order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict

from gateway.stores.base import Key, Listed, Sighting


class Ranking:
    """Keys in the order of a number."""

    __slots__ = ("_order", "_ranks")

    def __init__(self) -> None:
        self._ranks: dict[Key, int] = {}
        self._order: list[tuple[int, Key]] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._ranks

    def place(self, key: Key, rank: int | None) -> None:
        """Give a key its number, or with None take it out."""
        before = self._ranks.get(key)
        if before == rank:
            return
        if before is not None:
            del self._ranks[key]
            del self._order[bisect_left(self._order, (before, key))]
        if rank is not None:
            self._ranks[key] = rank
            insort(self._order, (rank, key))

    def lowest(self, below: int, limit: int) -> list[Key]:
        """Return the keys whose number is below one, the lowest first."""
        end = bisect_left(self._order, (below,))
        return [key for _, key in self._order[: min(end, limit)]]

    def highest(self, before: tuple[int, Key] | None, limit: int) -> list[tuple[int, Key]]:
        """Return what comes before a place in the order, or its end, the highest first."""
        end = len(self._order) if before is None else bisect_left(self._order, before)
        return self._order[max(0, end - limit) : end][::-1]


class Index:
    """What is due and what is new, of all documents of a store."""

    def __init__(self) -> None:
        self._due: defaultdict[str, Ranking] = defaultdict(Ranking)
        self._newest: defaultdict[tuple[str, str], Ranking] = defaultdict(Ranking)

    def __contains__(self, key: Key) -> bool:
        newest = self._newest.get(key[:2])
        return newest is not None and key in newest

    def put(self, sighting: Sighting) -> None:
        """Note what a document says now."""
        key = sighting.key
        self._due[key.kind].place(key, sighting.due_ms)
        self._newest[key[:2]].place(key, sighting.updated_ms)

    def drop(self, key: Key) -> None:
        """Forget a document."""
        self._due[key.kind].place(key, None)
        self._newest[key[:2]].place(key, None)

    def due(self, kind: str, before_ms: int, limit: int) -> list[Key]:
        """Return the keys that have something due before a time, the earliest first."""
        return self._due[kind].lowest(before_ms, limit)

    def listing(self, kind: str, owner: str, after: Listed | None, limit: int) -> list[Listed]:
        """Return a page of an owner's sessions, the one written last first."""
        before = None if after is None else (after.updated_ms, Key(kind, owner, after.session))
        found = self._newest[kind, owner].highest(before, limit)
        return [Listed(updated_ms, key.session) for updated_ms, key in found]
