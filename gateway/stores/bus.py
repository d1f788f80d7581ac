"""How instances that share a store tell each other what changed.

What is told are hints: they may be lost, late or doubled, and nobody believes more of them than
that it is worth a look. A hint is a letter and a digest of the session (gateway/stores/hints.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Heard = Callable[[str, str], None]
Lost = Callable[[], None]


class Bus(Protocol):
    """Carries hints to the other instances, and theirs to this one."""

    @property
    def is_shared(self) -> bool:
        """Whether there may be other instances at all."""

    @property
    def is_deaf(self) -> bool:
        """Whether what other instances tell does not arrive now."""

    def tell(self, letter: str, digest: str) -> None:
        """Tell the other instances soon; it neither waits nor raises."""

    def on_heard(self, callback: Heard) -> None:
        """Call this with the letter and digest of each hint of another instance."""

    def on_lost(self, callback: Lost) -> None:
        """Call this when hints may have been missed."""


class LocalBus:
    """The bus of a store that only this process uses: there is nobody to tell."""

    is_shared = False
    is_deaf = False

    def __repr__(self) -> str:
        return "<LocalBus>"

    def tell(self, letter: str, digest: str) -> None:
        """Do nothing."""

    def on_heard(self, callback: Heard) -> None:
        """Do nothing: nobody else tells anything."""

    def on_lost(self, callback: Lost) -> None:
        """Do nothing."""
