"""The protocols of a store of rows: jobs, runs, conversations, locks, deliveries, events, usage.

Each call is one transaction, durable when it returns. Calls like `change` get a pure function that
runs inside the transaction, in a thread of the store; it may be run again, and must not wait. If it
raises, the transaction is undone, and the caller gets the error. Leases use the host's time, which
is not corrected and does not jump with the gateway's clock.
"""

from __future__ import annotations

from typing import Protocol

from gateway.stores.conversation_rows import ConversationRows, LockRows, SharedLockRows, TalkRows
from gateway.stores.delivery_rows import DeliveryRows, EventLogRows, PostRows
from gateway.stores.job_rows import JobRows
from gateway.stores.shared_rows import SharedRows
from gateway.usage.model import UsageBatch, UsageQuery, UsageTable


class UsageRows(Protocol):
    """What owners used, by hour, model and upstream."""

    async def add(self, batch: UsageBatch) -> bool:
        """Add the counts of a batch to the stored ones; return False if that was done before."""

    async def last_batch(self, writer: str) -> int:
        """Return the number of the last batch of a writer; 0 if there is none."""

    async def sum_up(self, query: UsageQuery) -> UsageTable:
        """Return the stored counts that are asked for, added up by groups."""

    async def prune(self, before_ms: int) -> int:
        """Delete rows of hours that began before a time, and writers silent since then.

        Return how many rows.
        """


class Rows(Protocol):
    """A store of rows."""

    jobs: JobRows
    conversations: ConversationRows
    locks: LockRows
    deliveries: DeliveryRows
    usage: UsageRows
    event_log: EventLogRows | None
    """None in a store that instances share: then webhooks have posts."""
    posts: PostRows | None
    talks: TalkRows | None
    """None in a store of one process: it replaces whole conversations."""

    @property
    def shared_locks(self) -> SharedLockRows | None:
        """What others see of locks; None in a store that one process has for itself."""

    @property
    def operators(self) -> SharedRows | None:
        """What operators get over several instances; None: there is only this one."""

    async def check(self) -> None:
        """Raise `StoreUnavailable` if the store does not work."""

    async def aclose(self) -> None:
        """Finish pending writes, and release all resources."""
