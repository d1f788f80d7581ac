"""Deletes once in a while what instances left in the store that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import anyio

from gateway.stores.documents import StoreUnavailable
from gateway.stores.shared_rows import SharedRows

EVERY_MS = 60_000
# After so many there is probably more.
MANY = 1000


async def tidy_often(rows: SharedRows, note: Callable[..., None]) -> NoReturn:
    """Delete what is too old, if no other instance does, now and every minute, forever."""
    while True:
        try:
            if await rows.chores.take("tidy", EVERY_MS):
                while await rows.tidy() >= MANY:
                    pass
        except StoreUnavailable as error:
            note("store_not_tidied", why=error.message)
        await anyio.sleep(EVERY_MS / 1000)
