"""One connection to PostgreSQL: how it is made, asked, and how its errors are read.

asyncpg is called here and nowhere else. A deadline is a timer that terminates the connection: the
statement under way then fails at once. A cancelled statement would make asyncpg open a second
connection to cancel it on the server, and wait for both; a frozen server never answers either.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import anyio
import asyncpg
from asyncpg import Record

from gateway.stores.documents import StoreUnavailable
from gateway.stores.postgres.names import StatementNames

CONNECT_SECONDS = 5.0
APPLICATION = "holdgate"
# Of the query of a URL, what is not for libpq: how many prepared statements a connection keeps.
CACHE_SIZE = "statement_cache_size"
MOST_STATEMENTS = 200

# What poolers drop is set by role as well; on direct connections this is sure.
SERVER_SETTINGS = {
    "statement_timeout": "5s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "10s",
    "jit": "off",
}
# A pooler that does not know a setting refuses the connection with this.
PROTOCOL_VIOLATION = "08P01"

SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"
READ_ONLY, TOO_MANY_CONNECTIONS = "25006", "53300"
# The server, or a pooler, has ended the connection or does not take it now.
LOST_CLASSES = ("08", "57P")
UNKNOWN_STATEMENT = "26000"
DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # also those of TLS
)
TOO_LATE = "It did not answer in time."


class ConnectionLost(Exception):
    """The connection to the database cannot be used any more, or none can be made."""


class TransactionFailed(Exception):
    """The database undid the transaction because of others; the same may succeed again."""


class Refused(Exception):
    """The database refused a statement; the same would be refused again."""


class Connection:
    """One connection; nobody else uses it at the same time.

    In statements `@` before a name stands for the schema.
    """

    __slots__ = ("_expired", "_raw", "_translate")

    def __init__(self, raw: Any, translate: Callable[[str], str]) -> None:
        self._raw = raw
        self._translate = translate
        self._expired = False

    def __repr__(self) -> str:
        return f"<Connection {'closed' if self.is_closed else 'open'}>"

    @property
    def server_pid(self) -> int:
        """The number of the server's process, as it was told; a pooler tells another one."""
        return int(self._raw.get_server_pid())

    @property
    def is_closed(self) -> bool:
        """Whether it can be used no more."""
        return bool(self._raw.is_closed())

    async def ask(self, statement: str, *values: object) -> list[Record]:
        """Run one statement, and return its rows."""
        with self._errors():
            rows: list[Record] = await self._raw.fetch(self._translate(statement), *values)
            return rows

    async def ask_one(self, statement: str, *values: object) -> Record | None:
        """Run one statement, and return its first row, if any."""
        rows = await self.ask(statement, *values)
        return rows[0] if rows else None

    async def run(self, statement: str, *values: object) -> int:
        """Run one statement; return how many rows it changed.

        Without values it may be several statements, and it takes one round trip in any case.
        """
        with self._errors():
            status = await self._raw.execute(self._translate(statement), *values)
            count = status.rpartition(" ")[2]
            return int(count) if count.isdecimal() else 0

    async def run_many(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Run one statement for each row of values, all in one round trip."""
        with self._errors():
            await self._raw.executemany(self._translate(statement), rows)

    async def listen(self, channel: str, hear: Callable[[str], None]) -> None:
        """Call a function with each message of a channel, as long as the connection lasts."""
        with self._errors():
            await self._raw.add_listener(channel, lambda _, __, ___, message: hear(message))

    def on_loss(self, callback: Callable[[], None]) -> None:
        """Call a function when the connection has ended."""
        self._raw.add_termination_listener(lambda _: callback())

    async def begin(self) -> None:
        """Begin a transaction."""
        await self.run("BEGIN")

    async def commit(self) -> None:
        """Commit the transaction; raise `Refused` if a statement of it had failed."""
        with self._errors():
            status = await self._raw.execute("COMMIT")
            if status != "COMMIT":
                raise Refused("A statement of the transaction had failed.")

    async def roll_back(self) -> None:
        """Undo the transaction."""
        await self.run("ROLLBACK")

    @contextmanager
    def limit_time(self, seconds: float) -> Iterator[None]:
        """Terminate the connection if what is done inside takes longer."""
        timer = asyncio.get_running_loop().call_later(seconds, self._expire)
        try:
            yield
        finally:
            timer.cancel()

    def terminate(self) -> None:
        """Close it at once; a statement under way fails.

        There is no other end: the polite one waits for the server, and cannot be cut short.
        """
        if not self.is_closed:
            self._raw.terminate()

    def _expire(self) -> None:
        self._expired = True
        self.terminate()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except DRIVER_ERRORS as error:
            if self._expired:
                raise ConnectionLost(TOO_LATE) from error
            raise read_error(error, closed=self.is_closed) from error


def read_error(error: Exception, *, closed: bool) -> Exception:
    """Return what an error of asyncpg means; its words may hold users' text, so they are left out.

    `closed` is whether the connection cannot be used any more.
    """
    state = getattr(error, "sqlstate", None) or ""
    if state in (SERIALIZATION_FAILURE, DEADLOCK):
        return TransactionFailed(f"{type(error).__name__} {state}.")
    if state.startswith(LOST_CLASSES) or state in (READ_ONLY, TOO_MANY_CONNECTIONS):
        return ConnectionLost(f"{type(error).__name__} {state}.")
    # The state of asyncpg and that of the server differ, as when the server said goodbye unasked.
    if closed or isinstance(error, (OSError, asyncpg.InternalClientError)):
        return ConnectionLost(f"{type(error).__name__}.")
    if state == UNKNOWN_STATEMENT:
        return Refused(
            "A pooler does not keep prepared statements: use PgBouncer 1.21 or newer with "
            f"max_prepared_statements, or add ?{CACHE_SIZE}=0 to store.url."
        )
    return Refused(f"{type(error).__name__} {state}.")


class Connector:
    """Makes connections to the database of a URL."""

    def __init__(self, url: str, schema: str) -> None:
        self.names = StatementNames(schema)
        self._url, cache_size = take_cache_size(url)
        self._cache_size = cache_size
        # A pooler that refused them once is not asked again.
        self._settings = SERVER_SETTINGS

    async def connect(self, limit_s: float = CONNECT_SECONDS) -> Connection:
        """Return a new connection, or raise `ConnectionLost`, or `StoreUnavailable` for good."""
        with anyio.move_on_after(limit_s):
            try:
                return Connection(await self._connect(), self.names.translate)
            except DRIVER_ERRORS as error:
                raise _read_connect_error(error) from error
        raise ConnectionLost(TOO_LATE)

    async def _connect(self) -> Any:
        try:
            return await self._connect_with(self._settings)
        except asyncpg.PostgresError as error:
            if error.sqlstate != PROTOCOL_VIOLATION or not self._settings:
                raise
        self._settings = {}
        return await self._connect_with({})

    async def _connect_with(self, settings: dict[str, str]) -> Any:
        # The limit is the caller's scope; asyncpg's own would be a second one.
        return await asyncpg.connect(
            self._url,
            timeout=None,
            statement_cache_size=self._cache_size,
            max_cached_statement_lifetime=0,
            server_settings={"application_name": APPLICATION, **settings},
        )


def take_cache_size(url: str) -> tuple[str, int]:
    """Return a URL without what is not for libpq, and how many statements are kept prepared."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    sizes = [value for name, value in query if name == CACHE_SIZE]
    kept = urlencode([pair for pair in query if pair[0] != CACHE_SIZE])
    if sizes and not sizes[-1].isdecimal():
        raise StoreUnavailable(f"{CACHE_SIZE} in store.url is not a number.")
    size = int(sizes[-1]) if sizes else MOST_STATEMENTS
    return urlunsplit(parts._replace(query=kept)), size


# Nothing of this passes by itself: somebody has to change the configuration or the server.
FOR_GOOD = ("28", "3D", "0A")


def _read_connect_error(error: Exception) -> Exception:
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith(FOR_GOOD) or isinstance(error, asyncpg.ClientConfigurationError):
        return StoreUnavailable(f"The database of store.url refuses the connection: {error}.")
    if isinstance(error, ssl.SSLError):
        return StoreUnavailable(f"The database of store.url cannot be trusted: {error.reason}.")
    return ConnectionLost(f"{type(error).__name__}: {error}")
