"""What requests come to, as numbers: by model, route and owner.

What turns and exchanges come to is added up by `ExchangeTotals` and taken over when somebody asks.

A client may name any model where an upstream takes any name. Each name makes a dozen series, so
their number is limited here.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from gateway.exchange.exchange_totals import (
    FIRST_BUCKETS,
    GAP_BUCKETS,
    WHOLE_BUCKETS,
    ExchangeTotals,
    TotalsTable,
)
from gateway.exchange.model import Route, Usage
from gateway.exchange.observer import Happening, RequestAnswered, RequestRefused, Wants
from gateway.histogram import Histogram
from gateway.routing import LONGEST_NAME, Models

Labels = tuple[str, ...]
"""Of a route: the model's name for clients, the upstream, and the upstream's name for the model."""
MOST_UNLISTED = 100
OTHER = "other"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
NO_USAGE = Usage()


class RouteLabels:
    """The labels of routes; routes above the limit share theirs.

    What the operator lists always has its own. Other names are chosen by clients.
    """

    def __init__(self, most: int = MOST_UNLISTED) -> None:
        self.models = Models(())
        """What the operator lists, as of now."""
        self._left = most
        self._known: dict[Labels, Labels] = {}

    def find(self, model: str, route: Route) -> Labels:
        """Return the labels of a route that a client asked for by this model name."""
        labels = (model, route.upstream, route.model)
        known = self._known.get(labels)
        if known is not None:
            return known
        if not self.models.lists(model, route):
            if self._left <= 0 or not (_is_short(model) and _is_short(route.model)):
                return (OTHER, route.upstream, OTHER)
            self._left -= 1
        self._known[labels] = labels
        return labels


class RequestCounts:
    """Counts exchanges, their turns and tokens, and requests that did not become exchanges."""

    wants: Wants = frozenset({RequestRefused, RequestAnswered})

    def __init__(self, totals: ExchangeTotals, by_owner: bool = False) -> None:
        self.by_owner = by_owner
        """Whether the owner follows the labels of the route."""
        self.routes = RouteLabels()
        self.ended: Counter[tuple[Labels, str, int]] = Counter()
        """Exchanges: by labels, state and status."""
        self.turns: Counter[Labels] = Counter()
        self.tokens: dict[Labels, Usage] = {}
        self.first_frame = defaultdict[Labels, Histogram](lambda: Histogram(FIRST_BUCKETS))
        self.frame_gap = defaultdict[Labels, Histogram](lambda: Histogram(GAP_BUCKETS))
        self.exchange = defaultdict[Labels, Histogram](lambda: Histogram(WHOLE_BUCKETS))
        self.refused: Counter[Labels] = Counter()
        self.answered: Counter[tuple[str, int]] = Counter()
        self._totals = totals
        totals.add_taker(self._take)

    def observe(self, at: float, happening: Happening) -> None:
        """Count a request that did not become an exchange."""
        if isinstance(happening, RequestRefused):
            self.refused[self._own((happening.error.code,), happening.info.owner)] += 1
        elif isinstance(happening, RequestAnswered):
            method = happening.method if happening.method in METHODS else OTHER
            self.answered[(method, happening.status)] += 1

    def catch_up(self) -> None:
        """Take over what was added up until now."""
        self._totals.hand_over()

    def _take(self, hour_ms: int, table: TotalsTable) -> None:
        for (owner, model, route), totals in table.items():
            labels = self.routes.find(model, route)
            owned = self._own(labels, owner)
            for (state, status), count in totals.ended.items():
                self.ended[owned, str(state), status] += count
            if totals.turns:
                self.turns[owned] += totals.turns
            if totals.reported:
                self.tokens[owned] = self.tokens.get(owned, NO_USAGE) + totals.usage
            for kept, more in (
                (self.first_frame, totals.first_frame),
                (self.frame_gap, totals.frame_gap),
                (self.exchange, totals.seconds),
            ):
                if more.count:
                    kept[labels].merge(more)

    def _own(self, labels: Labels, owner: str) -> Labels:
        return (*labels, owner) if self.by_owner else labels


def _is_short(name: str) -> bool:
    """Whether a client's name for a model is fit to be kept and shown."""
    return len(name) <= LONGEST_NAME and name.isprintable()
