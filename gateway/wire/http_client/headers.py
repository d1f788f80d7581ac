"""Which headers pass from a client to an upstream, and back: allow-lists, both ways.

Up go only headers and parameters that choose a feature of the model's API. Not up, though clients
send them: `x-stainless-*` and `user-agent` (they describe the client's machine, no upstream needs
them), `idempotency-key` (one exchange is several upstream requests: the key would make the second
one a replay of the first), `x-request-id` (the gateway sends its own), accounts such as
`openai-organization` and `anthropic-workspace-id` (they are the client's, the upstream's key is the
operator's), and what names the client's session. `baggage` does not go up either, since anything
may be in it; the trace that a request is part of does, see `read_trace_context`.

Down come only headers a client acts on: when to try again, what is left of a rate limit, and
how long the upstream took. Never cookies, accounts, request ids or what describes the bytes of
the upstream's own connection.

Names are in lower case, as ASGI and the upstream side give them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from urllib.parse import quote

import httpx

from gateway.errors import BadRequest, Headers
from gateway.version import __version__
from gateway.wire.http_client.upstream import Endpoint

Pairs = Sequence[tuple[bytes, bytes]]
Names = tuple[bytes, ...]
Places = tuple[int, ...]

# What is longer is none of these.
LONGEST = 128
# Names that are longer together are not worth remembering: they are made up.
REMEMBERED = 1024
_take_name = itemgetter(0)
_UP = frozenset({b"accept"})
_UP_PREFIXES = (b"openai-", b"anthropic-")
_WITHHELD = frozenset(
    {
        b"openai-organization",
        b"openai-project",
        b"openai-conversation-id",
        b"anthropic-organization-id",
        b"anthropic-workspace-id",
        b"anthropic-session-id",
        b"anthropic-conversation-id",
        b"anthropic-dangerous-direct-browser-access",
    }
)
_SECRETS = (b"authorization", b"cookie", b"key", b"secret", b"token")
# Parameters of the URL, whole: no value of a client's choice goes up.
_QUERY = {"anthropic-messages": frozenset({b"beta=true"})}

_DOWN = frozenset(
    {
        b"openai-processing-ms",
        b"openai-version",
        b"retry-after",
        b"retry-after-ms",
        b"x-should-retry",
    }
)
_DOWN_PREFIXES = (b"x-ratelimit-", b"anthropic-ratelimit-")

TRACE_PARENT, TRACE_STATE = b"traceparent", b"tracestate"
# Version, trace, span and flags, as W3C Trace Context writes them; what is all zeros names nothing.
_is_trace_parent = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
).fullmatch
_is_trace_state = re.compile(rb"[\x20-\x7e]{1,512}").fullmatch

# The bytes on the wire are ours to frame: these are never taken from a caller.
_FRAMING = frozenset({b"connection", b"content-length", b"host", b"transfer-encoding"})
_AGENT = (b"user-agent", b"holdgate/" + __version__.encode())
# `{model}`, as a URL writes it.
_MODEL = b"%7Bmodel%7D"
# Many names of models, where clients may choose any.
_MODELS_KEPT = 64
_DEFAULTS = ((b"content-type", b"application/json"), (b"accept-encoding", b"identity"))


def towards_upstream(headers: Pairs) -> Headers:
    """Keep what a client may tell an upstream."""
    names = tuple(map(_take_name, headers))
    places = _find_upward(names) if sum(map(len, names)) <= REMEMBERED else _look_upward(names)
    return _drop_named([headers[place] for place in places], headers) if places else ()


def read_trace_context(headers: Pairs) -> Headers:
    """Keep which trace a request is part of, if it says so once, and as W3C Trace Context wants."""
    parents = [value for name, value in headers if name == TRACE_PARENT]
    if len(parents) != 1 or not _is_trace_parent(parents[0]):
        return ()
    parent = ((TRACE_PARENT, parents[0]),)
    state = b",".join([value for name, value in headers if name == TRACE_STATE])
    return (*parent, (TRACE_STATE, state)) if _is_trace_state(state) else parent


def query_towards_upstream(dialect: str, query: bytes) -> bytes:
    """Keep what a client of this dialect may tell an upstream in the URL."""
    allowed = _QUERY.get(dialect, frozenset())
    return b"&".join(sorted(allowed.intersection(query.split(b"&"))))


def towards_client(headers: Headers) -> Headers:
    """Keep what an upstream may tell a client."""
    names = tuple(map(_take_name, headers))
    places = _find_downward(names) if sum(map(len, names)) <= REMEMBERED else _look_down(names)
    return _drop_named([headers[place] for place in places], headers) if places else ()


def _look_upward(names: Names) -> Places:
    return tuple([place for place, name in enumerate(names) if _goes_up(name)])


def _look_down(names: Names) -> Places:
    return tuple([place for place, name in enumerate(names) if _comes_down(name)])


# Of every request and answer: one client or upstream sends the same names each time, so it is
# looked at all of them together, and once.
_find_upward = lru_cache(maxsize=256)(_look_upward)
_find_downward = lru_cache(maxsize=256)(_look_down)


def _goes_up(name: bytes) -> bool:
    if len(name) > LONGEST:
        return False
    if not name.startswith(_UP_PREFIXES):
        return name in _UP
    return name.replace(b"_", b"-") not in _WITHHELD and not name.endswith(_SECRETS)


def _comes_down(name: bytes) -> bool:
    return len(name) <= LONGEST and (name in _DOWN or name.startswith(_DOWN_PREFIXES))


def _drop_named(passed: list[tuple[bytes, bytes]], headers: Pairs) -> Headers:
    """Drop the headers that a `Connection` header names: they were meant for the next hop only."""
    connection = [value for name, value in headers if name == b"connection"]
    if not connection:
        return tuple(passed)
    named = {token.strip() for token in b",".join(connection).lower().split(b",")}
    return tuple([pair for pair in passed if pair[0] not in named])


class RequestHead:
    """What every request to one endpoint begins with."""

    __slots__ = ("_agent", "_fixed", "_lines", "_own", "_start", "_url_of", "url")

    def __init__(self, endpoint: Endpoint) -> None:
        self.url = httpx.URL(endpoint.url)
        if self.url.scheme not in ("http", "https") or not self.url.host:
            raise ValueError(f"The URL of upstream {endpoint.id} must be http or https.")
        self._fixed = _choose_fixed(self.url, endpoint.headers)
        names = {name for name, _ in self._fixed}
        self._own = frozenset(names | _FRAMING)
        self._agent = () if _AGENT[0] in names else (_AGENT,)
        self._lines = _lines(self._fixed)
        self._start = self._begin(self.url)
        is_template = _MODEL in self.url.raw_path
        self._url_of = lru_cache(_MODELS_KEPT)(self._name_model) if is_template else None

    def _begin(self, url: httpx.URL) -> bytes:
        return b"POST %b HTTP/1.1\r\n%b" % (url.raw_path, self._lines)

    def url_with(self, query: bytes, model: str = "") -> httpx.URL:
        """Return the URL for a model, with more parameters at its end."""
        url = self.url if self._url_of is None else self._url_of(model)
        if not query:
            return url
        path = url.raw_path
        return url.copy_with(raw_path=path + (b"&" if b"?" in path else b"?") + query)

    def _name_model(self, model: str) -> httpx.URL:
        # A client may choose the name, but never another path.
        if model in ("", ".", ".."):
            raise BadRequest("No model can have this name.", param="model")
        name = quote(model, safe="").encode()
        return self.url.copy_with(raw_path=self.url.raw_path.replace(_MODEL, name))

    def encode(self, headers: Headers, length: int, query: bytes = b"", model: str = "") -> bytes:
        """Return the bytes that go before a body of this length."""
        is_usual = not query and self._url_of is None
        start = self._start if is_usual else self._begin(self.url_with(query, model))
        added = _lines(self._choose_added(headers))
        return b"%b%bcontent-length: %d\r\n\r\n" % (start, added, length)

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
    if lines.count(b"\n") != len(pairs) or lines.count(b"\r") != len(pairs):
        raise ValueError("A header contains a line break.")
    return lines
