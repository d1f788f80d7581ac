"""Exchanges of other instances: their holds are ended and they are cut where they run.

An errand is a row in the store, so it cannot be done twice or by the wrong instance; hints tell the
instance that there is one, and the one who asked that it was done. A hint may be lost, so they
are told again until the outcome is there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NoReturn

import anyio

from gateway.console.live_board import LiveBoard
from gateway.errors import ExchangeCut, Unavailable
from gateway.outbox.wakeup import Wakeup
from gateway.reminders.holds import BY_HAND
from gateway.stores.documents import Documents, StoreUnavailable
from gateway.stores.hints import ERRANDS
from gateway.stores.shared_rows import Action, Errand, InstanceRow, Outcome, SharedRows

AGAIN_SECONDS = 0.5
PATIENCE_SECONDS = 5.0
CUT = "Somebody cut this exchange off in the console."
NO_ANSWER = "The instance of this exchange does not answer; try again."


def act(board: LiveBoard, exchange_id: str, action: Action, scope: str | None) -> Outcome:
    """End the hold of an exchange of this instance, or cut it."""
    found = board.find(exchange_id, scope)
    if found is None:
        return "not_found"
    running = found.running
    if action == "end_hold":
        is_ended = running is not None and running.end_hold(BY_HAND)
        return "done" if is_ended else "not_holding"
    if running is None:
        return "has_ended"
    running.cut(ExchangeCut(CUT))
    return "done"


class Errands:
    """Asks other instances to act on their exchanges, and acts for them."""

    def __init__(
        self,
        rows: SharedRows,
        store: Documents,
        process: str,
        board: Callable[[], LiveBoard],
        note: Callable[..., None],
    ) -> None:
        """Begin with nothing; `process` is what the ids of exchanges carry that run here."""
        self._rows = rows
        self._hints = store.hints
        self._process = process
        self._board = board
        self._note = note

    def __repr__(self) -> str:
        return f"<Errands of {self._process}>"

    async def find_instance(self, process: str) -> InstanceRow | None:
        """Return which instance a process is, if it lives."""
        listed = await self._rows.instances.list_all()
        return next((one for one in listed if one.process == process and one.is_living), None)

    async def ask(
        self, process: str, exchange_id: str, action: Action, scope: str | None
    ) -> Outcome | None:
        """Have another instance act; return how it went, or None if there is no such instance.

        Raise `Unavailable` if it does not answer, and `StoreUnavailable`.
        """
        errand = Errand(secrets.token_urlsafe(12), process, exchange_id, action, scope)
        answered = Wakeup()
        unwatch = self._hints.watch(ERRANDS, (errand.id, ""), answered.rouse)
        try:
            if not await self._rows.errands.add(errand):
                return None
            with anyio.move_on_after(PATIENCE_SECONDS):
                return await self._wait(errand, answered)
            await self._rows.errands.withdraw(errand.id)
        finally:
            unwatch()
        raise Unavailable(NO_ANSWER, retry_after=1)

    async def _wait(self, errand: Errand, answered: Wakeup) -> Outcome:
        while True:
            self._hints.tell(ERRANDS, (errand.process, ""))
            with anyio.move_on_after(AGAIN_SECONDS):
                await answered.wait()
            answered.look()
            if (outcome := await self._rows.errands.find_outcome(errand.id)) is not None:
                return outcome

    async def run(self) -> NoReturn:
        """Act for other instances, forever."""
        wakeup = Wakeup()
        unwatch = self._hints.watch(ERRANDS, (self._process, ""), wakeup.rouse)
        try:
            while True:
                wakeup.look()
                try:
                    await self._act_on_all()
                except StoreUnavailable as error:
                    # Whoever asked tells it again, or gives up.
                    self._note("errands_not_read", why=error.message)
                await wakeup.wait()
        finally:
            unwatch()

    async def _act_on_all(self) -> None:
        for errand in await self._rows.errands.take(self._process):
            outcome = act(self._board(), errand.exchange_id, errand.action, errand.scope)
            await self._rows.errands.settle(errand.id, outcome)
            self._hints.tell(ERRANDS, (errand.id, ""))
