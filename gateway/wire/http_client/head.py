"""The start line and headers of a request, most of it built once an upstream."""

from __future__ import annotations

import httpx

from gateway.errors import Headers
from gateway.version import __version__
from gateway.wire.http_client.upstream import Endpoint

# The bytes on the wire are ours to frame: these are never taken from a caller.
_FRAMING = frozenset({b"connection", b"content-length", b"host", b"transfer-encoding"})
_LENGTH = frozenset({b"content-length", b"transfer-encoding"})
_AGENT = (b"user-agent", b"holdgate/" + __version__.encode())
_DEFAULTS = ((b"content-type", b"application/json"), (b"accept-encoding", b"identity"))


class RequestHead:
    """What every request to one endpoint begins with."""

    __slots__ = ("_agent", "_agent_line", "_fixed", "_lines", "_own", "_start", "url")

    def __init__(self, endpoint: Endpoint) -> None:
        self.url = httpx.URL(endpoint.url)
        if self.url.scheme not in ("http", "https") or not self.url.host:
            raise ValueError(f"Upstream {endpoint.id} needs an http or https URL.")
        self._fixed = _choose_fixed(self.url, endpoint.headers)
        names = {name for name, _ in self._fixed}
        self._own = frozenset(names | _FRAMING)
        self._agent = () if _AGENT[0] in names else (_AGENT,)
        self._agent_line = _lines(self._agent)
        self._lines = _lines(self._fixed)
        self._start = self._begin(self.url)

    def _begin(self, url: httpx.URL) -> bytes:
        return b"POST %b HTTP/1.1\r\n%b" % (url.raw_path, self._lines)

    def url_with(self, query: bytes) -> httpx.URL:
        """Return the URL, with more parameters at its end."""
        if not query:
            return self.url
        path = self.url.raw_path
        return self.url.copy_with(raw_path=path + (b"&" if b"?" in path else b"?") + query)

    def encode(self, headers: Headers, length: int, query: bytes = b"") -> bytes:
        """Return the bytes that go before a body of this length."""
        own, agent = self._own, self._agent_line
        lines = []
        for pair in headers:
            if pair[0] not in own:
                lines.append(b"%b: %b\r\n" % pair)
                if pair[0] == b"user-agent":
                    agent = b""
        added = b"".join(lines)
        _check(added, len(lines))
        start = self._begin(self.url_with(query)) if query else self._start
        return b"%b%b%bcontent-length: %d\r\n\r\n" % (start, added, agent, length)

    def pairs(self, headers: Headers, length: int) -> list[tuple[bytes, bytes]]:
        """Return the same headers as pairs, for a library that frames them itself."""
        added = self._choose_added(headers)
        _lines(added)
        return [*self._fixed, *added, (b"content-length", b"%d" % length)]

    def _choose_added(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        added = [pair for pair in headers if pair[0] not in self._own]
        if self._agent and b"user-agent" not in [name for name, _ in added]:
            added += self._agent
        return added


def _choose_fixed(url: httpx.URL, headers: Headers) -> Headers:
    given = [(name.lower(), value) for name, value in headers]
    names = {name for name, _ in given}
    host = () if b"host" in names else ((b"host", url.netloc),)
    defaults = [pair for pair in _DEFAULTS if pair[0] not in names]
    unframed = [pair for pair in given if pair[0] == b"host" or pair[0] not in _FRAMING]
    return (*host, *unframed, *defaults)


def _lines(pairs: Headers | list[tuple[bytes, bytes]]) -> bytes:
    """Write header lines; a line break inside one would start a header of somebody's choice."""
    lines = b"".join([b"%b: %b\r\n" % pair for pair in pairs])
    _check(lines, len(pairs))
    return lines


def _check(lines: bytes, count: int) -> None:
    if lines.count(b"\n") != count or lines.count(b"\r") != count:
        raise ValueError("A header contains a line break.")


def encode(request: httpx.Request, length: int) -> bytes:
    """Return the head of a request of httpx's whose body is in memory."""
    headers = [pair for pair in request.headers.raw if pair[0].lower() not in _LENGTH]
    if length or len(headers) < len(request.headers.raw):
        headers.append((b"content-length", b"%d" % length))
    start = b"%b %b HTTP/1.1\r\n" % (request.method.encode("ascii"), request.url.raw_path)
    return start + _lines(headers) + b"\r\n"
