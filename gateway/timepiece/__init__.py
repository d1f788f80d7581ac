"""What an exchange has of time: the clock, what waits for its session, and the tools we run."""

from gateway.timepiece.piece import Timepiece, Timepieces
from gateway.timepiece.values import Errand, Narrator, ServerTool, TimeSettings

__all__ = ["Errand", "Narrator", "ServerTool", "TimeSettings", "Timepiece", "Timepieces"]
