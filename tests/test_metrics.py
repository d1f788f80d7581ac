"""Counters, as Prometheus reads them."""

from __future__ import annotations

import gc
import re
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from gateway.clock import ManualClock
from gateway.clock.timer_queue import TimerQueue
from gateway.errors import BadRequest, HoldgateError, Unauthorized, UpstreamBroke
from gateway.exchange.exchange_totals import AT_ONCE, MOST_KEYS, ExchangeTotals
from gateway.exchange.machine import State
from gateway.exchange.model import ExchangeInfo, Route, Stop, TurnEnd, Usage
from gateway.exchange.observer import (
    ExchangeEnded,
    Happening,
    ObserverGroup,
    RequestAnswered,
    RequestRefused,
    TurnBroke,
    TurnEnded,
)
from gateway.exchange.request_counts import MOST_UNLISTED, RequestCounts
from gateway.histogram import Histogram
from gateway.metrics import Metrics
from gateway.reminders.holds import DUE, Holds
from gateway.routing import Models, PublicModel
from gateway.version import __version__
from gateway.wire.http_client.upstream import Upstream
from tests.exposition import find_mistakes, read_families, read_labels

PAGE = (Path(__file__).parents[1] / "docs" / "observability.md").read_text()
ROUTE = Route("up", "gpt-9")
WHERE = 'model="m",upstream="up",upstream_model="gpt-9"'


def info(model: str = "m", owner: str = "ann", stream: bool = True) -> ExchangeInfo:
    return ExchangeInfo("id", "id", owner, None, model, "openai-chat", stream)


def exchange(
    seconds: float = 0.2,
    first: float | None = None,
    *,
    about: ExchangeInfo | None = None,
    route: Route = ROUTE,
    error: HoldgateError | None = None,
) -> ExchangeEnded:
    about = about or info()
    status = 200 if error is None else error.status
    state = State.DONE if error is None else State.FAILED
    return ExchangeEnded(about, state, route, 1, 1, status, seconds, first, 10, None, error)


def turn(
    usage: Usage | None = None,
    reads: int = 1,
    seconds: float = 0.0,
    *,
    about: ExchangeInfo | None = None,
    route: Route = ROUTE,
) -> TurnEnded:
    end = TurnEnd(Stop.STOP, usage=usage)
    return TurnEnded(end, lambda: "Hi", 10, reads, 1, route, seconds, about or info())


class Counted:
    """All that counts requests, told of the same things as in the gateway."""

    def __init__(self, by_owner: bool = False) -> None:
        self.totals = ExchangeTotals(ManualClock(0))
        self.requests = RequestCounts(self.totals, by_owner)
        self._group = ObserverGroup(self.totals, self.requests)

    def observe(self, at: float, happening: Happening) -> None:
        self._group.observe(at, happening)


def show(counts: Counted) -> str:
    return Metrics(range(3), counts.requests).render().decode()


def full_page() -> str:
    """Return a page on which every metric has a sample."""
    counts = Counted()
    for happening in (
        turn(Usage(9, 8, 7, 6), 3, 0.5),
        exchange(0.2, 0.01),
        RequestRefused(info(), "POST", "/v1/messages", BadRequest("No.")),
        RequestAnswered(info(), "GET", "/api/status", 200, 0.1),
    ):
        counts.observe(0.0, happening)
    metrics = Metrics(range(3), counts.requests)
    metrics.upstreams = {"up": cast(Upstream, SimpleNamespace(busy=7))}
    metrics.holds = Holds(TimerQueue(ManualClock(0)), iter([0.0, 30.0]).__next__)
    metrics.holds.over(metrics.holds.begin("ann", "s"), DUE)
    metrics.runs = Counter(ok=1)
    metrics.config_reloads = Counter(applied=2)
    return metrics.render().decode()


