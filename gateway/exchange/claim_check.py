"""What a turn carries is not shown before it is certain that no other instance shows it, too."""

from __future__ import annotations

import anyio

from gateway.errors import ReservationLost
from gateway.reminders.turn_claim import TurnClaim
from gateway.stores.documents import StoreUnavailable

CONFIRM_SECONDS = 10.0
CONFIRM_PAUSE = 0.5
LOST = "What this turn delivers was taken over by another instance of the gateway; ask again."


async def confirm_claim(claim: TurnClaim) -> None:
    """Raise `ReservationLost` if another instance may show what is claimed.

    This process may have been stopped for so long that it was taken for dead.
    """
    if claim.is_certain:
        return
    with anyio.move_on_after(CONFIRM_SECONDS):
        while True:
            try:
                if await claim.is_held():
                    return
                break
            except StoreUnavailable:
                await anyio.sleep(CONFIRM_PAUSE)
    raise ReservationLost(LOST)
