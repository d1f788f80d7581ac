"""The composition root: a configuration becomes a running gateway."""

from gateway.app.gateway import SHUTDOWN_SECONDS, Gateway
from gateway.app.serving import create_app, serve

__all__ = ["SHUTDOWN_SECONDS", "Gateway", "create_app", "serve"]
