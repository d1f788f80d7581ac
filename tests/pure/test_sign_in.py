"""Tokens and cookies of sign-ins, and which requests may use them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.console.sign_in import (
    FAILURES_WITHIN_MS,
    LIFETIME_MS,
    KeySignIn,
    LoginFailures,
    TokenSigner,
    check_site,
    find_token,
    name_cookie,
    write_cookie,
)
from gateway.errors import Forbidden, TooMany

NOW = 1_763_000_000_000
SIGNER = TokenSigner(b"s" * 32)
ANN, BOB = "a" * 64, "b" * 64
HOST = b"127.0.0.1:8787"
OWN = b"http://127.0.0.1:8787"


def headers(**more: bytes) -> dict[bytes, bytes]:
    return {b"host": HOST, **{name.replace("_", "-").encode(): more[name] for name in more}}


class TestTokens:
    def test_a_token_stands_for_its_key_until_it_ends(self) -> None:
        name = SIGNER.name_key(ANN)
        token = SIGNER.write(name, NOW).encode()
        assert SIGNER.read(token, NOW - 1) == name
        assert SIGNER.read(token, NOW) is None

    def test_it_holds_neither_the_key_nor_its_hash(self) -> None:
        name = SIGNER.name_key(ANN)
        assert ANN not in SIGNER.write(name, NOW)
        assert name not in (SIGNER.name_key(BOB), TokenSigner(b"t" * 32).name_key(ANN))

    def test_that_of_another_gateway_is_none(self) -> None:
        token = TokenSigner(b"t" * 32).write(SIGNER.name_key(ANN), NOW)
        assert SIGNER.read(token.encode(), 0) is None

    def test_the_name_of_a_key_is_no_signature(self) -> None:
        # What is signed for one use must not do for the other.
        name = SIGNER.name_key(ANN)
        assert SIGNER.read(f"{NOW}.{name}.{name}".encode(), 0) is None

    @given(st.data())
    def test_any_change_makes_it_none(self, data: st.DataObject) -> None:
        token = SIGNER.write(SIGNER.name_key(ANN), NOW).encode()
        at = data.draw(st.integers(0, len(token) - 1))
        other = data.draw(st.integers(0, 255).filter(lambda byte: byte != token[at]))
        assert SIGNER.read(token[:at] + bytes([other]) + token[at + 1 :], 0) is None

    @given(st.binary(max_size=200))
    def test_what_is_no_token_is_none(self, junk: bytes) -> None:
        assert SIGNER.read(junk, 0) is None


class TestCookies:
    @pytest.mark.parametrize(
        ("host", "name"),
        [
            (b"127.0.0.1:8787", b"holdgate_8787"),
            (b"[::1]:9000", b"holdgate_9000"),
            (b"[::1]", b"holdgate"),
            (b"gateway.example", b"holdgate"),
        ],
    )
    def test_the_name_carries_the_port(self, host: bytes, name: bytes) -> None:
        assert name_cookie(host) == name

    def test_it_is_written_for_browsers(self) -> None:
        kept = "holdgate_8787=t; Max-Age=604800; Path=/; HttpOnly; SameSite=Strict"
        assert write_cookie(HOST, "t", is_secure=False) == kept
        assert write_cookie(HOST, "t", is_secure=True) == f"{kept}; Secure"

    def test_an_empty_one_is_forgotten(self) -> None:
        gone = "holdgate_8787=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict"
        assert write_cookie(HOST, "", is_secure=False) == gone

    @pytest.mark.parametrize(
        ("cookie", "token"),
        [
            (b"holdgate_8787=t", b"t"),
            (b"a=b; holdgate_8787=t;c=d", b"t"),
            (b"holdgate_8787=t; holdgate_8787=u", b"t"),
            (b"holdgate_8788=t", None),
            (b"xholdgate_8787=t", None),
            (b"holdgate_8787", b""),
            (b"", None),
            (b";;=;", None),
        ],
    )
    def test_ours_is_found_among_others(self, cookie: bytes, token: bytes | None) -> None:
        assert find_token(headers(cookie=cookie)) == token

    def test_without_cookies_there_is_none(self) -> None:
        assert find_token(headers()) is None


def is_allowed(method: str, **more: bytes) -> bool:
    try:
        check_site(method, headers(**more))
    except Forbidden:
        return False
    return True


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("given_headers", "allowed"),
    [
        ({}, True),
        ({"sec_fetch_site": b"same-origin"}, True),
        ({"sec_fetch_site": b"none"}, True),
        ({"sec_fetch_site": b"same-site"}, False),
        ({"sec_fetch_site": b"cross-site"}, False),
        ({"sec_fetch_site": b""}, False),
        ({"origin": OWN}, True),
        ({"origin": b"https://127.0.0.1:8787"}, True),
        ({"origin": b"http://127.0.0.1:8788"}, False),
        ({"origin": b"null"}, False),
    ],
)
def test_what_is_read(method: str, given_headers: dict[str, bytes], allowed: bool) -> None:
    assert is_allowed(method, **given_headers) is allowed


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get"])
@pytest.mark.parametrize(
    ("given_headers", "allowed"),
    [
        ({}, False),
        ({"sec_fetch_site": b"same-origin"}, False),
        ({"origin": b""}, False),
        ({"origin": b"null"}, False),
        ({"origin": b"http://127.0.0.1"}, False),
        ({"origin": OWN}, True),
        ({"origin": b"https://127.0.0.1:8787"}, True),
    ],
)
def test_what_changes_something(
    method: str, given_headers: dict[str, bytes], allowed: bool
) -> None:
    assert is_allowed(method, **given_headers) is allowed


class TestKeys:
    def test_a_browser_is_known_by_its_cookie(self) -> None:
        sign_in = KeySignIn(SIGNER, [ANN, BOB], lambda: NOW)
        cookie = f"holdgate_8787={sign_in.write_token(BOB)}".encode()
        assert sign_in.find_digest("GET", headers(cookie=cookie)) == BOB
        assert sign_in.find_digest("POST", headers(cookie=cookie, origin=OWN)) == BOB
        with pytest.raises(Forbidden):
            sign_in.find_digest("POST", headers(cookie=cookie))
        later = KeySignIn(SIGNER, [ANN, BOB], lambda: NOW + LIFETIME_MS)
        assert later.find_digest("GET", headers(cookie=cookie)) is None

    def test_a_key_that_was_removed_ends_it(self) -> None:
        token = KeySignIn(SIGNER, [ANN, BOB], lambda: NOW).write_token(BOB)
        left = KeySignIn(SIGNER, [ANN], lambda: NOW)
        cookie = f"holdgate_8787={token}".encode()
        assert left.find_digest("POST", headers(cookie=cookie)) is None

    def test_without_a_token_nobody_is_known(self) -> None:
        sign_in = KeySignIn(SIGNER, [ANN], lambda: NOW)
        assert sign_in.find_digest("GET", headers()) is None
        assert sign_in.find_digest("GET", headers(cookie=b"holdgate_8787=x")) is None


def test_ten_failures_within_a_minute_are_enough() -> None:
    failures = LoginFailures()
    for at in range(10):
        failures.check(at)
        failures.add(at)
    with pytest.raises(TooMany) as refused:
        failures.check(10)
    assert refused.value.retry_after == (FAILURES_WITHIN_MS - 10) / 1000
    # One at a time they are forgotten.
    failures.check(FAILURES_WITHIN_MS)
    failures.add(FAILURES_WITHIN_MS)
    with pytest.raises(TooMany):
        failures.check(FAILURES_WITHIN_MS)
    failures.check(FAILURES_WITHIN_MS + 1)
