"""Chores: what is to be done once in a while, by one of the instances that share a store.

Nobody is chosen to do them. Whoever finds a chore due takes it, and moves it on to its next time.
"""

from __future__ import annotations

from typing import Protocol


class Chores(Protocol):
    """Knows which chores are due."""

    async def take(self, name: str, every_ms: int) -> bool:
        """Return whether a chore is to be done now, by this instance and no other."""


class LoneChores:
    """The chores of an embedded store: nobody else does them."""

    def __repr__(self) -> str:
        return "<LoneChores>"

    async def take(self, name: str, every_ms: int) -> bool:
        """Return True."""
        return True
