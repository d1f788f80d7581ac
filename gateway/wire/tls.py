"""The one TLS context of all upstreams."""

from __future__ import annotations

import functools
import ssl

import httpx


@functools.cache
def default_context() -> ssl.SSLContext:
    """Load the trusted certificates, once: it takes tens of milliseconds."""
    return httpx.create_ssl_context()
