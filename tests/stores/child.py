"""A process that changes documents and says on its standard output what was acknowledged.

`python -m tests.stores.child URL ROOT SESSIONS WORD…`: every session gets the changes, one after
another, all sessions at once; `for-ever` in place of words counts up until the process is killed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path

import anyio

from gateway.stores import Documents, StoreUnavailable, open_documents, update

from .shapes import CLOCK, SHAPES, Notes, cleared, clock, plus_one

CHANGES: dict[str, Callable[[Notes], Notes]] = {"plus": plus_one, "clear": cleared}


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def change(store: Documents, session: str, words: Iterable[str]) -> None:
    for word in words:
        try:
            notes = await update(store, clock(session), CHANGES[word], CLOCK)
            say(session, notes.count)
        except StoreUnavailable as error:
            say("failed", error.message)


async def main(url: str, root: str, sessions: int, words: list[str]) -> None:
    store = await open_documents(url, Path(root), SHAPES)
    say("open", os.getpid())
    async with anyio.create_task_group() as tasks:
        for number in range(sessions):
            todo = repeat("plus") if words == ["for-ever"] else words
            tasks.start_soon(change, store, f"s{number}", todo)
    await store.aclose()
    say("end")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
