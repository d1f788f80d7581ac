"""The allow-lists, row by row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Headers
from gateway.wire.http_client.headers import (
    RequestHead,
    query_towards_upstream,
    towards_client,
    towards_upstream,
)
from gateway.wire.http_client.upstream import Endpoint

UP = [
    b"accept",
    b"anthropic-beta",
    b"anthropic-feature-of-tomorrow",
    b"anthropic-version",
    b"openai-beta",
    b"openai-sentinel",
]
NOT_UP = [
    b"anthropic-admin-api-key",
    b"anthropic-auth-token",
    b"anthropic-conversation_id",
    b"anthropic-dangerous-direct-browser-access",
    b"anthropic-organization-id",
    b"anthropic-session-id",
    b"anthropic-workspace-id",
    b"api-key",
    b"authorization",
    b"connection",
    b"content-encoding",
    b"content-length",
    b"cookie",
    b"expect",
    b"forwarded",
    b"host",
    b"idempotency-key",
    b"keep-alive",
    b"openai-conversation-id",
    b"openai-organization",
    b"openai-project",
    b"origin",
    b"proxy-authorization",
    b"referer",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"user-agent",
    b"via",
    b"x-api-key",
    b"x-forwarded-for",
    b"x-goog-api-key",
    b"x-holdgate-notes",
    b"x-real-ip",
    b"x-request-id",
    b"x-stainless-os",
]
DOWN = [
    b"anthropic-ratelimit-requests-remaining",
    b"openai-processing-ms",
    b"openai-version",
    b"retry-after",
    b"retry-after-ms",
    b"x-ratelimit-reset-tokens",
    b"x-should-retry",
]
NOT_DOWN = [
    b"alt-svc",
    b"anthropic-organization-id",
    b"cf-ray",
    b"connection",
    b"content-encoding",
    b"content-length",
    b"content-type",
    b"date",
    b"keep-alive",
    b"openai-organization",
    b"openai-project",
    b"request-id",
    b"server",
    b"set-cookie",
    b"strict-transport-security",
    b"transfer-encoding",
    b"www-authenticate",
    b"x-request-id",
]


@pytest.mark.parametrize("name", UP)
def test_goes_up(name: bytes) -> None:
    assert towards_upstream(((b"host", b"h"), (name, b"v"))) == ((name, b"v"),)


@pytest.mark.parametrize("name", NOT_UP)
def test_stays_down_here(name: bytes) -> None:
    assert towards_upstream(((name, b"canary"),)) == ()


@pytest.mark.parametrize("name", DOWN)
def test_comes_down(name: bytes) -> None:
    assert towards_client(((b"server", b"s"), (name, b"v"))) == ((name, b"v"),)


def test_many_other_headers_change_nothing() -> None:
    others = tuple((b"x-made-up-%d" % number, b"1") for number in range(200))
    up, down = ((b"accept", b"a"), (b"openai-beta", b"b")), ((b"retry-after", b"1"),)
    assert towards_upstream((*others, *up)) == towards_upstream(up) == up
    assert towards_client((*down, *others)) == towards_client(down) == down
    assert towards_upstream(((b"openai-" + b"x" * 2000, b"1"), *up)) == up


@pytest.mark.parametrize("name", NOT_DOWN)
def test_stays_up_there(name: bytes) -> None:
    assert towards_client(((name, b"canary"),)) == ()


@pytest.mark.parametrize("connection", [b"Retry-After", b"close, retry-after", b"x ,retry-after"])
def test_what_connection_names_passes_neither_way(connection: bytes) -> None:
    named = ((b"connection", connection), (b"retry-after", b"1"), (b"openai-version", b"2"))
    assert towards_client(named) == ((b"openai-version", b"2"),)
    named = ((b"connection", b"openai-beta"), (b"connection", b"Accept"), (b"openai-beta", b"1"))
    assert towards_upstream((*named, (b"accept", b"*/*"))) == ()


def test_an_ordinary_connection_header_takes_nothing_away() -> None:
    headers = ((b"accept", b"*/*"), (b"connection", b"keep-alive"), (b"openai-beta", b"x"))
    assert towards_upstream(headers) == ((b"accept", b"*/*"), (b"openai-beta", b"x"))


@pytest.mark.parametrize(
    "dialect, query, passed",
    [
        ("anthropic-messages", b"beta=true", b"beta=true"),
        ("anthropic-messages", b"x=1&beta=true&beta=true&api_key=canary", b"beta=true"),
        ("anthropic-messages", b"beta=canary", b""),
        ("anthropic-messages", b"", b""),
        ("openai-chat", b"beta=true", b""),
        ("openai-responses", b"beta=true", b""),
    ],
)
def test_of_the_url_only_what_is_listed_goes_up(dialect: str, query: bytes, passed: bytes) -> None:
    assert query_towards_upstream(dialect, query) == passed


NAMES = st.sampled_from(
    [b"accept", b"host", b"user-agent", b"x-a", b"authorization", b"x-request-id"]
)
PAIRS = st.lists(st.tuples(NAMES, st.sampled_from([b"", b"1", b"a b"])), max_size=5).map(tuple)


@given(PAIRS, PAIRS, st.integers(0, 10**7), st.sampled_from([b"", b"beta=true"]))
def test_a_head_is_the_same_as_bytes_and_as_pairs(
    own: Headers, headers: Headers, length: int, query: bytes
) -> None:
    head = RequestHead(Endpoint("a", "http://a.invalid:81/v1/x?y=1", own))
    lines = [b"%b: %b\r\n" % pair for pair in head.pairs(headers, length)]
    start = b"POST %b HTTP/1.1\r\n" % head.url_with(query).raw_path
    assert head.encode(headers, length, query) == start + b"".join(lines) + b"\r\n"
