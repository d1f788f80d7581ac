"""What operators get over several instances on one PostgreSQL."""

from __future__ import annotations

import anyio

from tests.console.browser import ME, Browser
from tests.jobs.words import keys

from .gateways import instance
from .rows import OpenedRows, PostgresRowBackend
from .server import make_schema_name


class TestSignIn:
    async def test_who_signs_in_at_one_is_known_at_the_other(self) -> None:
        schema, tables = make_schema_name(), {"keys": keys("ann")}
        async with (
            instance(None, schema, tables=tables) as one,
            instance(None, schema, tables=tables) as two,
        ):
            browser = Browser(one)
            assert (await browser.log_in("key-ann")).status == 200
            # A balancer has one address for both.
            moved = Browser(two)
            moved.host, moved.origin, moved.cookies = browser.host, browser.origin, browser.cookies
            assert (await moved.get(ME)).json["signed_in"] is True

    async def test_all_have_the_secret_that_was_kept_first(self) -> None:
        backend = PostgresRowBackend()
        async with backend.opened() as one, backend.opened() as two:
            kept: list[bytes] = []

            async def keep(rows: OpenedRows, drawn: bytes) -> None:
                kept.append(await rows.operators.secrets.keep("sign-in", drawn))

            async with anyio.create_task_group() as tasks:
                for at, rows in enumerate((one, two) * 4):
                    tasks.start_soon(keep, rows, bytes([at]) * 32)
            assert len(kept) == 8
            assert len(set(kept)) == 1
