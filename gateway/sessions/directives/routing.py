"""Routing directives: how they change a session's routing, and which routes a request may use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gateway.exchange.model import Route
from gateway.sessions.directives.model import (
    AllowOnly,
    Clear,
    Directive,
    Exclude,
    ForceRoute,
    PreferRoute,
    TakeBack,
    Target,
    Unreadable,
)


@dataclass(frozen=True, slots=True)
class Routing:
    """The routing directives in force."""

    allow: tuple[str, ...] = ()
    """The only upstreams to ask; empty: all."""
    prefer: Route | None = None
    exclude: tuple[Target, ...] = ()


NOTHING = Routing()


def routing_after(routing: Routing, directive: Directive | Unreadable) -> Routing:
    """Return the routing after a directive; other directives do not change it."""
    match directive:
        case AllowOnly(upstreams):
            return replace(routing, allow=upstreams)
        case PreferRoute(upstream, model):
            return replace(routing, prefer=Route(upstream, model))
        case Exclude(targets):
            return replace(routing, exclude=targets)
        case TakeBack(targets):
            return replace(routing, exclude=tuple(_without(routing.exclude, targets)))
        case Clear():
            return NOTHING
    return routing


def find_forced_route(directives: Iterable[Directive | Unreadable]) -> Route | None:
    """Return the route that this request forces; the last one named wins."""
    forced = None
    for directive in directives:
        if isinstance(directive, ForceRoute):
            forced = Route(directive.upstream, directive.model)
    return forced


def candidates(
    routes: tuple[Route, ...], routing: Routing, forced: Route | None = None
) -> tuple[Route, ...]:
    """Return the routes that may be asked, in order.

    A forced route is the only one, whatever else is in force. A preferred route comes first, even
    if the model does not list it, unless its upstream is not allowed or it is excluded.
    """
    if forced is not None:
        return (forced,)
    if routing == NOTHING:
        return routes
    preferred = () if routing.prefer is None else (routing.prefer,)
    return tuple(r for r in dict.fromkeys(preferred + routes) if _permits(routing, r))


def in_force(routing: Routing) -> tuple[str, ...]:
    """Return the directives that would set this routing."""
    allow = [f"<**!{','.join(routing.allow)}**>"] if routing.allow else []
    prefer = [f"<**!{routing.prefer.upstream}.{routing.prefer.model}**>"] if routing.prefer else []
    exclude = [f"<**#{','.join(map(str, routing.exclude))}**>"] if routing.exclude else []
    return (*allow, *prefer, *exclude)


def no_route(model: str, routing: Routing) -> str:
    """Return the message of the error `no_route`: why no route is left for a model."""
    return (
        f"No upstream is left for '{model[:100]}' with the directives in force "
        f"({', '.join(in_force(routing))}); send <**clear**> to remove them."
    )


def _permits(routing: Routing, route: Route) -> bool:
    if routing.allow and route.upstream not in routing.allow:
        return False
    refused = {Target(route.upstream), Target(route.upstream, route.model)}
    return refused.isdisjoint(routing.exclude)


def _without(exclude: Iterable[Target], back: tuple[Target, ...]) -> Iterator[Target]:
    for target in exclude:
        if target not in back and Target(target.upstream) not in back:
            yield target
