"""Keys that a command prints, for upstreams whose keys expire.

The command runs without a shell, one at a time. Its key is used until it expires, or for ten
minutes if it does not say when. It is renewed in the background before that, so that no request
waits; if that fails, the old key is used as long as it is valid. A request that finds no valid key
runs the command itself and waits for it.

What a command prints is a secret: no error and no log line repeats it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from math import inf, isfinite
from pathlib import PurePath
from typing import Any

import anyio
import msgspec

from gateway.errors import Headers, UpstreamAnswered, UpstreamAuth
from gateway.wire.http_client.upstream import Turn, Upstream

COMMAND_SECONDS = 30.0
USUAL_LIFETIME = 600.0
LONGEST_MARGIN = 60.0
"""How long before its end a key is renewed, at most; a fifth of its life if that is shorter."""
LONGEST_KEY = 16 * 1024
# There may be more in the JSON than the key.
MOST_OUTPUT = 256 * 1024
SHORTEST_PAUSE = 0.05
LONGEST_PAUSE = 10.0
REFUSED = (401, 403)

Note = Callable[..., None]


class NoKey(Exception):
    """A command gave no key; the text says why, without its output."""


class PrintedKey(msgspec.Struct, frozen=True):
    """A key, and for how many seconds it is valid."""

    text: bytes
    seconds: float


class KeyCommand:
    """The key of one upstream, as its command printed it last."""

    def __init__(
        self,
        upstream: str,
        command: tuple[str, ...],
        note: Note,
        now: Callable[[], float],
        wall: Callable[[], float],
        seconds: float = COMMAND_SECONDS,
    ) -> None:
        self._upstream = upstream
        self._command = command
        # Arguments may be secret, and a path is of no use to a client.
        self._name = PurePath(command[0]).name
        self._seconds = seconds
        self._note = note
        self._now = now
        self._wall = wall
        self._lock = anyio.Lock()
        self._key = b""
        self._previous = b""
        self._expires_at = 0.0
        self._renew_at = 0.0
        self._failure: NoKey | None = None
        self._failed_at = 0.0
        self._renewal: anyio.CancelScope | None = None
        self._stopped = False

    def __repr__(self) -> str:
        return f"<KeyCommand of {self._upstream}>"

    @property
    def is_valid(self) -> bool:
        """Whether there is a key that has not expired."""
        return bool(self._key) and self._now() < self._expires_at

    def secrets(self) -> tuple[bytes, ...]:
        """Return what no client may read: this key, and the one before it."""
        return tuple(key for key in (self._key, self._previous) if key)

    async def get(self) -> bytes:
        """Return a key that is valid now, or raise `UpstreamAuth`."""
        if not self.is_valid:
            try:
                await self._renew()
            except NoKey as error:
                raise self._make_error(error) from None
        return self._key

    def forget(self, key: bytes) -> None:
        """Note that the upstream refused a key; the next request gets a new one."""
        if key == self._key:
            self._expires_at = self._renew_at = 0.0

    async def run(self) -> None:
        """Renew the key before it expires, until it is stopped."""
        with anyio.CancelScope() as self._renewal:
            while not self._stopped:
                await self._renew_in_time()

    def stop(self) -> None:
        """Renew the key no more; a request that finds no valid one still runs the command."""
        self._stopped = True
        if self._renewal is not None:
            self._renewal.cancel()

    async def _renew_in_time(self) -> None:
        if self._now() >= self._renew_at:
            try:
                await self._renew()
            except NoKey as error:
                self._note("api_key_command_failed", upstream=self._upstream, says=str(error))
                left = (self._expires_at - self._now()) / 2
                self._renew_at = self._now() + max(1.0, min(left, LONGEST_PAUSE))
        pause = self._renew_at - self._now()
        await anyio.sleep(max(SHORTEST_PAUSE, min(pause, LONGEST_PAUSE)))

    async def _renew(self) -> None:
        """Run the command; who waited while another ran it shares what came of it."""
        asked_at = self._now()
        async with self._lock:
            if self.is_valid and self._now() < self._renew_at:
                return
            if self._failure is not None and self._failed_at >= asked_at:
                raise self._failure
            try:
                printed = read_key(await self._print_key(), self._wall())
            except NoKey as why:
                self._failure = NoKey(f"api_key_command {self._name} {why}")
                self._failed_at = self._now()
                raise self._failure from None
            if printed.text != self._key:
                self._key, self._previous = printed.text, self._key
            self._expires_at = self._now() + printed.seconds
            self._renew_at = self._expires_at - min(LONGEST_MARGIN, printed.seconds / 5)

    async def _print_key(self) -> bytes:
        try:
            with anyio.fail_after(self._seconds):
                return await self._run_command()
        except TimeoutError:
            raise NoKey(f"ran longer than {self._seconds:g} s") from None
        except OSError as error:
            raise NoKey(f"cannot be started: {error.strerror}") from None

    async def _run_command(self) -> bytes:
        nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
        process = await anyio.open_process(
            self._command, stdin=nothing, stdout=pipe, stderr=nothing
        )
        output = bytearray()
        async with process:
            assert process.stdout is not None
            async for chunk in process.stdout:
                # Read to its end also if it is too much: a full pipe would hide that it has ended.
                if len(output) <= MOST_OUTPUT:
                    output += chunk
                    if len(output) > MOST_OUTPUT:
                        process.kill()
            status = await process.wait()
        if len(output) > MOST_OUTPUT:
            raise NoKey(f"printed more than {MOST_OUTPUT // 1024} KB")
        if status != 0:
            raise NoKey(f"ended with status {status}")
        return bytes(output)

    def _make_error(self, why: NoKey) -> UpstreamAuth:
        error = UpstreamAuth(f"There is no key for upstream {self._upstream}: {why}.")
        # Unlike a refused key, this may pass by itself.
        error.may_fail_over = True
        return error


def read_key(output: bytes, now: float) -> PrintedKey:
    """Read what a command printed: a key, or JSON with `token` and when it expires."""
    text, seconds = output.strip(), USUAL_LIFETIME
    if text.startswith(b"{"):
        try:
            answer = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise NoKey("printed invalid JSON") from None
        token = answer.get("token")
        text = token.encode() if isinstance(token, str) else b""
        seconds = _lifetime(answer, now)
    if not text or len(text) > LONGEST_KEY or not text.isascii() or not text.decode().isprintable():
        raise NoKey("printed no key")
    if seconds <= 0:
        raise NoKey("printed a key that has expired")
    return PrintedKey(text, seconds)


def _lifetime(answer: dict[str, Any], now: float) -> float:
    if (at := answer.get("expires_at")) is not None:
        moment = _read_number(at)
        return (_read_time(at) if moment is None else moment) - now
    if (left := answer.get("expires_in")) is None:
        return USUAL_LIFETIME
    seconds = _read_number(left)
    if seconds is None:
        raise NoKey("printed an expires_in that is not a number of seconds")
    return seconds


def _read_number(value: object) -> float | None:
    """Read a number, or its text, as some clouds write it; None: it is neither."""
    try:
        number = float(value) if isinstance(value, int | float | str) else inf
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _read_time(value: object) -> float:
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        raise NoKey("printed an expires_at that is not a time") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


class KeyedUpstream:
    """An upstream whose key is printed by a command: every request carries the valid one."""

    def __init__(self, upstream: Upstream, key: KeyCommand, header: tuple[bytes, bytes]) -> None:
        self.endpoint = upstream.endpoint
        self._upstream = upstream
        self._key = key
        self._header = header
        """Its name, and what stands before the key."""

    def __repr__(self) -> str:
        return f"<KeyedUpstream {self._upstream!r}>"

    async def open(
        self, body: bytes, headers: Headers, query: bytes = b"", model: str = ""
    ) -> Turn:
        """Send one POST and wait for a 2xx start line, or raise an `UpstreamError`."""
        key = await self._key.get()
        name, scheme = self._header
        try:
            return await self._upstream.open(body, (*headers, (name, scheme + key)), query, model)
        except UpstreamAnswered as error:
            if error.status in REFUSED:
                self._key.forget(key)
            raise

    def copy_with_url(self, url: str) -> KeyedUpstream:
        """Return the same upstream at another URL of its host; both share their connections."""
        return KeyedUpstream(self._upstream.copy_with_url(url), self._key, self._header)

    @property
    def busy(self) -> int:
        """How many connections are in use now."""
        return self._upstream.busy

    async def retire(self) -> None:
        """Close connections that are not in use, and each other one after its answer."""
        await self._upstream.retire()

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        await self._upstream.aclose()
