"""Which headers pass from a client to an upstream, and back: allow-lists, both ways.

Up go only headers and parameters that choose a feature of the model's API. Not up, though clients
send them: `x-stainless-*` and `user-agent` (they describe the client's machine, no upstream needs
them), `idempotency-key` (one exchange is several upstream requests: the key would make the second
one a replay of the first), `x-request-id` (the gateway sends its own), accounts such as
`openai-organization` and `anthropic-workspace-id` (they are the client's, the upstream's key is the
operator's), and what names the client's session.

Down come only headers a client acts on: when to try again, what is left of a rate limit, and
how long the upstream took. Never cookies, accounts, request ids or what describes the bytes of
the upstream's own connection.

Names are in lower case, as ASGI and the upstream side give them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from gateway.errors import Headers

Pairs = Sequence[tuple[bytes, bytes]]

# What is longer is none of these, and need not be remembered.
LONGEST = 128
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


def towards_upstream(headers: Pairs) -> Headers:
    """Keep what a client may tell an upstream."""
    passed = [pair for pair in headers if len(pair[0]) <= LONGEST and _goes_up(pair[0])]
    return _drop_named(passed, headers) if passed else ()


def query_towards_upstream(dialect: str, query: bytes) -> bytes:
    """Keep what a client of this dialect may tell an upstream in the URL."""
    allowed = _QUERY.get(dialect, frozenset())
    return b"&".join(sorted(allowed.intersection(query.split(b"&"))))


def towards_client(headers: Headers) -> Headers:
    """Keep what an upstream may tell a client."""
    passed = [pair for pair in headers if len(pair[0]) <= LONGEST and _comes_down(pair[0])]
    return _drop_named(passed, headers) if passed else ()


# Of every request and answer, and nearly always the same names.
@lru_cache(maxsize=512)
def _goes_up(name: bytes) -> bool:
    if not name.startswith(_UP_PREFIXES):
        return name in _UP
    return name.replace(b"_", b"-") not in _WITHHELD and not name.endswith(_SECRETS)


@lru_cache(maxsize=512)
def _comes_down(name: bytes) -> bool:
    return name in _DOWN or name.startswith(_DOWN_PREFIXES)


def _drop_named(passed: list[tuple[bytes, bytes]], headers: Pairs) -> Headers:
    """Drop what `ClientConnection` names: it was meant for the next hop only."""
    connection = [value for name, value in headers if name == b"connection"]
    if not connection:
        return tuple(passed)
    named = {token.strip() for token in b",".join(connection).lower().split(b",")}
    return tuple([pair for pair in passed if pair[0] not in named])
