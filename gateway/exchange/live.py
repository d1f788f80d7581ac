"""Performs what the exchange machine decides: the only place where the two planes meet.

One worker runs at a time and comes to one outcome. A watcher waits for the client to leave from the
first instant; it, and the drain, cancel the worker's scope, and nothing else ever does.
"""

from __future__ import annotations

import anyio

from gateway.errors import HoldgateError
from gateway.exchange.notes import ClientNotes
from gateway.exchange.observer import NOBODY, Observer, RequestRefused, combine
from gateway.exchange.ports import Client, Request, Services
from gateway.exchange.runner import ExchangeRunner


class LiveExchanges:
    """Runs exchanges; knows the upstreams, their health, and who is connected now."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.live: set[ExchangeRunner] = set()
        self._left: anyio.Event | None = None
        self.observer: Observer = NOBODY
        """Hears of all exchanges."""

    async def run(self, request: Request, client: Client) -> None:
        """Answer one request, whatever happens."""
        runner = ExchangeRunner(self.services, request, client, self._observer_of(request, client))
        # In a long wait the runner lets go of what is large in it, and nobody else is to hold it.
        del request
        self.live.add(runner)
        try:
            await runner.run()
        except Exception:
            runner.crash()
            raise
        finally:
            self.services.beats.remove(client)
            if not runner.is_clean:
                await runner.let_go()
            self.live.discard(runner)
            if self._left is not None:
                self._left.set()
            runner.tell_end()

    def _observer_of(self, request: Request, client: Client) -> Observer:
        """Return who hears all that happens in one exchange; mostly nobody does."""
        observer = request.observer
        if request.notes and request.asked.stream:
            # A body of one piece has no place for notes, even when white space has begun it.
            observer = combine(observer, ClientNotes(client))
        return combine(observer, self.observer)

    def refuse(self, request_id: str, error: HoldgateError) -> None:
        """Tell that a request does not become an exchange."""
        self.observer.observe(self.services.now(), RequestRefused(request_id, error))

    async def idle(self) -> None:
        """Return when no exchange is under way."""
        while self.live:
            await self._wait_for_an_end()

    def is_answering(self, owner: str, session: str) -> bool:
        """Whether an exchange of this session is under way."""
        return any(runner.is_of(owner, session) for runner in self.live)

    def live_sessions(self, owner: str) -> set[str]:
        """Return the sessions of an owner in which an exchange is under way."""
        return {runner.session for runner in self.live if runner.is_of(owner, runner.session)}

    async def idle_session(self, owner: str, session: str) -> None:
        """Return when no exchange of this session is under way."""
        while self.is_answering(owner, session):
            await self._wait_for_an_end()

    def cut_session(self, owner: str, session: str, error: HoldgateError) -> None:
        """End the exchanges of a session that are still going, with this to say."""
        for runner in tuple(self.live):
            if runner.is_of(owner, session):
                runner.cut(error)

    async def _wait_for_an_end(self) -> None:
        if self._left is None or self._left.is_set():
            self._left = anyio.Event()
        await self._left.wait()

    def cut(self, error: HoldgateError) -> None:
        """End every exchange that is still going, with this to say."""
        for runner in tuple(self.live):
            runner.cut(error)
