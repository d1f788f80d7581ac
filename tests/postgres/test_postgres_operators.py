"""What operators get over several instances on one PostgreSQL."""

from __future__ import annotations

from typing import Any

import anyio

from gateway.stores.postgres.connection import Connection
from gateway.stores.postgres.instances import SharedInstance
from gateway.stores.shared_rows import OwnerCounts
from gateway.version import __version__
from tests.console.browser import ME, Browser
from tests.gateway.wire import get
from tests.jobs.words import key, keys

from .gateways import instance
from .rows import OpenedRows, PostgresRowBackend
from .server import make_schema_name

DAY_MS = 24 * 3600 * 1000


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


class LateDatabase(Connection):
    """A connection to a database whose clock is a minute behind that of this host."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def ask(self, statement: str, *values: object) -> Any:
        """Ask it, and tell a time that is too early."""
        rows = await self._connection.ask(statement, *values)
        return [{**row, "now_ms": row["now_ms"] - 60_000} for row in rows]


class TestInstances:
    async def test_admins_see_all_that_share_the_store(self) -> None:
        schema, tables = make_schema_name(), {"keys": keys("ann", "root", admin="root")}
        async with (
            instance(None, schema, tables=tables) as one,
            instance(None, schema, tables=tables) as two,
        ):
            status = (await one.fetch(get("/api/status", key("root")))).json
            assert status["store"] == "postgresql"
            assert "skew_ms" not in status["instance"]
            seen = {row["id"] for row in status["instances"]}
            assert seen == {gate.gateway.name_instance() for gate in (one, two)}
            assert {row["version"] for row in status["instances"]} == {__version__}
            assert all(row["living"] for row in status["instances"])
            others = (await one.fetch(get("/api/status", key("ann")))).json
            assert "instances" not in others
            health = (await two.fetch(get("/api/console/health", key("root")))).json
            assert {row["id"] for row in health["instances"]} == seen
            assert health["skew_ms"] == 0

    async def test_one_that_leaves_is_no_longer_living(self) -> None:
        schema = make_schema_name()
        async with instance(None, schema) as one:
            async with instance(None, schema):
                pass
            rows = (await one.fetch(get("/api/status"))).json["instances"]
            assert sorted(row["living"] for row in rows) == [False, True]

    async def test_a_host_whose_clock_is_wrong_says_so(self) -> None:
        told: list[str] = []
        async with PostgresRowBackend().opened() as rows:
            node = SharedInstance(60_000, "host", "build", lambda event, **_: told.append(event))
            await rows.database.use(node.beat)
            assert (node.notable_skew_ms, told) == (0, [])
            for _ in range(2):
                await rows.database.use(lambda connection: node.beat(LateDatabase(connection)))
            assert 59_000 < node.notable_skew_ms < 61_000
            # It is logged once.
            assert told == ["host_clock_skewed"]


class TestChores:
    async def test_of_all_instances_one_does_a_chore(self) -> None:
        backend = PostgresRowBackend()
        async with backend.opened() as one, backend.opened() as two:
            done: list[bool] = []

            async def take(rows: OpenedRows) -> None:
                done.append(await rows.operators.chores.take("usage", DAY_MS))

            async with anyio.create_task_group() as tasks:
                for rows in (one, two) * 4:
                    tasks.start_soon(take, rows)
            assert sorted(done) == [False] * 7 + [True]

    async def test_what_is_too_old_is_deleted(self) -> None:
        backend = PostgresRowBackend()
        async with backend.opened() as one, backend.opened() as dead, backend.opened() as former:
            await dead.operators.limit_counts.exchange(dead.instance.id, {"ann": OwnerCounts(1)})
            await dead.bury()
            await former.bury()
            await one.database.run(
                "UPDATE @instances SET until = until - interval '2 days' WHERE id = $1",
                former.instance.id,
            )
            await one.database.run("INSERT INTO @traits VALUES ('ann', 's', 'x', 0)")
            assert await one.operators.tidy() == 3
            left = await one.database.ask("SELECT id FROM @instances ORDER BY id")
            # One that was buried lately stays, so that all see it.
            assert {row["id"] for row in left} == {one.instance.id, dead.instance.id}
            assert await one.operators.tidy() == 0

    async def test_an_instance_stays_while_it_has_a_run_to_be_ended(self) -> None:
        backend = PostgresRowBackend()
        async with backend.opened() as one, backend.opened() as dead:
            await dead.bury()
            await one.database.run("UPDATE @instances SET until = until - interval '2 days'")
            held = "INSERT INTO @runs VALUES ('ann', 'j', 1, 'r', 0, false, 'running', $1, '')"
            await one.database.run(held, dead.instance.id)
            assert await one.operators.tidy() == 0
            await one.database.run("UPDATE @runs SET status = 'interrupted'")
            assert await one.operators.tidy() == 1
