"""Usage: counts, hours, prices, groups."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.exchange.exchange_totals import MOST_TOKENS, limit_usage
from gateway.exchange.model import Route, Usage
from gateway.timestamps import HOUR_MS, iso, start_of_hour
from gateway.usage.model import (
    GROUPS,
    NO_USAGE,
    PICOS,
    Group,
    Price,
    PriceList,
    RowKey,
    Spending,
    UsageCounts,
    UsageQuery,
    add_up,
    end_of_hour,
    find_spending,
    is_countable,
    make_price,
    read_time,
    sort_groups,
    start_of_month,
)

NINE = 1_793_782_800_000
"""2026-11-04T09:00:00Z"""
ROWS: dict[RowKey, UsageCounts] = {
    ("ann", NINE, "large", "a"): UsageCounts(1, 2, 1, 100, 10, 20, 5, 7),
    ("ann", NINE, "small", "b"): UsageCounts(2, 2, 2, 50, 0, 5, 0),
    ("ann", NINE + HOUR_MS, "large", "b"): UsageCounts(4, 4, 4, 1, 1, 1, 1, 1),
    ("bob", NINE, "large", "a"): UsageCounts(8, 8, 8, 3, 0, 3, 0, 0),
}
TOTAL = UsageCounts(15, 16, 15, 154, 11, 29, 6, 8)

counts = st.builds(
    UsageCounts,
    *[st.integers(0, 10**12)] * 7,
    cost_micros=st.none() | st.integers(0, 10**12),
)


@given(counts, counts, counts)
def test_adding_knows_no_order(one: UsageCounts, two: UsageCounts, three: UsageCounts) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert one + NO_USAGE == one


CHEAP, DEAR, ODD = Price(1, 1, 1), Price(100, 10, 1000), Price(200, 20, 500)
SMALL, BIG, OTHER_ROUTE = Route("a", "small"), Route("a", "big"), Route("a", "other")


@pytest.mark.parametrize(
    "model, route, price",
    [
        ("small", SMALL, CHEAP),
        ("big", BIG, DEAR),
        # A directive chose a route that the model does not list.
        ("small", BIG, Price(200, 20, 1000)),
        ("free", BIG, None),
        ("free", SMALL, CHEAP),
        ("unknown", SMALL, CHEAP),
        ("small", OTHER_ROUTE, None),
    ],
)
def test_a_route_costs_what_its_dearest_model_costs(
    model: str, route: Route, price: Price | None
) -> None:
    models = [
        ("small", (SMALL,), CHEAP),
        ("big", (BIG,), DEAR),
        ("odd", (BIG,), ODD),
        ("free", (BIG,), None),
    ]
    assert PriceList(models).find(model, route) == price


def test_a_cost_that_is_unknown_does_not_hide_one_that_is_known() -> None:
    free, priced = UsageCounts(turns=1), UsageCounts(turns=1, cost_micros=0)
    assert (free + free).cost_micros is None
    assert (free + priced).cost_micros == 0
    assert (priced + free).cost_micros == 0
    assert (priced + UsageCounts(cost_micros=3)).cost_micros == 3


@pytest.mark.parametrize(
    ("dollars", "usage", "picos"),
    [
        pytest.param("2.5 0.25 10", Usage(1000, 100), 2_500_000_000 + 1_000_000_000, id="plain"),
        pytest.param(
            "2.5 0.25 10", Usage(1000, 0, 400), 600 * 2_500_000 + 100_000_000, id="cached"
        ),
        pytest.param("2.5 - 10", Usage(1000, 0, 400), 2_500_000_000, id="no price for cached"),
        pytest.param("0.000001 0 0", Usage(3, 9), 3, id="the smallest price"),
        pytest.param("0.1 0.2 0.3", Usage(1, 1, 1), 500_000, id="what floats get wrong"),
        pytest.param("1 1 1", Usage(0, 5, 3), 8_000_000, id="more cached than told"),
        pytest.param("1 1 10", Usage(0, 5, 0, 5), 50_000_000, id="reasoning is output"),
    ],
)
def test_what_a_turn_costs(dollars: str, usage: Usage, picos: int) -> None:
    named = zip(("input", "cached", "output"), dollars.split(), strict=True)
    price = make_price({name: Decimal(text) for name, text in named if text != "-"})
    assert price.cost_picos(usage) == picos


@given(
    st.lists(st.decimals(0, 1_000_000, places=6), min_size=3, max_size=3),
    st.lists(st.integers(0, MOST_TOKENS), min_size=3, max_size=3),
)
def test_costs_are_exact(dollars: list[Decimal], tokens: list[int]) -> None:
    price = make_price(dict(zip(("input", "cached", "output"), dollars, strict=True)))
    fresh, cached, output = tokens
    exact = sum(
        Fraction(dollar) * count for dollar, count in zip(dollars, tokens, strict=True)
    ) / Fraction(1_000_000)
    cost = price.cost_picos(Usage(fresh + cached, output, cached))
    assert Fraction(cost, PICOS * 1_000_000) == exact


def test_a_price_is_a_value() -> None:
    assert make_price({"output": Decimal(1), "input": Decimal(2)}) == Price(
        2_000_000, 2_000_000, 1_000_000
    )


@pytest.mark.parametrize(
    ("reported", "bound"),
    [
        (Usage(1, 2, 3, 4), Usage(1, 2, 3, 4)),
        (Usage(-1, 2, -3, 4), Usage(0, 2, 0, 4)),
        (Usage(10**30, 1, 0, 10**30), Usage(MOST_TOKENS, 1, 0, MOST_TOKENS)),
    ],
)
def test_whatever_is_reported_can_be_counted(reported: Usage, bound: Usage) -> None:
    assert limit_usage(reported) == bound


def test_what_budgets_go_by() -> None:
    assert find_spending(UsageCounts(1, 2, 2, 10, 4, 5, 3)) == Spending(15, 0)
    assert find_spending(TOTAL) == Spending(183, 8)


@pytest.mark.parametrize(
    ("model", "countable"),
    [("gpt-5", True), ("模型 5", True), ("x" * 200, True), ("x" * 201, False)]
    + [(odd, False) for odd in ("a\0b", "a\nb", "\ud800")],
)
def test_names_of_models(model: str, countable: bool) -> None:
    assert is_countable(model) is countable


def test_all_is_added_up_unless_it_is_told_apart() -> None:
    assert add_up(ROWS.items(), ()) == {("", 0, "", ""): TOTAL}
    assert add_up(ROWS.items(), GROUPS) == ROWS
    assert add_up((), GROUPS) == {}
    alone: tuple[Group, ...] = ("owner",)
    by_owner = add_up(ROWS.items(), alone)
    assert {key[0]: found.exchanges for key, found in by_owner.items()} == {"ann": 7, "bob": 8}
    by_hour = add_up(ROWS.items(), ("model", "hour"))
    assert {(key[1], key[2]): found.exchanges for key, found in by_hour.items()} == {
        (NINE, "large"): 9,
        (NINE, "small"): 2,
        (NINE + HOUR_MS, "large"): 4,
    }


@given(st.lists(st.sampled_from(GROUPS), unique=True), st.lists(st.sampled_from(GROUPS)))
def test_groups_of_groups_are_groups(some: list[Group], more: list[Group]) -> None:
    fine = add_up(ROWS.items(), {*some, *more})
    assert add_up(fine.items(), some) == add_up(ROWS.items(), some)


def test_groups_are_sorted_as_they_are_named() -> None:
    by: tuple[Group, ...] = ("upstream", "owner")
    found = sort_groups(add_up(ROWS.items(), by), by)
    assert [(key[3], key[0]) for key, _ in found] == [("a", "ann"), ("a", "bob"), ("b", "ann")]


@pytest.mark.parametrize(
    ("query", "covered"),
    [
        (UsageQuery(NINE, NINE + HOUR_MS), 3),
        (UsageQuery(NINE + 1, NINE + HOUR_MS), 0),
        (UsageQuery(NINE, NINE + HOUR_MS + 1), 4),
        (UsageQuery(NINE, NINE + HOUR_MS, "ann"), 2),
        (UsageQuery(0, NINE), 0),
    ],
)
def test_which_rows_are_asked_for(query: UsageQuery, covered: int) -> None:
    assert sum(map(query.covers, ROWS)) == covered


def test_hours_and_months() -> None:
    assert iso(NINE) == "2026-11-04T09:00:00.000Z"
    assert [start_of_hour(NINE + ms) - NINE for ms in (0, 1, HOUR_MS - 1)] == [0, 0, 0]
    assert [end_of_hour(NINE + ms) - NINE for ms in (-1, 0, 1)] == [0, 0, HOUR_MS]
    assert iso(start_of_month(NINE + 1)) == "2026-11-01T00:00:00.000Z"
    assert iso(start_of_month(start_of_month(NINE))) == "2026-11-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-04", "2026-11-04T00:00:00.000Z"),
        ("2026-11-04T09:00:00Z", iso(NINE)),
        (" 2026-11-04t09:00z ", iso(NINE)),
        ("2026-11-04T17:00:00+08:00", iso(NINE)),
        ("2026-11-04T17:00:00 08:00", iso(NINE)),
        ("2026-11-04T08:59:59.999999-00:00", "2026-11-04T08:59:59.999Z"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
    ],
)
def test_times_that_can_be_read(text: str, at: str) -> None:
    found = read_time(text)
    assert found is not None
    assert iso(found) == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026",
        "2026-11",
        "20261104",
        "2026-02-30",
        "２０２６-11-04",
        "2026-11-04 09:00Z",
        "2026-11-04T09:00:00",
        "2026-11-04T25:00:00Z",
        "2026-11-04T09:00:00+99:00",
    ],
)
def test_times_that_cannot(text: str) -> None:
    assert read_time(text) is None
