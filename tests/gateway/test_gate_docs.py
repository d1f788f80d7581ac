"""The page about HTTP names every route there is."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.routing import Route

from gateway.app.routes import relays_of, routes_of
from tests.run import in_process
from tests.sessions.talk import model

PAGE = Path(__file__).parents[2].joinpath("docs/http-api.md").read_text()
NAMED = {path.partition("?")[0] for path in re.findall(r"`[A-Z]+ (/[^`]*)`", PAGE)}


async def test_every_route_is_named() -> None:
    async with in_process(model("x")) as gate:
        services = gate.gateway.serving
        ordinary = [route.path for route in routes_of(services) if isinstance(route, Route)]
        paths = [*ordinary, *relays_of(services)]
    own = {named(path) for path in paths if "/wunder/" not in path}
    assert len(own) > 30
    assert own - NAMED == set()
    assert NAMED - own == set()


def named(path: str) -> str:
    """Write a path as the page does."""
    return re.sub(r":\w+\}", "}", path)
