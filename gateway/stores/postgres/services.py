"""What rows on PostgreSQL share: the database, this instance, and what time it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.stores.documents import OnQuarantine
from gateway.stores.postgres.database import Database
from gateway.stores.postgres.instances import SharedInstance

Note = Callable[..., None]


@dataclass(frozen=True, slots=True)
class SharedServices:
    """What all rows on PostgreSQL use."""

    database: Database
    instance: SharedInstance
    now_ms: Callable[[], int]
    """The gateway's time, for what is shown."""
    on_quarantine: OnQuarantine
    note: Note
