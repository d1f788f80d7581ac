"""All deliveries of a session over REST: what waits, what a turn carries, what was delivered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict
from starlette.requests import Request as WebRequest
from starlette.routing import BaseRoute

from gateway.api.admission import Keys
from gateway.api.requests import find_session
from gateway.api.route import ApiRoute, Parameter, bind_all
from gateway.api.sessions import SESSION, SESSION_ID
from gateway.clock.protocol import Clock
from gateway.errors import BadRequest
from gateway.outbox.queue import OutboxQueue
from gateway.outbox.text import REMINDER, DeliveryView, show_due_reminder, show_result
from gateway.reminders.records import DELIVERED
from gateway.reminders.service import ReminderService
from gateway.timestamps import Timestamp, iso

PART = "deliveries"
# A page of the console; the runs of jobs have all results.
MOST_DELIVERED = 100
DeliveryState = Literal["pending", "reserved", "delivered"]


class SessionDelivery(DeliveryView, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A due reminder or what a run came to, and whether it was delivered."""

    state: DeliveryState
    delivered_at: Timestamp | UnsetType = UNSET


class SessionDeliveries(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What waits for a session, the oldest first, and what it got, the last delivered first."""

    session_id: str
    deliveries: list[SessionDelivery]


@dataclass(frozen=True, slots=True)
class SessionDeliveriesArea:
    """The route about all deliveries of a session; each owner sees only their own.

    It stands before those of sessions, whose names may hold anything, `/deliveries` too.
    """

    deliveries: OutboxQueue
    reminders: ReminderService
    clock: Clock
    keys: Keys

    def routes(self) -> list[BaseRoute]:
        """Return the route of this area."""
        return bind_all(ROUTES, self)

    async def list_deliveries(self, request: WebRequest) -> SessionDeliveries:
        """List what waits for a session, what an answer carries, and what was delivered."""
        owner, name = find_session(self.keys, request, PART)
        state = request.query_params.get("state", "")
        if state and state not in get_args(DeliveryState):
            says = f"state must be one of {', '.join(get_args(DeliveryState))}."
            raise BadRequest(says, param="state")
        found: list[SessionDelivery] = []
        if state != "delivered":
            found += [
                one for one in await self._list_waiting(owner, name) if state in ("", one.state)
            ]
        if state in ("", "delivered"):
            found += await self._list_delivered(owner, name)
        return SessionDeliveries(name, found)

    async def _list_waiting(self, owner: str, name: str) -> list[SessionDelivery]:
        ready_ms = self.clock.now_ms() + self.reminders.rules.due_window_ms
        tasks = await self.reminders.list_undelivered(owner, name)
        items = await self.deliveries.pending(owner, name)
        due = [task for task in tasks if task.due_ms <= ready_ms]
        held_tasks = self.reminders.list_taken(owner, name, tasks)
        held_items = self.deliveries.list_held(owner, name)
        shown = [
            *((one.due_ms, show_due_reminder(one), one.id in held_tasks) for one in due),
            *((one.at_ms, show_result(one), one.id in held_items) for one in items),
        ]
        return [
            SessionDelivery(**asdict(view), state="reserved" if is_held else "pending")
            for _, view, is_held in sorted(shown, key=lambda row: row[0])
        ]

    async def _list_delivered(self, owner: str, name: str) -> list[SessionDelivery]:
        rows = await self.deliveries.rows.list_delivered(owner, name, MOST_DELIVERED)
        shown = [(row.delivered_ms, show_result(row.item)) for row in rows]
        for end in self.reminders.recent(owner, name):
            if end.outcome == DELIVERED:
                at = iso(end.due_ms)
                shown.append(
                    (end.at_ms, DeliveryView(id=end.id, kind=REMINDER, at=at, text=end.text))
                )
        return list(_show_delivered(sorted(shown, key=lambda pair: pair[0], reverse=True)))


def _show_delivered(shown: Iterable[tuple[int, DeliveryView]]) -> Iterable[SessionDelivery]:
    for at_ms, view in shown:
        yield SessionDelivery(**asdict(view), state="delivered", delivered_at=iso(at_ms))


ROUTES = (
    ApiRoute(
        "get",
        f"{SESSION}/{PART}",
        "listDeliveries",
        SessionDeliveriesArea.list_deliveries,
        (SESSION_ID, Parameter("state", DeliveryState, "Only those; without it, all.")),
    ),
)
