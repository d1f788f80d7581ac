"""What a turn carries to its session, until it is delivered or given back."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.reminders.claims import Reservation
from gateway.reminders.service import ReminderService
from gateway.reminders.tool_scope import Deliveries, Parcel


@dataclass(frozen=True, slots=True, eq=False)
class Cargo:
    """Reminders that are due, and results that waited; at least one of both."""

    reminders: ReminderService
    deliveries: Deliveries | None
    reservation: Reservation | None
    parcel: Parcel | None

    async def commit(self) -> None:
        """Note that it is delivered."""
        if self.reservation is not None:
            await self.reminders.commit(self.reservation)
        if self.parcel is not None and self.deliveries is not None:
            await self.deliveries.commit(self.parcel)

    def release(self) -> None:
        """Give it back."""
        if self.reservation is not None:
            self.reminders.release(self.reservation)
        if self.parcel is not None and self.deliveries is not None:
            self.deliveries.release(self.parcel)
