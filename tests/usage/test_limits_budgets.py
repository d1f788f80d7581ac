"""Limits of tokens and budgets: settled when a turn ended, and kept over restarts."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import BudgetExceeded
from gateway.exchange.model import Usage
from gateway.stores.documents import StoreUnavailable
from gateway.usage.limits import OwnerLimits
from gateway.usage.limits_model import Budget, OwnerBounds, end_of
from gateway.usage.model import Spending
from tests.clock.reminding import fetch
from tests.gateway.client import Answer
from tests.gateway.wire import ask_of, chat, get, request, streaming, turn, usage
from tests.jobs.words import HOUR, add, every, key, keys, run_now, runs_of, seen
from tests.run import GatewayProcess, as_process, upstreams_of
from tests.sessions.talk import JSON
from tests.usage.words import MovableClock, ask, limited
from tests.wire.fake import fake_upstream

# 100 tokens a turn; 10 USD for a million of them are 0.001 USD.
COSTLY = streaming(turn("Hi", counted=usage(60, 40)))
PRICED = {"models": [{"name": "m", "routes": ["a/m"], "price": {"input": 10, "output": 10}}]}
SECONDS_OF_A_DAY = 86_400


async def test_tokens_of_a_minute() -> None:
    clock = MovableClock()
    async with limited(COSTLY, clock=clock, tpm=150) as gate:
        first = await ask(gate)
        assert first.headers["x-ratelimit-limit-tokens"] == "150"
        assert first.headers["x-ratelimit-remaining-tokens"] == "150"
        await gate.quiet()
        # What is left of the limit is enough to begin with, however much it will be.
        assert (await ask(gate)).headers["x-ratelimit-remaining-tokens"] == "50"
        await gate.quiet()
        refused = await ask(gate)
        assert refused.status == 429
        assert refused.json["error"]["code"] == "rate_limit_exceeded"
        assert refused.json["error"]["message"].startswith("More than 150 tokens in a minute; ")
        assert refused.headers["x-ratelimit-remaining-tokens"] == "0"
        assert (await ask(gate, "bob")).status == 200
        clock.move(int(refused.headers["retry-after"]))
        assert (await ask(gate)).status == 200


@pytest.mark.parametrize(
    "budget, says",
    [("250 tokens/day", "250 tokens/day"), ("0.0025 USD/day", "0.0025 USD/day")],
)
async def test_a_spent_budget_stops_requests_jobs_and_follow_ups(budget: str, says: str) -> None:
    clock = MovableClock()
    async with limited(COSTLY, clock=clock, tables=PRICED, budget=budget) as gate:
        directive = 'hello <**stopMessage:"Go on.",9**>'
        answer = await ask(gate, "ann", "x-session-id: s", text=directive)
        assert answer.status == 200
        # The third turn crosses the limit, and no fourth one is asked for.
        assert len(gate.requests) == 3
        assert bytes(answer.body).endswith(b"data: [DONE]\n\n")
        refused = await ask(gate)
        assert (refused.status, refused.json["error"]["code"]) == (429, "budget_exceeded")
        until = end_of("day", clock.now_ms())
        assert f"The budget of {says} is spent; it begins again at " in _says(refused)
        assert refused.headers["x-should-retry"] == "false"
        left = until / 1000 - clock.now_ms() / 1000
        assert abs(int(refused.headers["retry-after"]) - left) < 60
        job_id = await add(gate, "news?", key("ann"), schedule=every(HOUR))
        await run_now(gate, job_id, key("ann"))
        runs = partial(runs_of, gate, job_id, key("ann"))
        (run,) = await seen(runs, lambda found: [one["status"] for one in found] == ["skipped"])
        assert f"The budget of {says} is spent" in run["error"]
        body = json.dumps({"agentId": "helper", "message": "hi"}).encode()
        chatted = await gate.fetch(request("POST", "/api/chat", JSON, key("ann"), body=body))
        assert (chatted.status, chatted.json["error"]["code"]) == (429, "budget_exceeded")
        assert len(gate.requests) == 3
        assert (await ask(gate, "bob")).status == 200
        clock.move(SECONDS_OF_A_DAY)
        assert (await ask(gate)).status == 200


def _says(answer: Answer) -> str:
    message: str = answer.json["error"]["message"]
    return message


async def test_what_was_spent_survives_a_restart_and_a_reload(tmp_path: Path) -> None:
    async with fake_upstream(COSTLY) as fake:
        file = tmp_path / "holdgate.toml"
        write(file, fake.port, "250 tokens/month")
        for _ in range(3):
            async with _serve(tmp_path, file) as gate:
                assert (await _ask(gate)).status == 200
                assert await gate.terminate() == 0
        async with _serve(tmp_path, file) as gate:
            assert (await _ask(gate)).status == 429
            used = await fetch(gate.port, get("/api/usage", key("ann")))
            assert used.json["data"][0]["input_tokens"] == 180


async def test_a_budget_that_comes_later_counts_what_was_spent_before() -> None:
    async with limited(COSTLY, tables={"models": []}) as gate:
        for _ in range(3):
            assert (await ask(gate, "bob")).status == 200
        await gate.quiet()
        owners = keys("ann", "bob", "root", admin="root")
        owners[1] |= {"budget": "250 tokens/month"}
        await gate.reload(keys=owners)
        refused = await ask(gate, "bob")
        assert (refused.status, refused.json["error"]["code"]) == (429, "budget_exceeded")


async def test_a_budget_that_could_not_be_read_is_read_the_next_time() -> None:
    """The store fails while bounds are replaced: it is as if nobody had tried."""
    limits = OwnerLimits({"ann": OwnerBounds(rpm=9)}, MovableClock(), print)
    wanted = {"ann": OwnerBounds(budget=Budget(100, "tokens", "day"))}
    with pytest.raises(StoreUnavailable):
        await limits.replace_bounds(wanted, _cannot_tell)
    allowance = limits.open("ann", "openai-chat")
    assert allowance is not None
    assert dict(allowance.headers())[b"x-ratelimit-limit-requests"] == b"9"
    await limits.replace_bounds(wanted, _all_spent)
    with pytest.raises(BudgetExceeded):
        limits.check("ann", "openai-chat")


async def _cannot_tell(owner: str, since_ms: int) -> Spending:
    raise StoreUnavailable("It is not there.")


async def _all_spent(owner: str, since_ms: int) -> Spending:
    return Spending(tokens=100)


def _serve(home: Path, file: Path) -> GatewayProcess:
    command = ("gateway", "serve", "--port", "0", "--config", str(file))
    return as_process(home, {"HOLDGATE_CLOCK__NTP__ENABLED": "0"}, command=command, grace=5)


async def _ask(gate: GatewayProcess) -> Answer:
    return await fetch(gate.port, ask_of(chat(), key("ann")))


def write(file: Path, port: int, budget: str) -> None:
    """Write the configuration of an owner with a budget."""
    (upstream,) = upstreams_of(port)["upstreams"]
    keys: dict[str, Any] = {"owner": "ann", "key": "key-ann", "budget": budget}
    tables = {"upstreams": {**upstream, "models": ["m"]}, "keys": keys}
    lines: list[str] = []
    for name, table in tables.items():
        lines += [f"[[{name}]]", *(f"{one} = {json.dumps(value)}" for one, value in table.items())]
    file.write_text("\n".join(lines))


async def test_a_store_that_does_not_answer_lets_budgets_begin_anew() -> None:
    noted: list[str] = []

    bounds = {"ann": OwnerBounds(budget=Budget(5, "tokens", "day"))}
    limits = OwnerLimits(bounds, MovableClock(), lambda event, **fields: noted.append(event))
    await limits.load(_cannot_tell)
    assert noted == ["budget_not_read"]
    limits.check("ann", "openai-chat")
    limits.settle("ann", Usage(3, 2), 0)
    with pytest.raises(BudgetExceeded):
        limits.check("ann", "openai-chat")
