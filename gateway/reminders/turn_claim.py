"""What one turn carries to its session, until it is delivered or given back."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.outbox.ledger import Claim
from gateway.outbox.queue import OutboxQueue
from gateway.outbox.text import results_text
from gateway.reminders.model import Reminder
from gateway.reminders.service import ReminderService
from gateway.stores.rows import OutboxItem


@dataclass(frozen=True, slots=True, eq=False)
class TurnClaim:
    """Reminders that are due, and results that waited; at least one of both."""

    service: ReminderService
    queue: OutboxQueue | None
    reminders: Claim[Reminder] | None
    results: Claim[OutboxItem] | None

    @property
    def results_text(self) -> str:
        """What the model reads of the results."""
        return "" if self.results is None else results_text(self.results.items)

    async def commit(self) -> None:
        """Note that it is delivered."""
        if self.reminders is not None:
            await self.service.commit(self.reminders)
        if self.results is not None and self.queue is not None:
            await self.queue.commit(self.results)

    def release(self) -> None:
        """Give it back."""
        if self.reminders is not None:
            self.service.release(self.reminders)
        if self.results is not None and self.queue is not None:
            self.queue.release(self.results)
