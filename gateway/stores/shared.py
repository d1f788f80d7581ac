"""What is set about a store that many instances share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

POSTGRES = ("postgresql://", "postgres://")
"""How the URL of a shared store begins."""
RELAY: Literal["relay"] = "relay"
REFUSE: Literal["refuse"] = "refuse"


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """Where a shared store is, and how long it is waited for."""

    url: str
    listen_url: str = ""
    """A direct address, when `url` leads to a pooler that lends connections by transaction."""
    schema: str = "holdgate"
    lease_ms: int = 15_000
    entry_ms: int = 250
    """How long a request waits at most for the state of its session."""
    poll_ms: int = 15_000
    connections: int = 6
    outage: Literal["relay", "refuse"] = RELAY


def is_shared(url: str) -> bool:
    """Return whether the store of this URL is one that many instances share."""
    return url.startswith(POSTGRES)
