"""All routes there are, as the gateway itself looks them up."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.routing import Route

from gateway.app.request_services import RequestServices
from gateway.app.routes import relays_of, routes_of

Way = tuple[str, str]
"""A method, and a path whose parameters are nameless."""


def ways(services: RequestServices) -> set[Way]:
    """Return every method of every path that is answered."""
    found = {("POST", nameless(path)) for path in relays_of(services)}
    for route in routes_of(services):
        assert isinstance(route, Route)
        found |= {(method, nameless(route.path)) for method in _methods(route)}
    # Whatever can be got can be asked for its head.
    return {way for way in found if way[0] != "HEAD"}


def _methods(route: Route) -> Iterable[str]:
    # An endpoint that looks at the method itself says which it takes; there is one for all the rest.
    if route.methods is not None:
        return route.methods
    methods: Iterable[str] = getattr(route.endpoint, "methods")  # noqa: B009 - not a plain callable
    return methods


def nameless(path: str) -> str:
    """Write a path without the names of its parameters."""
    return re.sub(r"{[^}]*}", "{}", path)
