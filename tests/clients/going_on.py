"""A gateway that goes on by itself until an answer has three turns: the splice, seen from outside.

One more rule does that, so that every word of every turn is known.
"""

from __future__ import annotations

import os
from pathlib import Path

from gateway.app import SHUTDOWN_SECONDS, Gateway
from gateway.app.wiring import connection_limits
from gateway.config import load
from gateway.exchange.additions import UserText
from gateway.exchange.events import Continue, Verdict
from gateway.exchange.rules import RULES, Facts
from gateway.wire.http_server.connection import build_connection_class
from gateway.wire.http_server.server import Server, listen, server_config

# Silence before the second turn, and inside the third, is when heartbeats fall between the turns.
FOLLOW_UPS = (
    'demo: say="This is the second." delay_ms=2 first_ms=200',
    'demo: say="And the last." delay_ms=2 quiet_ms=200@1',
)


def go_on(facts: Facts) -> Verdict | None:
    """Every turn but the third is followed by another."""
    if facts.number > len(FOLLOW_UPS):
        return None
    return Continue((UserText(FOLLOW_UPS[facts.number - 1]),), "test_followup")


def main() -> None:
    """Serve as `holdgate serve --port 0` does, with the rule."""
    config = load(None, os.environ, {"server.port": 0}, Path.cwd())
    gateway = Gateway(config, rules=(*RULES, go_on))
    server = config.server
    limits = connection_limits(gateway.config)
    protocol = build_connection_class(limits, gateway.early_refusals)
    grace = server.drain_ms / 1000 + SHUTDOWN_SECONDS
    runner = Server(server_config(gateway.asgi, protocol, grace), gateway.leave)
    runner.listening = lambda url: print(f"listening on {url}", flush=True)
    runner.run(sockets=[listen(server.host, server.port)])


if __name__ == "__main__":
    main()
