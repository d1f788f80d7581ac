"""Gateways from a terminal, over their own HTTP API."""

from gateway.terminal.chat import ChatOptions, chat
from gateway.terminal.job_options import add_job_actions
from gateway.terminal.jobs import Desk
from gateway.terminal.line import Refused, say

__all__ = ["ChatOptions", "Desk", "Refused", "add_job_actions", "chat", "say"]
