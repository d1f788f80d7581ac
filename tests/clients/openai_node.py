"""openai-node: `create` and the `stream()` helper, in a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import msgspec

from .chat import Notes, body_of
from .node import DIRECTORY, locked_version
from .reading import Ask, Client, Failure, Form, Read, Reading

NAME = "openai-node"
SCRIPT = "openai_node.mjs"
LIMIT = 30.0


class Seen(msgspec.Struct):
    """One line of the script: what the SDK showed for one of the asks, and when."""

    index: int
    at: float
    chunk: Any = None
    whole: Any = None
    failure: Failure | None = None


def reading(form: str) -> Read:
    """Make one way to read."""

    def read(url: str, asks: Sequence[Ask]) -> list[Reading]:
        taken = [Notes(ask) for ask in asks]
        for seen in _run({"url": url, "form": form, "asks": [_argument(ask) for ask in asks]}):
            _note(taken[seen.index], seen)
        return [notes.reading() for notes in taken]

    return read


def _argument(ask: Ask) -> dict[str, Any]:
    options = {"maxRetries": ask.retries}
    return {"body": body_of(ask), "options": options, "leave_after": ask.leave_after}


def _run(argument: dict[str, Any]) -> list[Seen]:
    done = subprocess.run(
        ["node", SCRIPT],
        input=msgspec.json.encode(argument),
        capture_output=True,
        cwd=DIRECTORY,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [msgspec.json.decode(line, type=Seen) for line in done.stdout.splitlines()]


def _note(notes: Notes, seen: Seen) -> None:
    if seen.chunk is not None:
        notes.chunk(seen.chunk, seen.at)
    elif seen.whole is not None:
        notes.whole(seen.whole)
    elif seen.failure is not None:
        notes.failed(seen.failure)


CLIENT = Client(
    NAME,
    lambda: locked_version("openai"),
    (
        Form(NAME, "create()", reading("create"), needs=("node",), reads_whole=True),
        Form(NAME, "stream()", reading("stream"), needs=("node",)),
    ),
)
