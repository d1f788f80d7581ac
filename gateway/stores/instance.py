"""This process among those that share a store.

Each process is an instance with a random id. What it holds may be taken by another one exactly when
it is buried; so it has to know how long it may trust that it is not. An embedded store belongs to
one process, which is alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

NAME_LENGTH = 8
"""Of the id of an instance as much as people need to tell some from others."""


class Instance(Protocol):
    """This process among those that share a store."""

    @property
    def id(self) -> str:
        """A random id; a new one after it was buried."""

    @property
    def is_alone(self) -> bool:
        """Whether no other process can use the store."""

    @property
    def is_trusted(self) -> bool:
        """Whether it is certain that nobody else takes what this instance holds."""

    @property
    def notable_skew_ms(self) -> int:
        """How far the host's clock is ahead of the store's, if more than a second; else 0."""

    def now_ms(self) -> int:
        """Return the time by which all instances judge what is due."""

    def may_be_buried(self, holder: str) -> bool:
        """Return whether what this instance holds may perhaps be taken; the store decides it."""

    def note_living(self, holder: str) -> None:
        """Note that an instance is not buried."""

    def on_distrust(self, callback: Callable[[], None]) -> None:
        """Call this when the instance can trust itself no more: what it runs has to end."""


class LoneInstance:
    """The one process of an embedded store: it is always trusted."""

    id = ""
    is_alone = True
    notable_skew_ms = 0
    is_trusted = True

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms

    def __repr__(self) -> str:
        return "<LoneInstance>"

    def may_be_buried(self, holder: str) -> bool:
        """Return True: whoever held something is gone, since this process came after it."""
        return True

    def note_living(self, holder: str) -> None:
        """Do nothing: there is no other."""

    def on_distrust(self, callback: Callable[[], None]) -> None:
        """Do nothing: it is always trusted."""
