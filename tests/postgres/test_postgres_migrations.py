"""How a database gets its schema, and which schemas a release works with."""

from __future__ import annotations

import anyio
import pytest

from gateway.stores.documents import Newer, StoreUnavailable
from gateway.stores.postgres.connection import Connector
from gateway.stores.postgres.database import Database
from gateway.stores.postgres.migrations import FIRST, MIGRATIONS, IndexDraft, Migration, migrate

from .conftest import Notes
from .server import make_schema_name, shared_server

COLUMN = Migration(("ALTER TABLE @documents ADD COLUMN more int8",))
INDEX = Migration(
    (),
    (
        IndexDraft(
            "documents_more", "CREATE INDEX CONCURRENTLY documents_more ON @documents (more)"
        ),
    ),
)


@pytest.fixture
def schema() -> str:
    # Such a name has to be quoted everywhere.
    return f'{make_schema_name()} "Odd"'


@pytest.fixture
def connector(schema: str) -> Connector:
    return Connector(shared_server().url, schema)


async def count(connector: Connector, statement: str) -> int:
    connection = await connector.connect()
    rows = await connection.ask(statement)
    connection.terminate()
    return int(rows[0][0])


async def test_twenty_that_begin_at_once_make_one_schema(
    connector: Connector, schema: str, notes: Notes
) -> None:
    done: list[tuple[int, int]] = []

    async def begin() -> None:
        done.append(await migrate(connector, schema, notes))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(begin)
    assert len(done) == 20
    assert {after for _, after in done} == {len(MIGRATIONS)}
    assert await count(connector, "SELECT count(*) FROM @meta") == 1


async def test_later_migrations_are_applied_once(
    connector: Connector, schema: str, notes: Notes
) -> None:
    assert await migrate(connector, schema, notes, (FIRST,)) == (0, 1)
    later = (FIRST, COLUMN, INDEX)
    assert await migrate(connector, schema, notes, later) == (1, 3)
    assert await migrate(connector, schema, notes, later) == (3, 3)
    assert await count(connector, "SELECT count(more) FROM @documents") == 0


async def test_an_index_that_was_left_half_made_is_made_again(
    connector: Connector, schema: str, notes: Notes
) -> None:
    later = (FIRST, COLUMN, INDEX)
    await migrate(connector, schema, notes, later)
    state = (
        "SELECT count(*) FROM pg_index WHERE NOT indisvalid AND indrelid = '@documents'::regclass"
    )
    connection = await connector.connect()
    mark = """UPDATE pg_index SET indisvalid = false WHERE indrelid = '@documents'::regclass
        AND indexrelid::regclass::text LIKE '%documents_more%'"""
    assert await connection.run(mark.replace("@", connector.names.schema + ".")) == 1
    connection.terminate()
    assert await count(connector, state.replace("@", connector.names.schema + ".")) == 1
    await migrate(connector, schema, notes, later)
    assert await count(connector, state.replace("@", connector.names.schema + ".")) == 0


async def test_an_older_release_works_as_long_as_it_can_read_the_schema(
    connector: Connector, schema: str, notes: Notes
) -> None:
    await migrate(connector, schema, notes, (FIRST, COLUMN))
    assert await migrate(connector, schema, notes, (FIRST,)) == (2, 2)
    unreadable = Migration(("ALTER TABLE @documents DROP COLUMN more",), readable_from=2)
    await migrate(connector, schema, notes, (FIRST, COLUMN, unreadable))
    with pytest.raises(Newer, match="newer Holdgate"):
        await migrate(connector, schema, notes, (FIRST,))
    await migrate(connector, schema, notes, (FIRST, COLUMN))


async def test_who_may_change_nothing_is_told_what_to_do(
    connector: Connector, schema: str, notes: Notes, database: Database
) -> None:
    role = f"role_{abs(hash(schema))}"
    await database.run(f"CREATE ROLE {role} LOGIN")
    limited = Connector(shared_server().url.replace("holdgate@", f"{role}@"), schema)
    with pytest.raises(StoreUnavailable, match="holdgate migrate"):
        await migrate(limited, schema, notes)
    # An operator's role makes it; then it can be used without such rights.
    await migrate(connector, schema, notes)
    quoted = connector.names.schema
    await database.run(f"GRANT USAGE ON SCHEMA {quoted} TO {role}")
    await database.run(f"GRANT ALL ON ALL TABLES IN SCHEMA {quoted} TO {role}")
    assert await migrate(limited, schema, notes) == (len(MIGRATIONS), len(MIGRATIONS))


async def test_what_poolers_drop_is_set_by_role(
    connector: Connector, schema: str, notes: Notes
) -> None:
    await migrate(connector, schema, notes)
    statement = "SELECT count(*) FROM pg_db_role_setting WHERE setrole = current_user::regrole"
    assert await count(connector, statement) == 1
    assert notes.events == []
