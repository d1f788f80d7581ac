"""Reminders of all sessions: kept in a store, and given to one turn at a time."""

from gateway.reminders.claims import Reservation
from gateway.reminders.records import Counts, Ended
from gateway.reminders.service import KIND, SHAPE, Reminders

__all__ = ["KIND", "SHAPE", "Counts", "Ended", "Reminders", "Reservation"]