def test_numbers_are_shown_when_asked_for() -> None:
    counts = Counted()
    counts.observe(0.0, turn(Usage(4, 5, cached=3, reasoning=2)))
    counts.observe(0.0, turn(Usage(40, 50)))
    counts.observe(0.0, exchange(0.2, 0.01))
    counts.observe(0.0, exchange(1000))
    lines = show(counts).splitlines()
    for line in (
        f'holdgate_build_info{{version="{__version__}"}} 1.0',
        "holdgate_exchanges_live 3.0",
        'holdgate_exchanges_total{model="m",state="done",status="200",upstream="up",'
        'upstream_model="gpt-9"} 2.0',
        f"holdgate_turns_total{{{WHERE}}} 2.0",
        f'holdgate_tokens_total{{direction="input",{WHERE}}} 44.0',
        f'holdgate_tokens_total{{direction="output",{WHERE}}} 55.0',
        f"holdgate_cached_tokens_total{{{WHERE}}} 3.0",
        f"holdgate_reasoning_tokens_total{{{WHERE}}} 2.0",
        f'holdgate_first_frame_seconds_bucket{{le="0.01",{WHERE}}} 1.0',
        f"holdgate_first_frame_seconds_count{{{WHERE}}} 1.0",
        f'holdgate_exchange_seconds_bucket{{le="0.1",{WHERE}}} 0.0',
        f'holdgate_exchange_seconds_bucket{{le="0.5",{WHERE}}} 1.0',
        f'holdgate_exchange_seconds_bucket{{le="600",{WHERE}}} 1.0',
        f'holdgate_exchange_seconds_bucket{{le="+Inf",{WHERE}}} 2.0',
        f"holdgate_exchange_seconds_sum{{{WHERE}}} 1000.2",
    ):
        assert line in lines


def test_the_whole_page_follows_prometheus() -> None:
    assert find_mistakes(full_page()) == []


@pytest.mark.parametrize(
    "page",
    [
        "# HELP holdgate_x_total It.\n# TYPE holdgate_x_total gauge\nholdgate_x_total 1\n",
        "# HELP holdgate_x_ms It.\n# TYPE holdgate_x_ms gauge\nholdgate_x_ms 1\n",
        "# HELP holdgate_x It.\n# TYPE holdgate_x histogram\n"
        'holdgate_x_bucket{le="+Inf"} 1\nholdgate_x_count 1\nholdgate_x_sum 1\n',
        "# HELP holdgate_x_seconds It.\n# TYPE holdgate_x_seconds histogram\n"
        'holdgate_x_seconds_bucket{le="1"} 2\nholdgate_x_seconds_bucket{le="+Inf"} 1\n'
        "holdgate_x_seconds_count 1\nholdgate_x_seconds_sum 1\n",
        "# TYPE holdgate_x gauge\nholdgate_x 1\n",
        "# HELP holdgate_x It.\n# TYPE holdgate_x gauge\nholdgate_x 1\nholdgate_x 1\n",
        "# HELP holdgate_x it\n# TYPE holdgate_x gauge\nholdgate_x 1\n",
        '# HELP holdgate_x It.\n# TYPE holdgate_x gauge\nholdgate_x{job="a"} 1\n',
        "# HELP x It.\n# TYPE x gauge\nx 1\n",
    ],
)
def test_the_rules_find_mistakes(page: str) -> None:
    assert find_mistakes(page) != []


