"""Counters, as Prometheus reads them."""

from types import SimpleNamespace
from typing import cast

from gateway.exchange.machine import State
from gateway.exchange.model import ExchangeInfo, Route, Usage
from gateway.exchange.observer import ExchangeEnded
from gateway.metrics import Metrics
from gateway.wire.http_client.upstream import Upstream


def report(seconds: float, first: float | None, usage: Usage | None = None) -> ExchangeEnded:
    info = ExchangeInfo("id", "id", "local", None, "m", "openai-chat", True)
    route = Route("up", "m")
    return ExchangeEnded(info, State.DONE, route, 2, 2, 200, seconds, first, 10, usage)


def test_numbers_are_shown_when_asked_for() -> None:
    metrics = Metrics(range(3))
    metrics.upstreams = {"up": cast(Upstream, SimpleNamespace(busy=7))}
    metrics.config_reloads = {"applied": 2}
    metrics.observe(0.0, report(0.2, 0.01, Usage(4, 5)))
    metrics.observe(0.0, report(1000, None))
    text = metrics.render().decode()
    for line in (
        "holdgate_exchanges_live 3.0",
        'holdgate_config_reloads_total{result="applied"} 2.0',
        'holdgate_exchanges_total{state="done",status="200",upstream="up"} 2.0',
        'holdgate_turns_total{upstream="up"} 4.0',
        'holdgate_tokens_total{direction="input",upstream="up"} 4.0',
        'holdgate_tokens_total{direction="output",upstream="up"} 5.0',
        'holdgate_first_frame_seconds_bucket{le="0.01",upstream="up"} 1.0',
        'holdgate_first_frame_seconds_count{upstream="up"} 1.0',
        'holdgate_exchange_seconds_bucket{le="0.1",upstream="up"} 0.0',
        'holdgate_exchange_seconds_bucket{le="0.5",upstream="up"} 1.0',
        'holdgate_exchange_seconds_bucket{le="600",upstream="up"} 1.0',
        'holdgate_exchange_seconds_bucket{le="+Inf",upstream="up"} 2.0',
        'holdgate_exchange_seconds_sum{upstream="up"} 1000.2',
        'holdgate_upstream_connections_busy{upstream="up"} 7.0',
    ):
        assert line in text.splitlines()
