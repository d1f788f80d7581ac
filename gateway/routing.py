"""Which upstreams may answer for a model name, and in which order they are asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType

from gateway.errors import ModelNotFound
from gateway.exchange.model import Route

ANY = "*"
LONGEST_NAME = 100
FIRST_COOL_DOWN = 5.0
LONGEST_COOL_DOWN = 120.0
LONGEST_RETRY_AFTER = 3600.0
NO_BOUNDS: Mapping[str, frozenset[str]] = MappingProxyType({})
NO_OFFERS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PublicModel:
    """A name clients may ask for, and the routes it leads to, in order."""

    name: str
    routes: tuple[Route, ...]
    clock: bool = True


class Models:
    """The public names. An upstream that serves any name is asked for names nobody lists."""

    def __init__(
        self,
        listed: Iterable[PublicModel],
        any_name: Iterable[str] = (),
        offers: Mapping[str, tuple[str, ...]] = NO_OFFERS,
        allowed: Mapping[str, frozenset[str]] = NO_BOUNDS,
    ) -> None:
        """Take all names; `allowed` are the names that some owners are bound to."""
        self._listed = {model.name: model for model in listed}
        self._any_name = tuple(any_name)
        self._offers = offers
        # One model may be public under several names.
        models = {(model.routes, model.clock) for model in self._listed.values()}
        is_only = len(models) == 1 and not self._any_name
        self.default_name = next(iter(self._listed)) if is_only else ""
        """Who is asked where no model is named; empty unless there is exactly one."""
        self._bounded = {owner: self._restrict(names) for owner, names in allowed.items()}

    def of(self, owner: str) -> Models:
        """Return the models that an owner may use."""
        return self._bounded.get(owner, self)

    def _restrict(self, names: frozenset[str]) -> Models:
        """Return these models alone, which lead to their own routes and nowhere else."""
        listed = [model for model in self.listed if model.name in names]
        for name in sorted(names - self._listed.keys()):
            if routes := tuple(self._find_unlisted(name)):
                listed.append(PublicModel(name, routes))
        offers: dict[str, tuple[str, ...]] = {}
        for route in (route for model in listed for route in model.routes):
            offers[route.upstream] = (*offers.get(route.upstream, ()), route.model)
        return Models(listed, offers=offers)

    @property
    def listed(self) -> tuple[PublicModel, ...]:
        """All names that can be listed."""
        return tuple(self._listed.values())

    def lists(self, name: str, route: Route) -> bool:
        """Whether the operator lists this name with this route."""
        found = self._listed.get(name)
        return found is not None and route in found.routes

    def offers(self, route: Route) -> bool:
        """Whether a route may be asked for by name: its upstream is there and lists the model."""
        offered = self._offers.get(route.upstream, ())
        return route.model in offered or ANY in offered

    def find(self, name: str) -> PublicModel:
        """Return the model of this name, or raise `ModelNotFound`."""
        found = self._listed.get(name)
        if found is not None:
            return found
        routes = tuple(self._find_unlisted(name))
        if not routes:
            raise ModelNotFound(self._explain_unknown(name), param="model")
        return PublicModel(name, routes)

    def _find_unlisted(self, name: str) -> Iterable[Route]:
        upstream, _, model = name.partition("/")
        if upstream in self._any_name and model:
            return [Route(upstream, model)]
        return [Route(upstream, name) for upstream in self._any_name]

    def _explain_unknown(self, name: str) -> str:
        # To compare a name takes time by its length, and a client may send one of megabytes.
        name = name[:LONGEST_NAME]
        near = get_close_matches(name, self._listed, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else " GET /v1/models lists them."
        return f"No model is called '{name}'.{hint}"


def every_model(
    offers: Mapping[str, tuple[str, ...]], allowed: Mapping[str, frozenset[str]] = NO_BOUNDS
) -> Models:
    """Make every listed model public, by its name and as `<upstream>/<model>`."""
    routes: dict[str, list[Route]] = {}
    for upstream, names in offers.items():
        for name in names:
            if name != ANY:
                routes.setdefault(name, []).append(Route(upstream, name))
                routes.setdefault(f"{upstream}/{name}", []).append(Route(upstream, name))
    listed = [PublicModel(name, tuple(found)) for name, found in routes.items()]
    any_name = [upstream for upstream, names in offers.items() if ANY in names]
    return Models(listed, any_name, offers, allowed)


@dataclass(slots=True)
class UpstreamTrouble:
    """How often an upstream failed in a row, and until when it is put last."""

    failures: int
    until: float


class Health:
    """Remembers who failed. A cool-down only reorders: the only candidate is still tried."""

    def __init__(self) -> None:
        self.troubles: dict[str, UpstreamTrouble] = {}
        """The upstreams that failed and did not answer since."""

    def keep_only(self, upstreams: Collection[str]) -> Health:
        """Return what is remembered of these upstreams, to go on with apart from the others.

        What happens to exchanges with a former upstream does not count for one of the same name.
        """
        kept = Health()
        kept.troubles = {
            name: replace(trouble) for name, trouble in self.troubles.items() if name in upstreams
        }
        return kept

    def note_failure(self, upstream: str, now: float, retry_after: float | None = None) -> None:
        """Note a failure; each in a row cools down longer, and `retry-after` is honoured."""
        trouble = self.troubles.setdefault(upstream, UpstreamTrouble(0, now))
        cool_down = min(FIRST_COOL_DOWN * 2**trouble.failures, LONGEST_COOL_DOWN)
        if retry_after is not None:
            cool_down = max(cool_down, min(retry_after, LONGEST_RETRY_AFTER))
        trouble.failures += 1
        trouble.until = max(trouble.until, now + cool_down)

    def note_answer(self, upstream: str) -> None:
        """Note an answer: all is forgiven."""
        self.troubles.pop(upstream, None)

    def cooling(self, upstream: str, now: float) -> float:
        """Return for how many seconds more this upstream is put last."""
        trouble = self.troubles.get(upstream)
        return max(0.0, trouble.until - now) if trouble else 0.0

    def order(self, routes: tuple[Route, ...], now: float) -> tuple[Route, ...]:
        """Put routes to upstreams that cool down last, the soonest ready first."""
        return tuple(sorted(routes, key=lambda route: self.cooling(route.upstream, now)))
