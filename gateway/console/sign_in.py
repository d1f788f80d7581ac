"""Who is signed in to the console: the token in a browser's cookie, and the rules for using it.

A token names a key and the time it ends, signed with a secret of this gateway. It holds neither the
key nor its plain hash, so that nobody can guess the key from a token. A key that is removed from
the configuration has no name any more, and its tokens end with it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from gateway.errors import Forbidden, TooMany

COOKIE = b"cookie"
DAY_MS = 24 * 60 * 60 * 1000
LIFETIME_MS = 7 * DAY_MS
MOST_FAILURES = 10
FAILURES_WITHIN_MS = 60_000
READING = ("GET", "HEAD")
# What browsers say of requests of our own pages, and of an address that somebody typed.
OWN_SITES = (b"same-origin", b"none")

_TOKEN = re.compile(rb"([0-9]{1,16})\.([0-9a-f]{64})\.([0-9a-f]{64})").fullmatch
_PORT = re.compile(rb":([0-9]{1,5})$").search


class TokenSigner:
    """Writes and reads tokens, with the secret of this gateway."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def name_key(self, digest: str) -> str:
        """Return what a key is called in tokens, given its hash."""
        return self._sign(f"key {digest}")

    def write(self, key_name: str, ends_ms: int) -> str:
        """Return a token that stands for a key until it ends."""
        return f"{ends_ms}.{key_name}.{self._sign(f'token {ends_ms} {key_name}')}"

    def read(self, token: bytes, now_ms: int) -> str | None:
        """Return the name of the key that a token stands for; None if it ended or is not ours."""
        parts = _TOKEN(token)
        if parts is None:
            return None
        ends_ms, key_name, signature = (part.decode() for part in parts.groups())
        if not hmac.compare_digest(self._sign(f"token {ends_ms} {key_name}"), signature):
            return None
        return key_name if now_ms < int(ends_ms) else None

    def _sign(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()


class KeySignIn:
    """Signs browsers in with the keys of one configuration, and knows them by their cookies."""

    def __init__(
        self, signer: TokenSigner, digests: Iterable[str], now_ms: Callable[[], int]
    ) -> None:
        self._signer = signer
        self._digests = {signer.name_key(digest): digest for digest in digests}
        self._now_ms = now_ms

    def write_token(self, digest: str) -> str:
        """Return a token that stands for a key, from now on."""
        return self._signer.write(self._signer.name_key(digest), self._now_ms() + LIFETIME_MS)

    def find_digest(self, method: str, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the hash of the key that the browser signed in with; None if it did not.

        Raises `Forbidden` if a page of another site may have sent the request.
        """
        token = find_token(headers)
        name = self._signer.read(token, self._now_ms()) if token is not None else None
        digest = self._digests.get(name) if name is not None else None
        if digest is not None:
            check_site(method, headers)
        return digest


def name_cookie(host: bytes) -> bytes:
    """Return what the cookie is called: browsers keep those of all ports of a host together."""
    port = _PORT(host)
    return b"holdgate_" + port[1] if port else b"holdgate"


def write_cookie(host: bytes, token: str, is_secure: bool) -> str:
    """Return the header that has a browser keep a token, or forget it if the token is empty."""
    seconds = LIFETIME_MS // 1000 if token else 0
    secure = "; Secure" if is_secure else ""
    kept = f"{name_cookie(host).decode()}={token}; Max-Age={seconds}"
    return f"{kept}; Path=/; HttpOnly; SameSite=Strict{secure}"


def find_token(headers: Mapping[bytes, bytes]) -> bytes | None:
    """Return the token in the cookie of this gateway, if there is one."""
    cookies = headers.get(COOKIE)
    if cookies is None:
        return None
    wanted = name_cookie(headers.get(b"host", b""))
    for cookie in cookies.split(b";"):
        name, _, value = cookie.strip().partition(b"=")
        if name == wanted:
            return value
    return None


def check_site(method: str, headers: Mapping[bytes, bytes]) -> None:
    """Refuse what a page of another site may have sent: a browser adds the cookie by itself.

    An Origin that `server.cors_origins` lists is foreign, too.
    """
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
    is_reading = method in READING
    if origin is None and not is_reading:
        raise Forbidden("A sign-in by cookie needs the Origin header; or send a key instead.")
    if origin is not None and not is_own_origin(origin, headers.get(b"host", b"")):
        raise Forbidden("A sign-in by cookie works only in the gateway's own pages.")
    # Browsers leave it out over plain http.
    if is_reading and site is not None and site not in OWN_SITES:
        raise Forbidden("A sign-in by cookie works only in the gateway's own pages.")


def is_own_origin(origin: bytes, host: bytes) -> bool:
    """Whether a page of this origin came from the gateway itself."""
    return origin in (b"http://" + host, b"https://" + host)


class LoginFailures:
    """Counts wrong keys, and takes no more for a while once there were too many."""

    def __init__(self) -> None:
        self._times: deque[int] = deque(maxlen=MOST_FAILURES)

    def check(self, now_ms: int) -> None:
        """Refuse another try if there were too many within a minute."""
        if len(self._times) < MOST_FAILURES:
            return
        wait_ms = self._times[0] + FAILURES_WITHIN_MS - now_ms
        if wait_ms > 0:
            raise TooMany("Too many wrong keys; try again later.", retry_after=wait_ms / 1000)

    def add(self, now_ms: int) -> None:
        """Count a wrong key."""
        self._times.append(now_ms)
