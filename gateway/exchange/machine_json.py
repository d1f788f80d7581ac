"""The table of the state machine as JSON: the console draws its picture from it.

`python -m gateway.exchange.machine_json > gateway/api/console/machine.json` writes the file again.
"""

from __future__ import annotations

import json

from gateway.exchange.machine import MOVES, State


def write_machine() -> str:
    """Write the states, and the moves between them with the events that cause them."""
    moves = [
        {"from": state, "to": target, "event": event.__name__}
        for state, targets in MOVES.items()
        for event, target in targets.items()
    ]
    return json.dumps({"states": list(State), "moves": moves}, indent=1) + "\n"


if __name__ == "__main__":
    print(write_machine(), end="")