def test_the_docs_list_every_metric_with_its_labels() -> None:
    rows = re.findall(r"^\| ((?:`holdgate_[^`]+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    listed = [re.findall(r"`(\w+)(?:\{([^}]*)\})?`", row) for row in rows]
    documented = {name: set(filter(None, of.split(","))) for row in listed for name, of in row}
    assert documented == read_labels(full_page())


def test_the_queries_of_the_docs_ask_for_what_there_is() -> None:
    queries = PAGE.partition("Some useful queries:")[2].partition("```\n\n")[0]
    asked = set(re.findall(r"holdgate_\w+", queries))
    samples = [
        sample for family in read_families(full_page()).values() for sample in family.samples
    ]
    assert len(asked) > 3
    assert asked <= {sample.name for sample in samples}


class TestGaps:
    def test_all_gaps_of_a_turn_count_as_equally_long(self) -> None:
        counts = Counted()
        counts.observe(0.0, turn(reads=5, seconds=0.16))
        lines = show(counts).splitlines()
        assert f'holdgate_frame_gap_seconds_bucket{{le="0.03",{WHERE}}} 0.0' in lines
        assert f'holdgate_frame_gap_seconds_bucket{{le="0.05",{WHERE}}} 4.0' in lines
        assert f"holdgate_frame_gap_seconds_count{{{WHERE}}} 4.0" in lines
        assert f"holdgate_frame_gap_seconds_sum{{{WHERE}}} 0.16" in lines

    def test_reads_before_the_first_frame_do_not_count(self) -> None:
        """Some upstreams send comments until the model has something to say."""
        counts = Counted()
        slow = msgspec.structs.replace(turn(reads=9, seconds=0.16), first_reads=5)
        counts.observe(0.0, slow)
        page = show(counts)
        assert f"holdgate_frame_gap_seconds_count{{{WHERE}}} 4.0" in page
        assert f"holdgate_frame_gap_seconds_sum{{{WHERE}}} 0.16" in page

    @pytest.mark.parametrize(
        "ended", [turn(reads=1, seconds=9.0), turn(reads=5, about=info(stream=False))]
    )
    def test_one_read_and_a_whole_body_have_none(self, ended: TurnEnded) -> None:
        counts = Counted()
        counts.observe(0.0, ended)
        assert "holdgate_frame_gap_seconds_count" not in show(counts)


class TestHistograms:
    def test_a_bound_belongs_to_its_bucket(self) -> None:
        histogram = Histogram((1, 2.5))
        for seconds in (0.5, 1, 2, 3):
            histogram.add(seconds)
        assert histogram.buckets() == [("1", 2.0), ("2.5", 3.0), ("+Inf", 4.0)]
        assert histogram.sum == 6.5

    def test_one_duration_may_be_seen_often(self) -> None:
        histogram = Histogram((1,))
        histogram.add(0.5, 3)
        assert histogram.buckets() == [("1", 3.0), ("+Inf", 3.0)]
        assert histogram.sum == 1.5


def test_other_rooms_count_for_themselves() -> None:
    lines = full_page().splitlines()
    assert 'holdgate_upstream_connections_busy{upstream="up"} 7.0' in lines
    assert 'holdgate_config_reloads_total{result="applied"} 2.0' in lines
    assert 'holdgate_runs_total{status="ok"} 1.0' in lines


def test_holds_are_counted_by_their_length() -> None:
    lines = full_page().splitlines()
    assert 'holdgate_hold_seconds_bucket{le="20"} 0.0' in lines
    assert 'holdgate_hold_seconds_bucket{le="30"} 1.0' in lines
    assert "holdgate_hold_seconds_sum 30.0" in lines
    assert "holdgate_hold_seconds_count 1.0" in lines


def test_a_turn_counts_for_the_route_that_answered_it() -> None:
    """An exchange is counted by its last route only."""
    counts = Counted()
    counts.observe(0.0, turn(Usage(1, 2)))
    counts.observe(0.0, TurnBroke(2, Route("b", "x"), info()))
    counts.observe(0.0, exchange(route=Route("b", "x"), error=UpstreamBroke("It broke off.")))
    lines = show(counts).splitlines()
    assert f"holdgate_turns_total{{{WHERE}}} 1.0" in lines
    assert 'holdgate_turns_total{model="m",upstream="b",upstream_model="x"} 1.0' in lines
    assert f'holdgate_tokens_total{{direction="input",{WHERE}}} 1.0' in lines
    failed = 'model="m",state="failed",status="502",upstream="b",upstream_model="x"'
    assert f"holdgate_exchanges_total{{{failed}}} 1.0" in lines


class TestRefusals:
    def test_they_are_counted_by_code(self) -> None:
        counts = Counted()
        for error in (BadRequest("No."), BadRequest("No!"), Unauthorized("Who?")):
            counts.observe(0.0, RequestRefused(info(owner=""), "POST", "/v1/x", error))
        lines = show(counts).splitlines()
        assert 'holdgate_requests_refused_total{code="bad_request"} 2.0' in lines
        assert 'holdgate_requests_refused_total{code="invalid_api_key"} 1.0' in lines

    def test_answers_are_counted_by_method_and_status_and_not_by_path(self) -> None:
        counts = Counted()
        for method, path in (("GET", "/a/1"), ("GET", "/a/2"), ("BREW", "/a")):
            counts.observe(0.0, RequestAnswered(info(), method, path, 200, 0.1))
        lines = show(counts).splitlines()
        assert 'holdgate_requests_answered_total{method="GET",status="200"} 2.0' in lines
        assert 'holdgate_requests_answered_total{method="other",status="200"} 1.0' in lines


class TestOwners:
    HAPPENINGS = (
        turn(Usage(1, 2)),
        exchange(),
        RequestRefused(info(), "POST", "/v1/x", BadRequest("No.")),
    )
    COUNTERS = ("exchanges", "turns", "tokens", "cached_tokens", "requests_refused")

    def test_they_are_not_shown_unless_the_operator_wants_it(self) -> None:
        counts = Counted()
        for happening in self.HAPPENINGS:
            counts.observe(0.0, happening)
        assert "owner" not in show(counts)

    def test_counters_have_them_and_histograms_do_not(self) -> None:
        counts = Counted(by_owner=True)
        for happening in self.HAPPENINGS:
            counts.observe(0.0, happening)
        page = show(counts)
        assert find_mistakes(page) == []
        families = read_families(page)
        for name in self.COUNTERS:
            samples = families[f"holdgate_{name}"].samples
            assert {sample.labels["owner"] for sample in samples} == {"ann"}
        assert "owner" not in read_labels(page)["holdgate_exchange_seconds"]


def names(page: str) -> set[tuple[str, str]]:
    """Return the names of models on a page: clients' and the upstream's."""
    labels = [sample.labels for sample in read_families(page)["holdgate_turns"].samples]
    return {(one["model"], one["upstream_model"]) for one in labels}


class TestModelNames:
    """A client may make up names where an upstream takes any; the page must not grow by it."""

    def test_there_are_only_so_many(self) -> None:
        counts = Counted()
        for number in range(MOST_UNLISTED + 50):
            made_up = f"model-{number}"
            counts.observe(0.0, turn(about=info(made_up), route=Route("up", made_up)))
        page = show(counts)
        assert len(names(page)) == MOST_UNLISTED + 1
        other = 'model="other",upstream="up",upstream_model="other"'
        assert f"holdgate_turns_total{{{other}}} 50.0" in page

    def test_those_of_the_operator_are_always_there(self) -> None:
        counts = Counted()
        counts.requests.routes.models = Models([PublicModel("m", (ROUTE,))], ["up"])
        for number in range(MOST_UNLISTED + 50):
            # One way to make up names is to choose the route, not the model.
            counts.observe(0.0, turn(route=Route("up", f"model-{number}")))
        counts.observe(0.0, turn())
        assert ("m", ROUTE.model) in names(show(counts))

    def test_models_may_come_and_go(self) -> None:
        counts = Counted()
        for number in range(MOST_UNLISTED):
            counts.observe(0.0, turn(about=info(f"model-{number}")))
        counts.requests.catch_up()
        counts.requests.routes.models = Models([PublicModel("new", (ROUTE,))])
        counts.observe(0.0, turn(about=info("new")))
        counts.observe(0.0, turn(about=info("model-7")))
        page = show(counts)
        assert ("new", ROUTE.model) in names(page)
        assert ("other", "other") not in names(page)

    @pytest.mark.parametrize("name", ["x" * 101, "a\nb", "\ud800", "\x00"])
    def test_what_is_not_fit_to_be_shown_is_not(self, name: str) -> None:
        counts = Counted()
        counts.observe(0.0, turn(about=info(name)))
        counts.observe(0.0, exchange(about=info(name)))
        page = show(counts)
        assert names(page) == {("other", "other")}
        assert find_mistakes(page) == []

    def test_quotes_are_escaped(self) -> None:
        counts = Counted()
        counts.observe(0.0, turn(about=info('a"} 1\\'), route=Route("up", "x")))
        assert names(show(counts)) == {('a"} 1\\', "x")}


class Text:
    """The text of a turn, which may be large."""

    def read(self) -> str:
        return "Hi"


class Name(str):
    """A text that can be watched."""


class TestMemory:
    """Sums are kept until somebody takes them over; nothing large is."""

    def test_a_turn_is_let_go_of(self) -> None:
        counts, text = Counted(), Text()
        gone = weakref.ref(text)
        counts.observe(0.0, TurnEnded(TurnEnd(Stop.STOP), text.read, 10, 1, 1, ROUTE, 0.0, info()))
        del text
        gc.collect()
        assert gone() is None

    @pytest.mark.parametrize(
        "make",
        [
            lambda error: exchange(error=error),
            lambda error: RequestRefused(info(), "POST", "/v1/x", error),
        ],
    )
    def test_an_error_is_let_go_of(self, make: Callable[[HoldgateError], Happening]) -> None:
        counts, error = Counted(), UpstreamBroke("It broke off.")
        gone = weakref.ref(error)
        counts.observe(0.0, make(error))
        del error
        gc.collect()
        assert gone() is None

    @pytest.mark.parametrize("happening", [turn, exchange])
    def test_a_name_of_megabytes_is_let_go_of(self, happening: Callable[..., Happening]) -> None:
        counts, long = Counted(), Name("m" * 1_000_000)
        gone = weakref.ref(long)
        counts.observe(0.0, happening(about=info(long), route=Route("up", long)))
        del long
        gc.collect()
        assert gone() is None

    def test_names_that_are_made_up_do_not_pile_up(self) -> None:
        counts = Counted()
        for number in range(MOST_KEYS + AT_ONCE):
            counts.observe(0.0, turn(about=info(f"m{number}")))
        assert sum(counts.requests.turns.values()) >= MOST_KEYS

    def test_nothing_waits_for_ever(self) -> None:
        counts = Counted()
        for _ in range(AT_ONCE):
            counts.observe(0.0, turn())
        assert not counts.totals._waiting
