"""Agents: conversations that live in the gateway, one exchange at a time in each session."""

from gateway.agents.conversations import Conversations
from gateway.agents.locks import Lease, Locks
from gateway.agents.requests import Means
from gateway.agents.service import Agents
from gateway.agents.values import Agent, ChatErrand, Ear, Outcome, Silent

__all__ = [
    "Agent",
    "Agents",
    "ChatErrand",
    "Conversations",
    "Ear",
    "Lease",
    "Locks",
    "Means",
    "Outcome",
    "Silent",
]
