"""A thread that takes everything that waits for it, does it at once, and answers at once.

Whoever waits may leave: what was submitted is done all the same, and its consequences are noted on
the event loop by `settle`, whether or not anybody is there to hear the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

import anyio
from anyio.to_thread import run_sync

from gateway.stores.documents import StoreUnavailable

J = TypeVar("J")
R = TypeVar("R")

LARGEST_BATCH = 128
LONGEST_QUEUE = 50_000
CLOSING_SECONDS = 10.0


@dataclass(slots=True)
class _Ticket(Generic[J, R]):
    job: J
    future: asyncio.Future[R]
    settle: Callable[[R | Exception], None]


class Worker(Generic[J, R]):
    """Does jobs in batches, in the order they came; `perform` gives an outcome for each."""

    def __init__(self, name: str, perform: Callable[[list[J]], list[R | Exception]]) -> None:
        self._perform = perform
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Ticket[J, R] | None] = SimpleQueue()
        self._waiting = 0
        self._closed = False
        # A store that is never used needs no thread.
        self._begun = False
        self._thread = Thread(target=self._serve, name=name, daemon=True)

    def submit(self, job: J, settle: Callable[[R | Exception], None]) -> asyncio.Future[R]:
        """Have a job done; its outcome is given to `settle` first, then to the future."""
        if self._closed:
            raise StoreUnavailable("The store is closed.")
        if self._waiting >= LONGEST_QUEUE:
            raise StoreUnavailable("Too many changes wait to be written; try again.")
        self._waiting += 1
        future: asyncio.Future[R] = self._loop.create_future()
        self._queue.put(_Ticket(job, future, settle))
        if not self._begun:
            self._begun = True
            self._thread.start()
        return future

    async def aclose(self) -> None:
        """Do what was submitted, then end the thread."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        if not self._begun:
            return
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await run_sync(self._thread.join, abandon_on_cancel=True)

    def _serve(self) -> None:
        going = True
        while going:
            batch = self._batch()
            going = batch[-1] is not None
            tickets = [ticket for ticket in batch if ticket is not None]
            outcomes = self._outcomes([ticket.job for ticket in tickets])
            # Without an event loop nobody waits any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._answer, tickets, outcomes)

    def _batch(self) -> list[_Ticket[J, R] | None]:
        batch = [self._queue.get()]
        with suppress(Empty):
            while batch[-1] is not None and len(batch) < LARGEST_BATCH:
                batch.append(self._queue.get_nowait())
        return batch

    def _outcomes(self, jobs: list[J]) -> list[R | Exception]:
        try:
            return self._perform(jobs) if jobs else []
        except Exception as error:  # noqa: BLE001 - the outer loop: those who wait must hear of it
            return [error] * len(jobs)

    def _answer(self, tickets: list[_Ticket[J, R]], outcomes: list[R | Exception]) -> None:
        self._waiting -= len(tickets)
        for ticket, outcome in zip(tickets, outcomes, strict=True):
            # Each by itself: one that fails to settle must not keep the others waiting.
            self._loop.call_soon(_settle, ticket, outcome)


def _settle(ticket: _Ticket[J, R], outcome: R | Exception) -> None:
    try:
        ticket.settle(outcome)
    finally:
        _resolve(ticket.future, outcome)


def _resolve(future: asyncio.Future[R], outcome: R | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
