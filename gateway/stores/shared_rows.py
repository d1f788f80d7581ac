"""What operators get where several instances share a store: protocols and values.

Instances know each other by random ids, which change when one was buried. Exchanges are named after
the process, whose name stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from gateway.stores.chores import Chores
from gateway.stores.instance import NAME_LENGTH

Action = Literal["end_hold", "cut"]
Outcome = Literal["done", "not_found", "not_holding", "has_ended"]


class InstanceRow(msgspec.Struct, frozen=True):
    """An instance that was not buried."""

    id: str
    process: str
    """What the ids of its exchanges carry."""
    host: str
    build: str
    is_living: bool
    """Whether its lease has not ended."""

    @property
    def name(self) -> str:
        """What it is called in answers and log lines."""
        return self.id[:NAME_LENGTH]


class OwnerCounts(NamedTuple):
    """What an instance counted of an owner since it began; and how many answers run now."""

    requests: int = 0
    tokens: int = 0
    running: int = 0


CountsTable = Mapping[tuple[str, str], OwnerCounts]
"""Counts by instance and owner."""


class SecretRows(Protocol):
    """Secrets that all instances need."""

    async def keep(self, name: str, drawn: bytes) -> bytes:
        """Keep a secret if there is none yet; return the one that is kept."""


class InstanceRows(Protocol):
    """The instances that share the store."""

    async def list_all(self) -> list[InstanceRow]:
        """Return those that are not buried."""


class LimitCountRows(Protocol):
    """What each instance has counted for limits."""

    async def exchange(self, holder: str, counts: Mapping[str, OwnerCounts]) -> CountsTable:
        """Store what this instance counted; return what the others did."""


class Errand(msgspec.Struct, frozen=True):
    """What an instance is asked to do with one of its exchanges."""

    id: str
    process: str
    """Whose exchange it is."""
    exchange_id: str
    action: Action
    scope: str | None = None
    """Whose exchanges the one who asks may see; None: those of all."""


class ErrandRows(Protocol):
    """Errands that wait for an instance, and their outcomes."""

    async def add(self, errand: Errand) -> bool:
        """Ask for it; return False, and ask nobody, if there is no such instance."""

    async def take(self, process: str) -> Sequence[Errand]:
        """Return those that wait for a process; nobody gets them again."""

    async def settle(self, errand_id: str, outcome: Outcome) -> None:
        """Say how an errand went."""

    async def find_outcome(self, errand_id: str) -> Outcome | None:
        """Return how an errand went, and forget it; None: not known yet."""

    async def withdraw(self, errand_id: str) -> None:
        """Forget an errand that took too long."""


class SharedRows(Protocol):
    """What is there only where several instances share a store."""

    chores: Chores
    secrets: SecretRows
    instances: InstanceRows
    limit_counts: LimitCountRows
    errands: ErrandRows

    async def tidy(self) -> int:
        """Delete some of what is too old to matter; return how many rows."""
