"""The HTTP client to a gateway: how to connect, and how failures are told."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import httpx
import msgspec

T = TypeVar("T")
KEY = "authorization"
NO_KEY = "the gateway needs a key; give one with --key or HOLDGATE_KEY."
# What others wrote may hold anything; what moves the cursor or changes the terminal is left out.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class CommandFailed(Exception):
    """The gateway did not answer, or not as it was asked to."""


@contextmanager
def connect(
    url: str, key: str, headers: Mapping[bytes, bytes], seconds: float | None
) -> Iterator[httpx.Client]:
    """Open a line to a gateway; what goes wrong on it is raised as `CommandFailed`."""
    known = {**headers, **({b"authorization": f"Bearer {key}".encode()} if key else {})}
    try:
        with httpx.Client(base_url=url, headers=known, timeout=seconds, trust_env=False) as client:
            yield client
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        raise CommandFailed(f"{url} is not a URL; write it like http://127.0.0.1:8787.") from None
    except httpx.TransportError:
        raise CommandFailed(f"no gateway answers at {url}; is `holdgate serve` running?") from None


def decode(data: bytes | msgspec.Raw, kind: type[T], url: str) -> T:
    """Read what a gateway answered."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise CommandFailed(f"the server at {url} is not a Holdgate gateway.") from None


def reason(answer: httpx.Response) -> str:
    """Return the sentence that an error answer holds."""
    if answer.status_code == httpx.codes.UNAUTHORIZED and not answer.request.headers.get(KEY):
        return NO_KEY
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the gateway answered with status {answer.status_code}."


def say(sentence: str) -> None:
    """Tell the person something that is not part of an answer."""
    print(CONTROLS.sub("", sentence), file=sys.stderr, flush=True)
