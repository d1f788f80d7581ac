"""Holdgate: a streaming LLM gateway that gives models time."""

from gateway.app import create_app
from gateway.config import Config
from gateway.version import __version__

__all__ = ["Config", "__version__", "create_app"]
