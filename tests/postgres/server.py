"""A real PostgreSQL for the tests of a process, and PgBouncer before it; both on Unix sockets.

It has its own directory, no port and no password. Each test has a schema of its own.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

USER = "holdgate"
BINARIES = Path("/usr/lib/postgresql")
# Durable as in production; only small.
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "posix",
    "max_wal_size": "256MB",
    "log_destination": "stderr",
    "log_min_messages": "warning",
    "log_statement": "none",
    "timezone": "UTC",
}
PORT = 5432
STARTING_SECONDS = 60.0


def find_binary(name: str) -> str:
    """Return the path of a program of PostgreSQL; Debian keeps them away from the PATH."""
    versions = sorted(BINARIES.glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    found = str(versions[-1]) if versions else shutil.which(name)
    assert found, f"{name} is not installed: run scripts/testing/bring_programs"
    return found


def _die_with_parent() -> None:
    """End this child when the tests are killed: PR_SET_PDEATHSIG, an immediate shutdown."""
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


class OwnProcess:
    """A server in a directory of its own, run by the user `postgres` if the tests are root's."""

    def __init__(self, name: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"holdgate-{name}-", dir="/tmp"))
        self.log = self.directory / "log"
        self._account = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        if self._account:
            os.chown(self.directory, self._account.pw_uid, self._account.pw_gid)
        self.process: subprocess.Popen[bytes] | None = None
        atexit.register(self.remove)

    def run(self, *command: str) -> None:
        """Run a program to its end."""
        with self.log.open("ab") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log, **self._options())

    def begin(self, *command: str) -> None:
        """Start the server."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, preexec_fn=_die_with_parent, **self._options()
            )

    def wait_until_up(self, socket: Path) -> None:
        """Wait until the server listens."""
        ready = find_binary("pg_isready")
        command = [ready, "-q", "-h", str(socket.parent), "-p", socket.suffix[1:], "-U", USER]
        until = time.monotonic() + STARTING_SECONDS
        while subprocess.run([*command, "-d", "postgres"], check=False).returncode:
            assert self.process
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.02)

    def end(self, number: int) -> None:
        """Send it a signal and wait until it is gone."""
        if self.process:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None

    def remove(self) -> None:
        """End it and remove all it wrote."""
        self.end(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"cwd": self.directory, "stdin": subprocess.DEVNULL}
        if self._account:
            options |= {"user": self._account.pw_uid, "group": self._account.pw_gid}
            options |= {"extra_groups": []}
        return options


class PostgresServer(OwnProcess):
    """One PostgreSQL."""

    def __init__(self) -> None:
        super().__init__("postgres")
        self.socket = self.directory / f".s.PGSQL.{PORT}"
        data = str(self.directory / "data")
        initdb = (find_binary("initdb"), "-D", data, "-U", USER, "-A", "trust", "--no-sync")
        self.run(*initdb, "--encoding=UTF8", "--locale=C")
        options = {**SETTINGS, "unix_socket_directories": str(self.directory)}
        flags = [f"--{name}={value}" for name, value in options.items()]
        self._command = (find_binary("postgres"), "-D", data, *flags)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self.begin(*self._command)
        self.wait_until_up(self.socket)

    def stop(self) -> None:
        """Stop it: statements under way are cut, and what is committed is on disk."""
        self.end(signal.SIGINT)

    def kill(self) -> None:
        """Have it crash; at the next start it recovers from its log."""
        children = _children(self.process.pid) if self.process else []
        self.end(signal.SIGKILL)
        for child in children:
            # Its processes notice by themselves, but a new server waits for them.
            _kill(child)

    def freeze(self) -> None:
        """Stop all its processes; connections stay open and nobody answers."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal_all(signal.SIGCONT)

    @property
    def url(self) -> str:
        """The URL by which the gateway reaches it."""
        return socket_url(self.socket)

    def _signal_all(self, number: int) -> None:
        if self.process:
            for pid in (self.process.pid, *_children(self.process.pid)):
                _kill(pid, number)


class Pooler(OwnProcess):
    """PgBouncer before a server; it lends a connection for one transaction."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__("pgbouncer")
        self.socket = self.directory / f".s.PGSQL.{PORT}"
        users = self.directory / "users"
        users.write_text(f'"{USER}" ""\n')
        self._settings = self.directory / "pgbouncer.ini"
        self._settings.write_text(
            f"""[databases]
* = host={server.directory} port={PORT} user={USER}
[pgbouncer]
listen_addr =
listen_port = {PORT}
unix_socket_dir = {self.directory}
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = 20
server_idle_timeout = 60
"""
        )

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        assert found, "pgbouncer is not installed: run scripts/testing/bring_programs"
        self.begin(found, str(self._settings))
        self.wait_until_up(self.socket)

    @property
    def url(self) -> str:
        """The URL by which the gateway reaches the server through it; Debian's has no statements."""
        return f"{socket_url(self.socket)}&statement_cache_size=0"


def socket_url(socket: Path) -> str:
    """Return the URL of a server on a Unix socket."""
    return f"postgresql://{USER}@/postgres?host={quote(str(socket.parent), safe='')}"


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in tasks.read_text().split()]


def _kill(pid: int, number: int = signal.SIGKILL) -> None:
    # Processes of a server come and go.
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@cache
def shared_server() -> PostgresServer:
    """Return the server that the tests of this process share; nobody may stop it."""
    server = PostgresServer()
    server.start()
    return server


@cache
def shared_pooler() -> Pooler:
    """Return the pooler before the server that the tests of this process share."""
    pooler = Pooler(shared_server())
    pooler.start()
    return pooler


_numbers = count(1)


def make_schema_name() -> str:
    """Return the name of a schema that no other test uses."""
    return f"test_{os.getpid()}_{next(_numbers)}"


def main(arguments: Sequence[str]) -> None:
    """Start a server to look at by hand, until Enter: `python -m tests.postgres.server`."""
    server = PostgresServer()
    server.start()
    print(server.url, arguments)
    input()


if __name__ == "__main__":
    main(sys.argv[1:])
