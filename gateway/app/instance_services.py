"""What an instance does for those that share its store, and with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from gateway.console.errands import Errands
from gateway.stores.shared_rows import SharedRows
from gateway.stores.tidying import tidy_often
from gateway.usage.shared_limits import SharedLimits


@dataclass(frozen=True, slots=True)
class InstanceServices:
    """What runs only where several instances share a store."""

    rows: SharedRows
    limits: SharedLimits
    errands: Errands
    note: Callable[..., None]

    async def run(self) -> None:
        """Run all of it, forever."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tidy_often, self.rows, self.note)
            tasks.start_soon(self.limits.run)
            tasks.start_soon(self.errands.run)
