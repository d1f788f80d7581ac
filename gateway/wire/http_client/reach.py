"""Whether an upstream can be reached: a connection, and with https a handshake; no request."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

from gateway.wire.http_client.failures import explain_unreachable
from gateway.wire.tls import default_context

PORTS = {"http": 80, "https": 443}


def find_obstacle(url: str, seconds: float, ssl_context: ssl.SSLContext | None = None) -> str:
    """Connect to the host of a URL; return why that failed, or nothing. Blocks."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        with socket.create_connection((host, parts.port or PORTS[parts.scheme]), seconds) as sock:
            if parts.scheme == "https":
                context = ssl_context or default_context()
                context.wrap_socket(sock, server_hostname=host).close()
    except TimeoutError:
        return f"The upstream did not accept a connection within {seconds:g} s."
    except (OSError, UnicodeError) as error:
        # A host name that is too long for the name service is a UnicodeError.
        return explain_unreachable(error)
    return ""
