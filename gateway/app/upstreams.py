"""The connections to upstreams: made from their sections, kept by a reload that leaves them alone.

An exchange keeps the upstreams it began with. So one that a reload removes or changes is retired:
nothing new is sent to it but turns of exchanges that began before, and its connections are closed
when their answers have ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from anyio.abc import TaskGroup

from gateway.app import wiring
from gateway.config import UpstreamSection
from gateway.wire.http_client.key_command import KeyCommand
from gateway.wire.http_client.upstream import Upstream

Note = Callable[..., None]


@dataclass(frozen=True, slots=True)
class ConnectedUpstream:
    """One upstream: who answers, who counts tokens, and the command that prints its key."""

    section: UpstreamSection
    upstream: Upstream
    counter: Upstream | None = None
    command: KeyCommand | None = None

    def fits(self, section: UpstreamSection) -> bool:
        """Whether it is what the section asks for; what is said and read is not its matter."""
        spoken = {name: getattr(section, name) for name in ("models", "profile", "ask_usage")}
        return replace(self.section, **spoken) == section

    @property
    def busy(self) -> int:
        """How many of its connections are in use now."""
        return sum(one.busy for one in self._connections())

    async def retire(self) -> None:
        """Renew its key no more, and close each connection when it is not in use."""
        if self.command is not None:
            self.command.stop()
        for one in self._connections():
            await one.retire()

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        for one in self._connections():
            await one.aclose()

    def _connections(self) -> tuple[Upstream, ...]:
        return (self.upstream,) if self.counter is None else (self.upstream, self.counter)


def connect_section(section: UpstreamSection, note: Note) -> ConnectedUpstream:
    """Make the connections of an upstream; nothing is dialled yet."""
    command = None
    if words := section.api_key_command:
        command = KeyCommand(section.id, words, note, time.monotonic, time.time)
    upstream, counter = wiring.connect_upstream(section, command), None
    if section.dialect == wiring.MESSAGES:
        counter = wiring.connect_upstream(section, command, "/count_tokens")
    return ConnectedUpstream(section, upstream, counter, command)


class UpstreamConnections:
    """The connections to all upstreams: those in use, and those that are being given up."""

    def __init__(self, note: Note) -> None:
        self.current: Mapping[str, ConnectedUpstream] = {}
        """By the ids of the upstreams."""
        self._note = note
        self._retired: list[ConnectedUpstream] = []

    def connect(self, sections: Iterable[UpstreamSection]) -> Mapping[str, ConnectedUpstream]:
        """Return the connections for these sections; those of an unchanged one are the same."""
        return {section.id: self._find(section) for section in sections}

    def _find(self, section: UpstreamSection) -> ConnectedUpstream:
        known = self.current.get(section.id)
        if known is not None and known.fits(section):
            return replace(known, section=section)
        return connect_section(section, self._note)

    def find_unchanged(self, connected: Mapping[str, ConnectedUpstream]) -> frozenset[str]:
        """Return the upstreams whose connections stay."""
        return frozenset(
            name
            for name, one in self.current.items()
            if name in connected and connected[name].upstream is one.upstream
        )

    async def use(self, connected: Mapping[str, ConnectedUpstream], tasks: TaskGroup) -> None:
        """Keep these from now on; renew their keys, and retire all others."""
        unchanged = self.find_unchanged(connected)
        former, self.current = self.current, connected
        for name, one in connected.items():
            if name not in unchanged and one.command is not None:
                tasks.start_soon(one.command.run)
        self._retired = [one for one in self._retired if one.busy]
        for name, one in former.items():
            if name not in unchanged:
                self._retired.append(one)
                await one.retire()

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        for one in (*self.current.values(), *self._retired):
            await one.aclose()
