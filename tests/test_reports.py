"""One line about each exchange, in both forms, and they say the same."""

import io
import json

import msgspec

from gateway.exchange import exchange_log as reports
from gateway.exchange.exchange_log import ExchangeLog
from gateway.exchange.machine import State
from gateway.exchange.model import Usage
from gateway.exchange.observer import ExchangeEnded
from gateway.logs import EventLog

DONE = ExchangeEnded(
    "req_1", "ann b", "m", True, State.DONE, "up", 2, 200, "", 0.25, 0.0123, Usage(4, 5)
)
FAILED = ExchangeEnded(
    "req_2", "ann", "m\n" * 99, False, State.FAILED, "up", 1, 502, "broke", 1, None, None
)


async def line(form: str, report: ExchangeEnded) -> str:
    stream = io.StringIO()
    event_log = EventLog(form, stream, lambda: 0)
    ExchangeLog(event_log).observe(0.0, report)
    event_log.flush()
    return stream.getvalue()


async def test_text() -> None:
    assert await line("text", DONE) == (
        '1970-01-01T00:00:00.000Z INFO exchange id=req_1 owner="ann b" model=m upstream=up '
        "state=done status=200 stream=True turns=2 first_ms=12.3 ms=250.0 tokens_in=4 tokens_out=5\n"
    )
    failed = await line("text", FAILED)
    assert failed.count("\n") == 1
    assert "state=failed status=502 code=broke stream=False turns=1 ms=1000.0\n" in failed


async def test_json() -> None:
    told = json.loads(await line("json", DONE))
    assert {k: told[k] for k in ("id", "state", "first_ms", "ms", "tokens_out", "code")} == {
        "id": "req_1",
        "state": "done",
        "first_ms": 12.3,
        "ms": 250.0,
        "tokens_out": 5,
        "code": None,
    }
    assert json.loads(await line("json", FAILED))["first_ms"] is None


async def test_of_a_long_name_only_the_beginning_is_kept() -> None:
    reports._quote_name.cache_clear()
    for end in "ab":
        report = msgspec.structs.replace(DONE, model="m" * 100 + end)
        assert f" model={'m' * 100} " in await line("text", report)
    owner_and_model = 2
    assert reports._quote_name.cache_info().currsize == owner_and_model
