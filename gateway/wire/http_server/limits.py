"""What a client's connection may cost, and how many there may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

# So many that were refused may stay for a moment to read why; any more are just closed.
MOST_LEAVING = 100

Release = Callable[[], None]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds of one connection, and of their number; times in seconds; 0 is no limit.

    The idle and slow-reader times are never 0.
    """

    header_bytes: int = 64 * 1024
    receive_idle: float = 30.0
    receive_total: float = 300.0
    slow_reader: float = 30.0
    connections: int = 0
    connections_per_address: int = 0


class ConnectionCounts:
    """How many connections are open, altogether and from each address."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._most = limits.connections
        self._most_per_address = limits.connections_per_address
        self._by_address: Counter[str] = Counter()
        self._leaving = 0
        self.open = 0
        self.refused = 0

    def admit(self, address: str) -> Release | None:
        """Count a new connection and return how to uncount it; None when there are too many."""
        from_there = self._by_address[address]
        if 0 < self._most <= self.open or 0 < self._most_per_address <= from_there:
            self.refused += 1
            return None
        self.open += 1
        self._by_address[address] = from_there + 1
        return partial(self._release, address)

    def let_linger(self) -> Release | None:
        """Let one that was refused stay to read why; None when too many do."""
        if self._leaving >= MOST_LEAVING:
            return None
        self._leaving += 1
        return self._release_lingering

    def _release(self, address: str) -> None:
        self.open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def _release_lingering(self) -> None:
        self._leaving -= 1
