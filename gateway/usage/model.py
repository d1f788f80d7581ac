"""Usage as values: what was used in an hour, what tokens cost, and how both are added up."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal, get_args

import msgspec

from gateway.exchange.model import Route, Usage
from gateway.timestamps import HOUR_MS, moment, start_of_hour

KEPT_MS = 400 * 24 * HOUR_MS
OTHER = "(other)"
"""The model of all names that are too many or too long to be counted one by one."""
LONGEST_MODEL = 200
# A dollar for a million tokens is a millionth of a dollar for one, and so many of its millionths.
PICOS = 10**6

Group = Literal["owner", "model", "upstream", "hour"]
GROUPS: tuple[Group, ...] = get_args(Group)

RowKey = tuple[str, int, str, str]
"""The owner, the begin of the hour in UTC milliseconds, the model, the upstream."""
PLACES: Mapping[Group, int] = {"owner": 0, "hour": 1, "model": 2, "upstream": 3}
"""Where each value stands in a row's key."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_instant = re.compile(
    r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?", re.ASCII
)


class UsageCounts(msgspec.Struct, frozen=True, gc=False):
    """What was used: the numbers of one row, or of several together."""

    exchanges: int = 0
    turns: int = 0
    """How many turns began to answer."""
    reported_turns: int = 0
    """Of how many the upstream reported tokens."""
    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    cost_micros: int | None = None
    """In millionths of a dollar; None unless a model with a price reported tokens."""

    def __add__(self, other: UsageCounts) -> UsageCounts:
        cost, more = self.cost_micros, other.cost_micros
        return UsageCounts(
            self.exchanges + other.exchanges,
            self.turns + other.turns,
            self.reported_turns + other.reported_turns,
            self.input + other.input,
            self.cached + other.cached,
            self.output + other.output,
            self.reasoning + other.reasoning,
            more if cost is None else cost if more is None else cost + more,
        )


UsageTable = Mapping[RowKey, UsageCounts]


class Spending(msgspec.Struct, frozen=True):
    """What an owner spent: what budgets go by."""

    tokens: int = 0
    cost_micros: int = 0


NO_USAGE = UsageCounts()


class UsageBatch(msgspec.Struct, frozen=True):
    """Counts that are added to the stored ones together, and only once.

    A writer numbers its batches and sends none before the one before it is stored.
    """

    writer: str
    number: int
    rows: UsageTable


class UsageQuery(msgspec.Struct, frozen=True):
    """Which usage is asked for: from one hour until before another, of an owner or of all."""

    from_ms: int
    until_ms: int
    owner: str | None = None
    group_by: tuple[Group, ...] = ()
    """What is told apart; all else is added up."""
    most: int = 1
    """How many groups are wanted at most; who finds more returns one more."""

    def covers(self, key: RowKey) -> bool:
        """Tell whether a row is asked for."""
        owner, hour_ms, _, _ = key
        return self.from_ms <= hour_ms < self.until_ms and self.owner in (None, owner)


class Price(msgspec.Struct, frozen=True, gc=False):
    """What one token costs, in millionths of a millionth of a dollar."""

    input: int
    cached: int
    output: int

    def cost_picos(self, usage: Usage) -> int:
        """Return what a turn cost, exactly."""
        fresh = max(0, usage.input - usage.cached)
        return fresh * self.input + usage.cached * self.cached + usage.output * self.output


def make_price(dollars: Mapping[str, Decimal]) -> Price:
    """Make a price of dollars for a million tokens, with at most six digits after the point.

    Cached input costs as much as other input unless it has a price of its own.
    """
    picos = {name: int(value * PICOS) for name, value in dollars.items()}
    return Price(picos["input"], picos.get("cached", picos["input"]), picos["output"])


PricedModel = tuple[str, Collection[Route], Price | None]
"""The name of a public model, the routes it lists, and its price if it has one."""


class PriceList:
    """What the tokens of a turn cost, by the public model that was asked for and by its route.

    A directive may lead to a route that the model does not list. It costs what the dearest public
    model with this route costs: nobody gets a model cheaper by asking for another one.
    """

    def __init__(self, models: Iterable[PricedModel] = ()) -> None:
        self._prices: dict[tuple[str, Route], Price | None] = {}
        self._dearest: dict[Route, Price] = {}
        for name, routes, price in models:
            for route in routes:
                self._prices[name, route] = price
                if price is not None:
                    self._dearest[route] = _dearer(price, self._dearest.get(route, price))

    def find(self, model: str, route: Route) -> Price | None:
        """Return what a model's tokens cost on this route; None: they have no price."""
        key = (model, route)
        return self._prices[key] if key in self._prices else self._dearest.get(route)


def _dearer(one: Price, other: Price) -> Price:
    """Return the higher price of each kind of token."""
    return Price(
        max(one.input, other.input), max(one.cached, other.cached), max(one.output, other.output)
    )


def is_countable(model: str) -> bool:
    """Tell whether a model's name can be stored as it is: a client may have written anything."""
    return len(model) <= LONGEST_MODEL and model.isprintable()


def find_spending(counts: UsageCounts) -> Spending:
    """Return what counts mean for a budget."""
    return Spending(counts.input + counts.output, counts.cost_micros or 0)


def add_up(rows: Iterable[tuple[RowKey, UsageCounts]], group_by: Collection[Group]) -> UsageTable:
    """Add rows up by groups; what is not told apart is empty, or 0, in their keys."""
    total: dict[RowKey, UsageCounts] = {}
    for (owner, hour_ms, model, upstream), counts in rows:
        key = (
            owner if "owner" in group_by else "",
            hour_ms if "hour" in group_by else 0,
            model if "model" in group_by else "",
            upstream if "upstream" in group_by else "",
        )
        total[key] = total.get(key, NO_USAGE) + counts
    return total


def sort_groups(rows: UsageTable, group_by: tuple[Group, ...]) -> list[tuple[RowKey, UsageCounts]]:
    """Return groups in the order of their values, the first named value first."""
    places = [PLACES[name] for name in group_by]
    return sorted(rows.items(), key=lambda row: [row[0][place] for place in places])


def end_of_hour(ms: int) -> int:
    """Return the first full hour that is not before an instant."""
    return -start_of_hour(-ms)


def start_of_month(ms: int) -> int:
    """Return when the month of an instant began, in UTC."""
    at = moment(ms // 1000).replace(day=1, hour=0, minute=0, second=0)
    return (at - _EPOCH) // _MS


def read_time(text: str) -> int | None:
    """Read a date, which begins at midnight UTC, or an instant of RFC 3339; None: it is neither."""
    # In a URL, a plus sign stands for a space.
    text = text.strip().upper().replace(" ", "+")
    if not _instant.fullmatch(text):
        return None
    try:
        at = datetime.fromisoformat(text if "T" in text else f"{text}T00:00:00Z")
    except ValueError:
        return None
    return (at - _EPOCH) // _MS
