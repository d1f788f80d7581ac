"""The instances that share a store, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.stores.documents import StoreUnavailable
from gateway.stores.shared_rows import InstanceRow, SharedRows


class InstanceView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An instance that shares the store."""

    id: Annotated[str, Meta(description="As in `x-holdgate-instance` and in its log lines.")]
    process: Annotated[str, Meta(description="What the ids of its exchanges have.")]
    host: str
    version: str
    living: Annotated[bool, Meta(description="Whether it was seen within `store.lease_ms`.")]
    here: Annotated[bool, Meta(description="Whether it is the one that answers.")]


@dataclass(frozen=True, slots=True)
class InstanceLister:
    """Lists the instances that share the store; nobody where it is not shared."""

    rows: SharedRows | None
    process: str

    async def list_all(self) -> list[InstanceView]:
        """Return all instances; none while the store is away."""
        try:
            found = [] if self.rows is None else await self.rows.instances.list_all()
        except StoreUnavailable:
            return []
        return [self._show(one) for one in found]

    def _show(self, one: InstanceRow) -> InstanceView:
        is_here = one.process == self.process
        return InstanceView(one.name, one.process, one.host, one.build, one.is_living, is_here)
