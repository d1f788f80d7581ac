"""Holdgate: a streaming LLM gateway that gives models time."""

__version__ = "0.1.0"
