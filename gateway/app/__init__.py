"""The composition root: a configuration becomes a running gateway."""

from gateway.app.gateway import FAREWELL, Gateway
from gateway.app.serving import create_app, serve

__all__ = ["FAREWELL", "Gateway", "create_app", "serve"]
