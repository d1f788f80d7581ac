"""Lanes: each dialect as nginx passes it on, as Holdgate does, and as Holdgate translates it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from bench.dialects import DIALECTS, Dialect, Speech
from bench.processes import Address, Cores
from bench.rounds import Plan, Say, Stage, available, scene
from bench.targets import Target, holdgate_with, nginx

PAIRS = tuple((client, other) for client in DIALECTS for other in DIALECTS if client is not other)

UPSTREAM = """\
[[upstreams]]
id = "{dialect.name}"
dialect = "{dialect.spoken}"
base_url = "{upstream.url}/v1"
models = ["{dialect.name}"]
"""


def by_nginx(dialect: Dialect) -> str:
    """Name the lane of a dialect that nginx passes on."""
    return f"nginx, {dialect.name}"


def passed(dialect: Dialect) -> str:
    """Name the lane of a dialect that Holdgate passes on."""
    return dialect.name


def translated(client: Dialect, upstream: Dialect) -> str:
    """Name the lane of a client whose upstream speaks another dialect."""
    return f"{client.name} from {upstream.name}"


@contextmanager
def staged_lanes(plan: Plan, cores: Cores, say: Say) -> Iterator[Stage]:
    """Start the upstream, nginx and one Holdgate, and stop them afterwards."""
    with ExitStack() as stack:
        place, scripted = stack.enter_context(scene(plan, cores))
        peer = stack.enter_context(available(nginx(place, scripted.address), say))
        gateway = stack.enter_context(holdgate_with(place, settings(scripted.address)))
        yield Stage(place, scripted, lanes(peer, gateway))


def settings(upstream: Address) -> str:
    """Write Holdgate's settings: the upstream once in each dialect, under a model of its name."""
    return "".join(UPSTREAM.format(dialect=dialect, upstream=upstream) for dialect in DIALECTS)


def lanes(peer: Target | None, gateway: Target) -> list[Target]:
    """List all lanes; those that are compared with each other stand together."""
    found: list[Target] = []
    for client in DIALECTS:
        if peer is not None:
            found.append(lane(by_nginx(client), peer, client, client))
        found.append(lane(passed(client), gateway, client, client))
        for asked, upstream in PAIRS:
            if asked is client:
                found.append(lane(translated(client, upstream), gateway, client, upstream))
    return found


def lane(name: str, through: Target, client: Dialect, upstream: Dialect) -> Target:
    """Ask a target in one dialect for a model that answers in one."""
    return replace(through, name=name, speech=Speech(client, upstream, upstream.name))
