"""The one connection that listens, tells hints, and beats for the instance.

A beat on it shows that it also hears: a listener that is cut off lets the lease end. When it is
lost, it is made again, and everything counts as changed, since hints may have been missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import anyio

from gateway.stores.documents import StoreUnavailable
from gateway.stores.hints import BURIED, digest_session
from gateway.stores.postgres.breaker import add_jitter
from gateway.stores.postgres.bus import PostgresBus
from gateway.stores.postgres.connection import Connection, ConnectionLost, Connector, Refused
from gateway.stores.postgres.instances import BURY, SharedInstance

Note = Callable[..., None]

NOTIFY = "SELECT pg_notify($1, $2)"
GATHER_SECONDS = 0.005
FIRST_RETRY_SECONDS = 0.05
LONGEST_RETRY_SECONDS = 2.0
# How long its own message may take to come back before it counts as deaf.
ECHO_SECONDS = 2.0
CLOSING_SECONDS = 2.0
DEAF = (
    "The address of store.url does not pass on notifications, as poolers do: set store.listen_url "
    "to a direct address. Until then changes of other instances are found by polling."
)


class Listener:
    """Keeps a connection on which it listens, tells and beats."""

    def __init__(
        self,
        connector: Connector,
        channel: str,
        instance: SharedInstance,
        bus: PostgresBus,
        note: Note,
    ) -> None:
        self._connector = connector
        self._channel = channel
        self._instance = instance
        self._bus = bus
        self._note = note
        self.is_deaf = False
        """Whether notifications do not come through."""
        self._heard_itself = anyio.Event()
        self._root: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        bus.on_own = self._hear_itself

    def __repr__(self) -> str:
        return f"<Listener {'on' if self._connection else 'off'}>"

    async def start(self) -> None:
        """Connect, join the instances, and listen; raise `StoreUnavailable` if that fails."""
        try:
            connection = await self._open()
        except (ConnectionLost, Refused) as error:
            message = f"The database cannot be listened to: {error}"
            raise StoreUnavailable(message) from error
        # Not a child of the caller, whose scopes may end before the store does.
        self._root = asyncio.get_running_loop().create_task(self._serve(connection))

    async def aclose(self) -> None:
        """Let the lease end, and close the connection."""
        if self._root is None:
            return
        self._root.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([self._root])
            if (connection := self._connection) is not None:
                with connection.limit_time(CLOSING_SECONDS), suppress(ConnectionLost, Refused):
                    await self._instance.leave(connection)
                connection.terminate()
        if not self._root.cancelled():
            self._root.result()

    async def _serve(self, connection: Connection) -> None:
        with suppress(asyncio.CancelledError):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._instance.watch_trust)
                tasks.start_soon(self._keep_listening, connection)

    async def _keep_listening(self, connection: Connection) -> None:
        while True:
            try:
                await self._use(connection)
            except (ConnectionLost, Refused) as error:
                self._note("listener_lost", why=str(error))
            self._connection = None
            self._bus.is_deaf = True
            connection.terminate()
            connection = await self._open_again()
            self._note("listener_back")

    async def _open_again(self) -> Connection:
        delay = FIRST_RETRY_SECONDS
        while True:
            await anyio.sleep(add_jitter(delay))
            delay = min(2 * delay, LONGEST_RETRY_SECONDS)
            with suppress(ConnectionLost, Refused, StoreUnavailable):
                return await self._open()

    async def _open(self) -> Connection:
        """Return a connection that listens, after its first beat."""
        connection = await self._connector.connect()
        try:
            with connection.limit_time(self._instance.beat_seconds):
                await connection.listen(self._channel, self._bus.hear)
                # What was told before it listened was missed.
                self._bus.lose()
                await self._instance.beat(connection)
                await self._find_whether_deaf(connection)
        except BaseException:
            connection.terminate()
            raise
        connection.on_loss(self._bus.end_wait)
        self._connection = connection
        return connection

    async def _find_whether_deaf(self, connection: Connection) -> None:
        was_deaf, self.is_deaf = self.is_deaf, not await self._hears(connection)
        self._bus.is_deaf = self.is_deaf
        if self.is_deaf and not was_deaf:
            self._note("listener_deaf", why=DEAF)

    async def _hears(self, connection: Connection) -> bool:
        """Return whether messages arrive: always on a direct connection, else one is sent."""
        (row,) = await connection.ask("SELECT pg_backend_pid() AS pid")
        if row["pid"] == connection.server_pid:
            return True
        self._heard_itself = anyio.Event()
        # From elsewhere: a pooler passes on what comes with the answer of a statement.
        other = await self._connector.connect()
        try:
            await other.ask(NOTIFY, self._channel, self._bus.take_echo())
        finally:
            other.terminate()
        with anyio.move_on_after(min(ECHO_SECONDS, self._instance.beat_seconds / 2)):
            await self._heard_itself.wait()
        return self._heard_itself.is_set()

    def _hear_itself(self) -> None:
        self._heard_itself.set()

    async def _bury(self, connection: Connection) -> None:
        """Bury the instances whose leases ended, so that others may take what they hold."""
        if not self._instance.may_bury:
            return
        for row in await connection.ask(BURY):
            self._note("instance_found_dead", instance=row["id"])
            self._bus.tell(BURIED, digest_session(("", row["id"])))

    async def _use(self, connection: Connection) -> None:
        """Beat and tell until the connection is lost."""
        now = asyncio.get_running_loop().time
        beats_at = now() + self._instance.beat_seconds
        tells_at = 0.0
        while not connection.is_closed:
            with anyio.move_on_after(beats_at - now()):
                await self._bus.wait()
            if now() >= beats_at:
                beats_at = now() + self._instance.beat_seconds
                with connection.limit_time(self._instance.beat_seconds):
                    await self._instance.beat(connection)
                    await self._bury(connection)
            if self._bus.has_waiting:
                # What comes soon after a message is gathered.
                await anyio.sleep(max(0.0, tells_at - now()))
                with connection.limit_time(self._instance.beat_seconds):
                    await connection.ask(NOTIFY, self._channel, self._bus.take_message())
                tells_at = now() + GATHER_SECONDS
        raise ConnectionLost("It was closed.")
