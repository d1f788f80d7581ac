"""What requests come to, as numbers: by model, route and owner.

This runs on every request, so it mostly appends; many happenings are counted at once, later. What
waits must be small. A turn holds its whole text, so only numbers of it wait. An error holds all
that led to it, and a model's name may be of megabytes: these do not wait.

A client may name any model where an upstream takes any name. Each name makes a dozen series, so
their number is limited here.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from gateway.exchange.model import ExchangeInfo, Route, Usage
from gateway.exchange.observer import (
    ExchangeEnded,
    Happening,
    RequestAnswered,
    RequestRefused,
    TurnBroke,
    TurnEnded,
    Wants,
)
from gateway.histogram import Histogram
from gateway.routing import LONGEST_NAME, Models

Labels = tuple[str, ...]
"""Of a route: the model's name for clients, the upstream, and the upstream's name for the model."""
WaitingTurn = tuple[ExchangeInfo, Route, Usage | None, int, float]
"""Of a turn: also its tokens, how many pauses it had between reads, and their seconds together."""

AT_ONCE = 256
MOST_UNLISTED = 100
OTHER = "other"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
NO_USAGE = Usage()
FIRST_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
GAP_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2.5, 10, 60)
WHOLE_BUCKETS = (0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


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

    wants: Wants = frozenset({ExchangeEnded, TurnEnded, TurnBroke, RequestRefused, RequestAnswered})

    def __init__(self, by_owner: bool = False) -> None:
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
        self._waiting: list[ExchangeEnded | WaitingTurn] = []

    def observe(self, at: float, happening: Happening) -> None:
        """Count what happened, or have it counted with many others later."""
        if isinstance(happening, TurnEnded):
            info = happening.info
            pauses = happening.reads - happening.first_reads if info.stream else 0
            turn = (info, happening.route, happening.turn.usage, pauses, happening.seconds)
            self._waiting.append(turn)
            self._work_off_some(may_wait=len(info.model) <= LONGEST_NAME)
        elif isinstance(happening, ExchangeEnded):
            self._waiting.append(happening)
            is_small = happening.error is None and len(happening.info.model) <= LONGEST_NAME
            self._work_off_some(may_wait=is_small)
        elif isinstance(happening, TurnBroke):
            self._count_turn(happening.info, happening.route)
        elif isinstance(happening, RequestRefused):
            self.refused[self._own((happening.error.code,), happening.info)] += 1
        elif isinstance(happening, RequestAnswered):
            method = happening.method if happening.method in METHODS else OTHER
            self.answered[(method, happening.status)] += 1

    def _work_off_some(self, may_wait: bool) -> None:
        if not may_wait or len(self._waiting) >= AT_ONCE:
            self.work_off()

    def work_off(self) -> None:
        """Count all that waits to be counted."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if isinstance(one, ExchangeEnded):
                self._count_exchange(one)
            else:
                self._count_turn(*one)

    def _count_exchange(self, ended: ExchangeEnded) -> None:
        labels = self.routes.find(ended.info.model, ended.route)
        self.ended[(self._own(labels, ended.info), str(ended.state), ended.status)] += 1
        self.exchange[labels].add(ended.seconds)
        if ended.first_seconds is not None:
            self.first_frame[labels].add(ended.first_seconds)

    def _count_turn(
        self,
        info: ExchangeInfo,
        route: Route,
        usage: Usage | None = None,
        pauses: int = 0,
        seconds: float = 0.0,
    ) -> None:
        labels = self.routes.find(info.model, route)
        owned = self._own(labels, info)
        self.turns[owned] += 1
        if usage is not None:
            self.tokens[owned] = self.tokens.get(owned, NO_USAGE) + usage
        if pauses > 0:
            # Nobody looks at the clock for each frame: all pauses of a turn count as equally long.
            self.frame_gap[labels].add(seconds / pauses, pauses)

    def _own(self, labels: Labels, info: ExchangeInfo) -> Labels:
        return (*labels, info.owner) if self.by_owner else labels


def _is_short(name: str) -> bool:
    """Whether a client's name for a model is fit to be kept and shown."""
    return len(name) <= LONGEST_NAME and name.isprintable()
