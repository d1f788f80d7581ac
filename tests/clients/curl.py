"""curl: what a person sees in a terminal."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

import msgspec

from .chat import PATH, Notes, body_of
from .reading import Ask, Client, Form, Reading

NAME = "curl"
DATA = b"data: "
COMMAND = (
    *("curl", "-sS", "-N", "--max-time", "30"),
    *("-H", "content-type: application/json", "--data-binary", "@-"),
    # The status goes where it does not mix with the answer.
    *("-w", "%{stderr}%{http_code}"),
)


def read(url: str, asks: Sequence[Ask]) -> list[Reading]:
    """Read with one curl for each ask."""
    return [_read(url + PATH, ask) for ask in asks]


def _read(url: str, ask: Ask) -> Reading:
    notes = Notes(ask)
    pipe = subprocess.PIPE
    with subprocess.Popen((*COMMAND, url), stdin=pipe, stdout=pipe, stderr=pipe) as curl:
        assert curl.stdin is not None
        curl.stdin.write(msgspec.json.encode(body_of(ask)))
        curl.stdin.close()
        rest = _follow(curl, notes)
        if notes.enough:
            curl.send_signal(signal.SIGINT)
        else:
            _conclude(curl, rest, notes)
    return notes.reading()


def _follow(curl: subprocess.Popen[bytes], notes: Notes) -> bytes:
    """Note events as they are printed; return what is none."""
    rest = b""
    assert curl.stdout is not None
    for line in curl.stdout:
        if not line.startswith(DATA):
            rest += line
            continue
        notes.event(line.removeprefix(DATA).strip().decode())
        if notes.enough:
            break
    return rest


def _conclude(curl: subprocess.Popen[bytes], rest: bytes, notes: Notes) -> None:
    """Note the status, and an answer of one piece."""
    assert curl.stderr is not None
    said = curl.stderr.read().decode()
    assert curl.wait() == 0, said
    if int(said) >= 400:
        notes.refused(int(said), rest)
    elif rest.lstrip().startswith(b"{"):
        # An answer that was held begins with white space.
        notes.whole(msgspec.json.decode(rest))


def _version() -> str:
    told = subprocess.run((NAME, "--version"), capture_output=True, text=True, check=True)
    return told.stdout.split()[1]


CLIENT = Client(
    NAME,
    _version,
    (Form(NAME, "-N", read, needs=("curl",), reads_whole=True),),
    is_sdk=False,
)
