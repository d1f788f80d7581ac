"""The connections to one PostgreSQL, with deadlines, retries, and one way to fail.

Work is done by tasks of the store, each with a connection of its own, not by those who ask: they
may be cancelled, and the work goes on. Work whose connection broke is done again from its
beginning on another one: revisions and tokens are made by the caller, so that it can be repeated.
Whatever asyncpg or the system raises becomes `StoreUnavailable` here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import anyio
from anyio.abc import TaskGroup
from asyncpg import Record

from gateway.stores.documents import StoreUnavailable
from gateway.stores.postgres.breaker import (
    FIRST_PROBE_SECONDS,
    PROBE_SECONDS,
    RETRY_AFTER_SECONDS,
    Breaker,
    add_jitter,
)
from gateway.stores.postgres.connection import (
    Connection,
    ConnectionLost,
    Connector,
    Refused,
    TransactionFailed,
)

R = TypeVar("R")

Work = Callable[[Connection], Awaitable[R]]
Note = Callable[..., None]

LONGEST_QUEUE = 50_000
ATTEMPTS = 4
RETRY_SECONDS = 0.05
CHECK_SECONDS = 1.0
CLOSING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long work may take."""

    # The server ends a statement after 5 seconds; beyond that it is frozen, or cut off.
    attempt_s: float = 6.0
    # With what it waits for a connection, and for being tried again.
    change_s: float = 10.0


@dataclass(slots=True, eq=False)
class _Job:
    work: Work[Any]
    then: Callable[[Any], None]
    future: asyncio.Future[Any]
    until: float
    attempts: int = 0


def _do_nothing(_: object) -> None:
    pass


