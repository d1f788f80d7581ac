"""Notes in the stream for clients that ask for them (`x-holdgate-notes: 1`).

Each is a comment, which event streams allow anywhere: clients that do not know of it skip it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable

from gateway.exchange.machine import State
from gateway.exchange.observer import Happening, HeldUntil, HoldMoved, StateChanged, Wants
from gateway.exchange.ports import Client
from gateway.wire.sse import comment

# Their frames are the last ones of the stream: nothing may follow them.
SILENT = (State.DONE, State.FAILED)


class ClientNotes:
    """Writes a note whenever the exchange comes into another state."""

    wants: Wants = frozenset({StateChanged, HeldUntil, HoldMoved})

    def __init__(self, client: Client) -> None:
        self._client = client
        self._holding = StateChanged(State.HOLDING, 0)

    def observe(self, at: float, happening: Happening) -> Awaitable[None] | None:
        """Write of changes of the state, once the stream has begun."""
        if isinstance(happening, StateChanged):
            if happening.state is State.HOLDING:
                # Until when is told next, and goes into the same note.
                self._holding = happening
            elif happening.state not in SILENT:
                return self._write(happening, "")
        elif isinstance(happening, HeldUntil | HoldMoved):
            until = f', "until": {happening.until_ms}, "now": {happening.now_ms}'
            return self._write(self._holding, until)
        return None

    def _write(self, changed: StateChanged, until: str) -> Awaitable[None] | None:
        if not self._client.started:
            return None
        # Written by hand: thousands may have to be told at once that their hold is over.
        why = f', "why": {json.dumps(changed.reason)}' if changed.reason else ""
        note = f'"state": "{changed.state}", "turn": {changed.turn}{until}{why}'
        return self._client.frames(comment(f"holdgate {{{note}}}"))
