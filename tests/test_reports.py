"""One line about each request, in both forms, and they say the same."""

import io
import json

import msgspec
import pytest

from gateway.errors import BadRequest, Draining, HoldgateError, Unavailable, UpstreamBroke
from gateway.exchange import exchange_log as reports
from gateway.exchange.events import RouteFailed
from gateway.exchange.exchange_log import ExchangeLog
from gateway.exchange.machine import State
from gateway.exchange.model import ExchangeInfo, Route, Stop, ToolCall, TurnEnd, Usage
from gateway.exchange.observer import (
    ExchangeEnded,
    Happening,
    RequestAnswered,
    RequestRefused,
    RouteTried,
    StateChanged,
    ToolReturned,
    TurnBroke,
    TurnEnded,
    UsageRefused,
)
from gateway.logs import EventLog

UP = Route("up", "m-1")
INFO = ExchangeInfo("req_1", "mine", "ann b", "s 1", "m", "openai-chat", True)
PLAIN = ExchangeInfo("req_2", "req_2", "ann", None, "m\n" * 99, "openai-chat")
DONE = ExchangeEnded(INFO, State.DONE, UP, 2, 3, 200, 0.25, 0.0123, 99, Usage(4, 5, 2, 1))
LONG = Route("up", "m" * 1_000_000)
BROKE = UpstreamBroke("It broke.")
FAILED = ExchangeEnded(PLAIN, State.FAILED, UP, 1, 1, 502, 1, None, 0, None, BROKE)


async def line(form: str, happening: Happening, level: str = "info") -> str:
    stream = io.StringIO()
    event_log = EventLog(form, stream, lambda: 0, level)
    log = ExchangeLog(event_log)
    if type(happening) in log.wants:
        log.observe(0.0, happening)
    event_log.flush()
    return stream.getvalue()


async def test_text() -> None:
    assert await line("text", DONE) == (
        '1970-01-01T00:00:00.000Z INFO exchange exchange=req_1 request=mine owner="ann b" '
        'session="s 1" dialect=openai-chat model=m upstream=up upstream_model=m-1 state=done '
        "status=200 stream=True turns=2 tries=3 first_ms=12.3 ms=250.0 bytes=99 tokens_in=4 "
        "tokens_cached=2 tokens_out=5 tokens_reasoning=1\n"
    )
    failed = await line("text", FAILED)
    assert failed.count("\n") == 1
    assert "WARNING exchange exchange=req_2 owner=ann dialect=openai-chat model=" in failed
    assert (
        'state=failed status=502 code=upstream_broke says="It broke." stream=False turns=1 '
        "tries=1 ms=1000.0 bytes=0\n" in failed
    )


async def test_json() -> None:
    told = json.loads(await line("json", DONE))
    assert {k: told[k] for k in ("exchange", "request", "session", "state", "first_ms", "ms")} == {
        "exchange": "req_1",
        "request": "mine",
        "session": "s 1",
        "state": "done",
        "first_ms": 12.3,
        "ms": 250.0,
    }
    assert (told["level"], told["code"], told["tokens_out"]) == ("info", None, 5)
    told = json.loads(await line("json", FAILED))
    assert (told["level"], told["says"], told["first_ms"]) == ("warning", "It broke.", None)


async def test_of_a_long_name_only_the_beginning_is_kept() -> None:
    reports._quote_name.cache_clear()
    for end in "ab":
        info = msgspec.structs.replace(INFO, model="m" * 100 + end, session=None)
        report = msgspec.structs.replace(DONE, info=info)
        assert f" model={'m' * 100} " in await line("text", report)
    owner_model_and_upstream_model = 3
    assert reports._quote_name.cache_info().currsize == owner_model_and_upstream_model


@pytest.mark.parametrize(
    "happening",
    [
        TurnEnded(TurnEnd(Stop.STOP), str, 10, 2, 2, LONG, 0.5, INFO),
        RouteFailed(BROKE, LONG),
        RouteTried(1, LONG),
        TurnBroke(1, LONG, INFO),
    ],
    ids=lambda happening: type(happening).__name__,
)
async def test_steps_keep_only_the_beginning_too(happening: Happening) -> None:
    """A client may name any model where an upstream takes any name."""
    for form in ("text", "json"):
        assert 0 < len(await line(form, happening, "debug")) < 1000


@pytest.mark.parametrize(
    "error, level",
    [
        (BadRequest("No."), "WARNING"),
        (Draining("Wait."), "WARNING"),
        (BROKE, "WARNING"),
        (Unavailable("The store is down."), "ERROR"),
    ],
)
async def test_a_refused_request_has_its_line_and_level(error: HoldgateError, level: str) -> None:
    refused = RequestRefused(INFO, "POST", "/v1/messages", error)
    said = await line("text", refused)
    assert said.startswith(f"1970-01-01T00:00:00.000Z {level} refused exchange=req_1 request=mine ")
    assert f"path=/v1/messages status={error.status} code={error.code} says=" in said


async def test_other_requests_have_a_line_and_probes_only_one_for_debugging() -> None:
    asked = RequestAnswered(INFO, "GET", "/api/clock", 200, 0.001)
    assert " INFO request exchange=req_1 " in await line("text", asked)
    assert "method=GET path=/api/clock status=200 ms=1.0\n" in await line("text", asked)
    probe = msgspec.structs.replace(asked, path="/readyz")
    assert await line("text", probe) == ""
    assert " DEBUG request " in await line("text", probe, "debug")
    failing = msgspec.structs.replace(probe, status=503)
    assert "path=/readyz status=503" in await line("text", failing)


async def test_steps_that_have_their_own_line() -> None:
    call = ToolCall("c1", "clock", '{"secret": 1}')
    tool = await line("text", ToolReturned(call, "a text", 3))
    assert tool.endswith(" INFO tool tool=clock call=c1 ms=3 failed=False\n")
    failed = await line("text", ToolReturned(call, "a text", 3, "no such dueAt: a text"))
    assert failed.endswith(" WARNING tool tool=clock call=c1 ms=3 failed=True\n")
    end = TurnEnd(Stop.STOP, usage=Usage(1, 2))
    turn = TurnEnded(end, str, 10, 2, 2, UP, 0.5, INFO)
    assert await line("text", turn) == (
        "1970-01-01T00:00:00.000Z INFO turn turn=2 upstream=up upstream_model=m-1 stop=stop "
        "ms=500.0 tokens_in=1 tokens_out=2\n"
    )
    assert await line("text", msgspec.structs.replace(turn, number=1)) == ""
    assert " WARNING route_failed upstream=up " in await line("text", RouteFailed(BROKE, UP))
    assert await line("text", RouteFailed(BadRequest("No."), UP)) == ""
    assert " WARNING usage_refused upstream=up says=" in await line("text", UsageRefused("up"))


async def test_levels() -> None:
    assert await line("text", DONE, "warning") == ""
    assert await line("text", FAILED, "error") == ""
    assert "ERROR" in await line(
        "text", RequestRefused(INFO, "GET", "/", Unavailable("Down.")), "error"
    )
    changed = StateChanged(State.RELAYING, 1)
    assert await line("text", changed) == ""
    assert await line("text", changed, "debug") == (
        "1970-01-01T00:00:00.000Z DEBUG step what=StateChanged state=relaying turn=1\n"
    )
