"""What is measured: the upstream alone, Holdgate, and its peers, each behind one address."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.dialects import USUAL_SPEECH, Speech
from bench.processes import START_S, Address, Child, Command, Cores, ProcessFailed, running

REPLAY = (sys.executable, "-m", "bench.upstream", "--port", "0")
ADMIN_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")

NGINX_CONFIG = """\
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {directory}/nginx-body;
    proxy_temp_path {directory}/nginx-proxy;
    fastcgi_temp_path {directory}/nginx-fastcgi;
    uwsgi_temp_path {directory}/nginx-uwsgi;
    scgi_temp_path {directory}/nginx-scgi;
    keepalive_requests 1000000000;
    upstream scripted {{
        server {upstream.host}:{upstream.port};
        keepalive 1024;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {listen.host}:{listen.port};
        location / {{
            proxy_pass http://scripted;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""

HOLDGATE_CONFIG = """\
[[upstreams]]
id = "up"
dialect = "openai-chat"
base_url = "{upstream.url}/v1"
models = ["m"]
"""


class NotInstalled(Exception):
    """This target cannot be measured here."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the run's processes live: a directory for their files, and the cores."""

    directory: Path
    cores: Cores

    def command(
        self, name: str, words: Sequence[str], core: int, environment: Mapping[str, str] = {}
    ) -> Command:
        """Describe a process of this run."""
        return Command(name, words, core, self.directory, environment)


@dataclass(frozen=True, slots=True)
class Target:
    """Something that answers; `child` is None where nothing stands before the upstream."""

    name: str
    address: Address
    child: Child | None
    speech: Speech = USUAL_SPEECH

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes whose CPU time is what this target costs."""
        return self.child.pids if self.child else ()


Opener = Callable[[Place, Address], AbstractContextManager[Target]]


@contextmanager
def upstream(place: Place, words: Sequence[str]) -> Iterator[Target]:
    """Run the scripted upstream on the load's core."""
    with running(place.command("upstream", words, place.cores.load)) as child:
        yield Target("upstream", child.listening(), child)


@contextmanager
def direct(place: Place, upstream: Address) -> Iterator[Target]:
    """Nothing in between: what the load and the upstream need by themselves."""
    yield Target("direct", upstream, None)


@contextmanager
def nginx(place: Place, upstream: Address) -> Iterator[Target]:
    """One nginx worker that passes every read on at once: the practical limit."""
    binary = find("nginx")
    listen = free_address()
    config = place.directory / "nginx.conf"
    config.write_text(
        NGINX_CONFIG.format(directory=place.directory, upstream=upstream, listen=listen)
    )
    words = (binary, "-p", str(place.directory), "-c", str(config))
    with running(place.command("nginx", words, place.cores.gateway)) as child:
        wait_for_port(child, listen)
        yield Target("nginx", listen, child)


@contextmanager
def holdgate(place: Place, upstream: Address) -> Iterator[Target]:
    """Holdgate in one process, as it comes; only the time servers are left alone."""
    with holdgate_with(place, HOLDGATE_CONFIG.format(upstream=upstream)) as target:
        yield target


def before(tree: Path) -> Opener:
    """Holdgate as another source tree has it, so that two commits are measured in one run."""

    @contextmanager
    def opened(place: Place, upstream: Address) -> Iterator[Target]:
        settings = HOLDGATE_CONFIG.format(upstream=upstream)
        # Without the safe path, Python finds the package of the working directory first: this one.
        environment = {"PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}
        with holdgate_with(place, settings, "before", environment) as target:
            yield target

    return opened


@contextmanager
def holdgate_with(
    place: Place, settings: str, name: str = "holdgate", environment: Mapping[str, str] = {}
) -> Iterator[Target]:
    """Holdgate in one process, as these settings say."""
    config = place.directory / f"{name}.toml"
    config.write_text(settings)
    words = [sys.executable, "-m", "gateway", "serve", "--config", str(config), "--port", "0"]
    words += ["--session-dir", str(place.directory / f"sessions-{name}")]
    around = {"ROUTECODEX_CLOCK_NTP": "off", **environment}
    with running(place.command(name, words, place.cores.gateway, around)) as child:
        yield Target(name, child.listening(), child)


TARGETS: dict[str, Opener] = {"direct": direct, "nginx": nginx, "holdgate": holdgate}
PEERS = tuple(name for name in TARGETS if name not in ("direct", "holdgate"))


def find(program: str) -> str:
    """Return the path of an installed program; servers often live outside a user's PATH."""
    places = os.pathsep.join((os.environ.get("PATH", ""), *ADMIN_DIRECTORIES))
    if found := shutil.which(program, path=places):
        return found
    raise NotInstalled(f"{program} is not installed")


def free_address() -> Address:
    """Return a loopback address nobody listens on, for programs that cannot choose one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return Address("127.0.0.1", server.getsockname()[1])


def wait_for_port(child: Child, address: Address) -> None:
    """Wait until somebody accepts connections there."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection((address.host, address.port), 1).close()
            return
        except ConnectionRefusedError:
            child.check()
            time.sleep(0.01)
    raise ProcessFailed(f"{child.command.name} does not listen after {START_S:.0f} s.")
