"""The schema of the database, and how an older one becomes it.

Migrations are numbered and only add: an instance of the release before runs on the new schema, so
both can run at once while instances are replaced one by one. What is not used any more is removed
one release later, by a migration that says which releases can still read the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.stores.documents import Newer, StoreUnavailable
from gateway.stores.postgres import document_tables, instance_tables, row_tables
from gateway.stores.postgres.connection import (
    SERVER_SETTINGS,
    Connection,
    ConnectionLost,
    Connector,
    Refused,
    TransactionFailed,
)
from gateway.stores.postgres.names import quote

Note = Callable[..., None]

META = """CREATE TABLE @meta (
    only_row bool PRIMARY KEY DEFAULT true CHECK (only_row),
    version int4 NOT NULL,
    readable_from int4 NOT NULL
)"""


@dataclass(frozen=True, slots=True)
class IndexDraft:
    """An index that is made beside the work of others, outside of the migration's transaction."""

    name: str
    statement: str
    """`CREATE INDEX CONCURRENTLY …`"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step from one version of the schema to the next."""

    statements: tuple[str, ...]
    indexes: tuple[IndexDraft, ...] = ()
    readable_from: int = 1
    """The lowest version whose instances can work with the schema after this step."""


FIRST = Migration((META, *document_tables.TABLES, *instance_tables.TABLES, *row_tables.TABLES))
MIGRATIONS = (FIRST,)
"""The n-th one leads to version n."""

FIND = "SELECT to_regclass($1) IS NOT NULL AS found"
FIND_SCHEMA = "SELECT to_regnamespace($1) IS NOT NULL AS found"
VERSION = "SELECT version, readable_from FROM @meta"
LOCK = "SELECT version, readable_from FROM @meta FOR UPDATE"
SET_VERSION = """INSERT INTO @meta (version, readable_from) VALUES ($1, $2)
    ON CONFLICT (only_row) DO UPDATE SET version = $1, readable_from = $2"""
# Until when somebody else's transaction is waited for; changing a table needs it alone.
PATIENCE = "SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = 0"
INDEX_STATE = """SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2"""
ROLE_SETTINGS = """SELECT coalesce(array_agg(setting), '{}') AS settings
    FROM pg_db_role_setting s, unnest(s.setconfig) setting
    WHERE s.setrole = current_user::regrole AND s.setdatabase =
        (SELECT oid FROM pg_database WHERE datname = current_database())"""
SET_ROLE = """SELECT format('ALTER ROLE %I IN DATABASE %I SET %I = %L',
    current_user, current_database(), $1::text, $2::text) AS statement"""

MINUTES_SECONDS = 600.0
# Of two processes that begin at once on an empty database one fails, and finds it done then.
ATTEMPTS = 5
NEWER = (
    "The database was written by a newer Holdgate (schema {version}, readable from {readable}; "
    "this one knows {known}); install the newer one."
)
NO_RIGHTS = (
    "The schema of the database is not there or too old, and cannot be changed by this role: {}. "
    "Run holdgate migrate with a role that may."
)


async def migrate(
    connector: Connector,
    schema: str,
    note: Note,
    migrations: tuple[Migration, ...] = MIGRATIONS,
) -> tuple[int, int]:
    """Bring the schema up to date; return its version before and after.

    Raise `Newer` if this release cannot work with it, `StoreUnavailable` if it cannot be changed.
    """
    try:
        connection = await connector.connect()
    except ConnectionLost as error:
        message = f"The database of store.url cannot be reached: {error}"
        raise StoreUnavailable(message) from error
    try:
        with connection.limit_time(MINUTES_SECONDS):
            before, after = await _migrate(connection, schema, migrations)
            await _make_indexes(connection, schema, migrations)
            await _set_role(connection, note)
    except (ConnectionLost, TransactionFailed, Refused) as error:
        raise StoreUnavailable(NO_RIGHTS.format(str(error).rstrip("."))) from error
    finally:
        connection.terminate()
    return before, after


async def _migrate(
    connection: Connection, schema: str, migrations: tuple[Migration, ...]
) -> tuple[int, int]:
    known = len(migrations)
    for attempt in range(ATTEMPTS):
        before = await read_version(connection, schema, known)
        if before >= known:
            return before, before
        await connection.begin()
        try:
            await connection.run(PATIENCE)
            await _apply(connection, schema, before, migrations)
            await connection.commit()
        except (Refused, TransactionFailed):
            await connection.roll_back()
            if attempt == ATTEMPTS - 1 or await read_version(connection, schema, known) == before:
                raise
        else:
            return before, known
    raise StoreUnavailable("Others change the schema of the database at the same time; try again.")


async def read_version(connection: Connection, schema: str, known: int) -> int:
    """Return the version of the schema, 0 if there is none; raise `Newer` if it is too new."""
    table = f"{quote(schema)}.meta"
    if not (await connection.ask(FIND, table))[0]["found"]:
        return 0
    rows = await connection.ask(VERSION)
    if not rows:
        return 0
    version, readable = rows[0]["version"], rows[0]["readable_from"]
    if readable > known:
        raise Newer(NEWER.format(version=version, readable=readable, known=known))
    return int(version)


async def _apply(
    connection: Connection, schema: str, before: int, migrations: tuple[Migration, ...]
) -> None:
    if before == 0:
        # Who may not create schemas may still have been given one.
        if not (await connection.ask(FIND_SCHEMA, quote(schema)))[0]["found"]:
            await connection.run(f"CREATE SCHEMA {quote(schema)}")
    else:
        # One process migrates; the others wait here and then find it done.
        before = (await connection.ask(LOCK))[0]["version"]
    for number, migration in enumerate(migrations[before:], before + 1):
        for statement in migration.statements:
            await connection.run(statement)
        await connection.run(SET_VERSION, number, migration.readable_from)


async def _make_indexes(
    connection: Connection, schema: str, migrations: tuple[Migration, ...]
) -> None:
    drafts = [index for migration in migrations for index in migration.indexes]
    for draft in drafts:
        rows = await connection.ask(INDEX_STATE, schema, draft.name)
        if rows and rows[0]["indisvalid"]:
            continue
        await connection.run("SET statement_timeout = 0")
        if rows:
            # Somebody was interrupted while making it.
            await connection.run(f"DROP INDEX CONCURRENTLY @{draft.name}")
        await connection.run(draft.statement)


async def _set_role(connection: Connection, note: Note) -> None:
    """Set by role what poolers drop of a connection's settings."""
    there = (await connection.ask(ROLE_SETTINGS))[0]["settings"]
    for name, value in SERVER_SETTINGS.items():
        if any(setting.startswith(f"{name}=") for setting in there):
            continue
        try:
            row = await connection.ask_one(SET_ROLE, name, value)
            await connection.run(row["statement"] if row else "")
        except (Refused, TransactionFailed) as error:
            note("store_role_refused", setting=name, why=str(error))
            return
