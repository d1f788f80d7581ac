"""Sessions: what a request's directives do, and what its session says at the end of a turn."""

from gateway.sessions.entering import Entry, Sessions
from gateway.sessions.states import States
from gateway.sessions.values import KIND, SHAPE, Kind, Settings, Visit

__all__ = ["KIND", "SHAPE", "Entry", "Kind", "Sessions", "Settings", "States", "Visit"]
