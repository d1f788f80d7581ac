"""Delivery to clients that are not asking right now: a queue, events, an inbox, webhooks."""

from gateway.delivery.deliveries import Deliveries, DeliveryCounts, Parcel
from gateway.delivery.feed import (
    DELIVERY_ACKED,
    KINDS,
    REMINDER_DUE,
    RUN_FINISHED,
    RUN_STARTED,
    Feed,
    Subscription,
)
from gateway.delivery.handover import Handover
from gateway.delivery.herald import Herald
from gateway.delivery.inbox import Inbox, Page, Seen, read_cursor
from gateway.delivery.webhooks import Hook, Tries, Webhooks

__all__ = [
    "DELIVERY_ACKED",
    "KINDS",
    "REMINDER_DUE",
    "RUN_FINISHED",
    "RUN_STARTED",
    "Deliveries",
    "DeliveryCounts",
    "Feed",
    "Handover",
    "Herald",
    "Hook",
    "Inbox",
    "Page",
    "Parcel",
    "Seen",
    "Subscription",
    "Tries",
    "Webhooks",
    "read_cursor",
]