class Database:
    """Connections to one PostgreSQL; `start` comes first, `aclose` last."""

    def __init__(
        self,
        connector: Connector,
        connections: int,
        note: Note,
        deadlines: Deadlines = Deadlines(),  # noqa: B008 - it never changes
    ) -> None:
        self._deadlines = deadlines
        self.connector = connector
        self.breaker = Breaker(self._tell)
        self._note = note
        self._most = connections
        self._workers = 0
        self._jobs: set[_Job] = set()
        self._queue: deque[_Job] = deque()
        # The last to become idle is the next to work: few connections do most of it.
        self._idle: list[asyncio.Future[_Job]] = []
        self._ready: list[Connection] = []
        self._done = anyio.Event()
        self._closing = False
        self._root: asyncio.Task[None] | None = None
        self._group: TaskGroup | None = None

    def __repr__(self) -> str:
        state = "away" if self.breaker.is_open else "there"
        return f"<Database {state}, {len(self._jobs)} jobs, {len(self._queue)} waiting>"

    async def start(self) -> None:
        """Connect; raise `StoreUnavailable` if that is not possible."""
        try:
            self._ready.append(await self.connector.connect())
        except ConnectionLost as error:
            message = f"The database of store.url cannot be reached: {error}"
            raise StoreUnavailable(message) from error
        started = anyio.Event()
        # Not a child of the caller, whose scopes may end before the store does.
        self._root = asyncio.get_running_loop().create_task(self._serve(started))
        await started.wait()

    async def ask(self, statement: str, *values: object) -> list[Record]:
        """Run one statement in one round trip, and return its rows; it may be run again."""

        async def work(connection: Connection) -> list[Record]:
            return await connection.ask(statement, *values)

        return await self.use(work)

    async def run(self, statement: str, *values: object) -> int:
        """Run one statement in one round trip; return how many rows it changed."""

        async def work(connection: Connection) -> int:
            return await connection.run(statement, *values)

        return await self.use(work)

    async def change(self, work: Work[R], then: Callable[[R], None] = _do_nothing) -> R:
        """Do work in one transaction; it may be done again from its beginning.

        `then` gets its result once that is durable, even if the caller was cancelled.
        """
        return await self.use(partial(_transact, work), then)

    async def use(self, work: Work[R], then: Callable[[R], None] = _do_nothing) -> R:
        """Do work on a connection, without a transaction; it may be done again."""
        if self._closing or self._group is None:
            raise StoreUnavailable("The store is closed.")
        if self.breaker.is_open:
            raise away()
        if len(self._queue) >= LONGEST_QUEUE:
            raise StoreUnavailable("Too many changes wait for the database; try again.")
        loop = asyncio.get_running_loop()
        job = _Job(work, then, loop.create_future(), loop.time() + self._deadlines.change_s)
        self._jobs.add(job)
        self._hand_out(job)
        return cast(R, await job.future)

    async def check(self) -> None:
        """Raise `StoreUnavailable` if the database does not answer within a second."""
        with anyio.move_on_after(CHECK_SECONDS):
            await self.ask("SELECT 1")
            return
        raise away()

    async def aclose(self) -> None:
        """Do what was submitted, for a while, and close the connections."""
        if self._closing:
            return
        self._closing = True
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            if self._jobs:
                await self._done.wait()
        if self._group is not None:
            self._group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            if self._root is not None:
                await asyncio.wait([self._root])
            for connection in self._ready:
                connection.terminate()

    async def _serve(self, started: anyio.Event) -> None:
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                group.start_soon(self._probe)
                started.set()
        finally:
            # Also if a bug ended it: nobody may wait for ever.
            self._closing = True
            for job in tuple(self._jobs):
                self._fail(job, StoreUnavailable("The store is closed."))

    def _hand_out(self, job: _Job) -> None:
        assert self._group is not None
        while self._idle:
            waiting = self._idle.pop()
            if not waiting.done():
                waiting.set_result(job)
                return
        self._queue.append(job)
        if self._workers < self._most:
            self._workers += 1
            self._group.start_soon(self._work)

    async def _work(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                job = await self._next_job()
                connection = await self._perform(job, connection)
        finally:
            if connection is not None:
                self._ready.append(connection)

    async def _next_job(self) -> _Job:
        if self._queue:
            return self._queue.popleft()
        waiting: asyncio.Future[_Job] = asyncio.get_running_loop().create_future()
        self._idle.append(waiting)
        return await waiting

    async def _perform(self, job: _Job, connection: Connection | None) -> Connection | None:
        """Do a job, more than once if need be; return the connection that can be used further."""
        while True:
            try:
                connection = await self._connect(job, connection)
                outcome = await self._attempt(job, connection)
            except (ConnectionLost, TransactionFailed) as error:
                if isinstance(error, ConnectionLost):
                    self._lose(connection, error)
                    connection = None
                else:
                    self.breaker.succeed()
                job.attempts += 1
                if not await self._may_repeat(job):
                    self._fail(job, away(), error)
                    return connection
            except Refused as error:
                self.breaker.succeed()
                self._note("store_refused", why=str(error))
                self._fail(job, StoreUnavailable(f"The database refused it: {error}"), error)
                return connection
            except Exception as error:  # noqa: BLE001 - the outer loop: who waits must hear of it
                self._fail(job, error)
                return connection
            else:
                self.breaker.succeed()
                self._finish(job, outcome)
                return connection

    async def _connect(self, job: _Job, connection: Connection | None) -> Connection:
        if connection is not None and not connection.is_closed:
            return connection
        while self._ready:
            ready = self._ready.pop()
            if not ready.is_closed:
                return ready
        rest = job.until - asyncio.get_running_loop().time()
        return await self.connector.connect(max(0.0, min(rest, self._deadlines.attempt_s)))

    async def _attempt(self, job: _Job, connection: Connection) -> Any:
        rest = job.until - asyncio.get_running_loop().time()
        try:
            with connection.limit_time(max(0.0, min(rest, self._deadlines.attempt_s))):
                return await job.work(connection)
        except asyncio.CancelledError:
            # The store closes in the middle of a statement: nobody can use the connection now.
            connection.terminate()
            raise

    def _lose(self, connection: Connection | None, error: ConnectionLost) -> None:
        if connection is not None:
            connection.terminate()
        self.breaker.fail(str(error))

    async def _may_repeat(self, job: _Job) -> bool:
        """Wait a little, and while the database is away; return whether there is time left."""
        loop = asyncio.get_running_loop()
        rest = job.until - loop.time()
        if job.attempts >= ATTEMPTS or rest <= 0:
            return False
        with anyio.move_on_after(rest):
            await anyio.sleep(add_jitter(RETRY_SECONDS * 2 ** (job.attempts - 1)))
            await self.breaker.back.wait()
        return loop.time() < job.until

    # While the database is away.

    async def _probe(self) -> None:
        while True:
            await self.breaker.opened.wait()
            delay = FIRST_PROBE_SECONDS
            while self.breaker.is_open:
                await anyio.sleep(add_jitter(delay))
                delay = min(2 * delay, PROBE_SECONDS)
                await self._try()

    async def _try(self) -> None:
        try:
            connection = await self.connector.connect(PROBE_SECONDS)
        except (ConnectionLost, StoreUnavailable) as error:
            self.breaker.reason = str(error)
            return
        # Not all are kept: those that were lost are made again as they are needed.
        if self._ready:
            connection.terminate()
        else:
            self._ready.append(connection)
        self.breaker.succeed()

    def _tell(self, reason: str) -> None:
        if not reason:
            self._note("store_back")
            return
        self._note("store_away", why=reason)
        # Those that were not begun do not wait; nothing of them has happened.
        while self._queue:
            self._fail(self._queue.popleft(), away())

    # How jobs end.

    def _finish(self, job: _Job, outcome: object) -> None:
        # Before those who wait go on.
        asyncio.get_running_loop().call_soon(job.then, outcome)
        if not job.future.done():
            job.future.set_result(outcome)
        self._forget(job)

    def _fail(self, job: _Job, error: Exception, cause: Exception | None = None) -> None:
        if cause is not None:
            error.__cause__ = cause
        if not job.future.done():
            job.future.set_exception(error)
        self._forget(job)

    def _forget(self, job: _Job) -> None:
        self._jobs.discard(job)
        if self._closing and not self._jobs:
            self._done.set()


def away() -> StoreUnavailable:
    """Return the error that says that the database cannot be reached; the log says why."""
    message = "The database cannot be used now; try again."
    return StoreUnavailable(message, retry_after=RETRY_AFTER_SECONDS)


async def _transact(work: Work[R], connection: Connection) -> R:
    await connection.begin()
    try:
        result = await work(connection)
        await connection.commit()
    except Exception:
        if not connection.is_closed:
            await connection.roll_back()
        raise
    return result
