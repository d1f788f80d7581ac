"""Connections to PostgreSQL: deadlines, retries, and the one way to fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from gateway.stores.documents import Conflict, StoreUnavailable
from gateway.stores.postgres.connection import Connection, Connector
from gateway.stores.postgres.database import Database, Deadlines
from tests.run import until

from .conftest import Notes
from .server import PostgresServer

HASTY = Deadlines(attempt_s=1, change_s=30)


@asynccontextmanager
async def opened(server: PostgresServer, notes: Notes) -> AsyncIterator[Database]:
    database = Database(Connector(server.url, "public"), 3, notes, HASTY)
    await database.start()
    try:
        yield database
    finally:
        await database.aclose()


async def make_table(database: Database) -> None:
    await database.run("CREATE TABLE @numbers (number int8 PRIMARY KEY, other int8)")


async def numbers(database: Database) -> list[int]:
    return [row["number"] for row in await database.ask("SELECT number FROM @numbers ORDER BY 1")]


async def test_statements_name_the_schema_with_a_sign(database: Database) -> None:
    await make_table(database)
    assert await database.run("INSERT INTO @numbers SELECT generate_series(1, $1::int8)", 3) == 3
    assert await numbers(database) == [1, 2, 3]


async def test_a_transaction_is_done_whole_or_not_at_all(database: Database) -> None:
    await make_table(database)

    async def work(connection: Connection) -> None:
        await connection.run("INSERT INTO @numbers VALUES (1)")
        raise Conflict("Somebody else was first.")

    with pytest.raises(Conflict):
        await database.change(work)
    assert await numbers(database) == []


async def test_a_transaction_with_a_statement_that_failed_is_not_committed(
    database: Database, notes: Notes
) -> None:
    await make_table(database)

    async def work(connection: Connection) -> None:
        await connection.run("INSERT INTO @numbers VALUES (1)")
        with pytest.raises(Exception, match="DivisionByZero"):
            await connection.ask("SELECT 1 / 0")

    with pytest.raises(StoreUnavailable):
        await database.change(work)
    assert await numbers(database) == []
    assert notes.events == ["store_refused"]


async def test_work_goes_on_when_who_waits_is_cancelled(database: Database) -> None:
    await make_table(database)
    begun, go_on, told = anyio.Event(), anyio.Event(), anyio.Event()

    async def work(connection: Connection) -> None:
        begun.set()
        await go_on.wait()
        await connection.run("INSERT INTO @numbers VALUES (1)")

    async with anyio.create_task_group() as group:
        group.start_soon(database.change, work, lambda _: told.set())
        await begun.wait()
        group.cancel_scope.cancel()
    go_on.set()
    await told.wait()
    assert await numbers(database) == [1]


async def test_deadlocks_are_tried_again(database: Database) -> None:
    await make_table(database)
    await database.run("INSERT INTO @numbers VALUES (1), (2)")
    both, waiting = anyio.Event(), 0

    async def lock(number: int, connection: Connection) -> None:
        nonlocal waiting
        statement = "UPDATE @numbers SET other = coalesce(other, 0) + 1 WHERE number = $1"
        await connection.run(statement, number)
        waiting += 1
        if waiting == 2:
            both.set()
        await both.wait()
        await connection.run(statement, 3 - number)

    async with anyio.create_task_group() as group:
        for number in (1, 2):
            group.start_soon(database.change, lambda c, n=number: lock(n, c))
    rows = await database.ask("SELECT other FROM @numbers")
    assert [row["other"] for row in rows] == [2, 2]


async def test_all_connections_are_used_and_no_more(database: Database) -> None:
    working, most, go_on = 0, 0, anyio.Event()

    async def work(connection: Connection) -> None:
        nonlocal working, most
        working += 1
        most = max(most, working)
        if working == 6:
            go_on.set()
        await go_on.wait()
        working -= 1

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(database.use, work)
    assert most == 6


async def test_a_closed_store_says_so(database: Database) -> None:
    await database.aclose()
    with pytest.raises(StoreUnavailable, match="closed"):
        await database.ask("SELECT 1")


async def test_what_is_under_way_is_done_before_it_closes(database: Database) -> None:
    await make_table(database)
    done: list[int] = []
    async with anyio.create_task_group() as group:
        begun = anyio.Event()

        async def work(connection: Connection) -> int:
            begun.set()
            await connection.ask("SELECT pg_sleep(0.1)")
            return 1

        group.start_soon(database.change, work, done.append)
        await begun.wait()
        await database.aclose()
    assert done == [1]


async def test_a_server_that_is_not_there_is_named_at_the_start(notes: Notes) -> None:
    database = Database(Connector("postgresql://u@/d?host=/nowhere", "public"), 1, notes)
    with pytest.raises(StoreUnavailable, match=r"store\.url cannot be reached"):
        await database.start()


async def test_a_server_that_crashed_is_used_again_once_it_is_back(
    server: PostgresServer, notes: Notes
) -> None:
    async with opened(server, notes) as database:
        await make_table(database)
        server.kill()
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(database.ask, "SELECT 1")
            await until(lambda: database.breaker.is_open)
            server.start()
        assert notes.events == ["store_away", "store_back"]
        assert await numbers(database) == []


async def test_a_change_outlives_a_crash_of_the_server(
    server: PostgresServer, notes: Notes
) -> None:
    async with opened(server, notes) as database:
        await make_table(database)
        attempts = 0

        async def work(connection: Connection) -> None:
            nonlocal attempts
            attempts += 1
            await connection.run("INSERT INTO @numbers VALUES (1)")
            if attempts == 1:
                server.kill()
                server.start()

        await database.change(work)
        assert attempts == 2
        assert await numbers(database) == [1]


async def test_nobody_waits_for_a_server_that_is_frozen(
    server: PostgresServer, notes: Notes
) -> None:
    async with opened(server, notes) as database:
        await make_table(database)
        server.freeze()

        async def change() -> None:
            await database.run("INSERT INTO @numbers VALUES (1) ON CONFLICT DO NOTHING")

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(change)
            await until(lambda: database.breaker.is_open)
            with anyio.fail_after(0.1), pytest.raises(StoreUnavailable) as raised:
                await database.ask("SELECT 1")
            assert raised.value.retry_after
            # Those that were under way are done once it answers again.
            server.thaw()
        assert await numbers(database) == [1]


async def test_a_frozen_server_does_not_keep_the_store_from_closing(
    server: PostgresServer, notes: Notes
) -> None:
    with anyio.fail_after(10):
        async with opened(server, notes) as database:
            await make_table(database)
            server.freeze()
