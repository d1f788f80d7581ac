"""Holdgate: a streaming LLM gateway that gives models time."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gateway.version import __version__

if TYPE_CHECKING:
    from gateway.app import create_app
    from gateway.config import Config

__all__ = ["Config", "__version__", "create_app"]

EXPORTS = {"Config": "gateway.config", "create_app": "gateway.app"}


def __getattr__(name: str) -> object:
    """Import what is exported when it is asked for.

    All of it takes half a second, in which a process that serves has to take signals already.
    """
    if name not in EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(EXPORTS[name]), name)
