"""Limits of tokens and budgets: settled when a turn ended, and kept over restarts."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from gateway.errors import BudgetExceeded
from gateway.exchange.model import Usage
from gateway.stores.documents import StoreUnavailable
from gateway.timestamps import iso
from gateway.usage.limits import OwnerLimits
from gateway.usage.limits_model import Budget, OwnerBounds, Period, end_of
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


TWO_PRICES = {
    "models": [
        {"name": "m", "routes": ["a/m"], "price": {"input": 1, "output": 1}},
        {"name": "big", "routes": ["a/big"], "price": {"input": 100, "output": 100}},
    ]
}
SESSION = "x-session-id: s"


@pytest.mark.parametrize("directive", ["<**a.big**>", "<**!a.big**>"])
async def test_a_directive_does_not_make_a_model_cheaper(directive: str) -> None:
    async with limited(COSTLY, tables=TWO_PRICES, budget="0.0025 USD/day") as gate:
        assert (await ask(gate, "ann", SESSION, text=f"{directive} hi")).status == 200
        await gate.quiet()
        assert json.loads(gate.requests[0].body)["model"] == "big"
        refused = await ask(gate)
        assert (refused.status, refused.json["error"]["code"]) == (429, "budget_exceeded")
        used = await gate.fetch(get("/api/usage?group_by=model", key("ann")))
        (row,) = used.json["data"]
        assert (row["model"], row["cost_usd"]) == ("m", 0.01)


async def test_a_budget_in_dollars_reaches_no_route_without_a_price() -> None:
    async with limited(COSTLY, tables=TWO_PRICES, budget="1 USD/day") as gate:
        forced = await ask(gate, text="<**a.other**> hi")
        assert (forced.status, forced.json["error"]["code"]) == (400, "no_route")
        # A preferred route is one of several: what may not be asked is left out.
        assert (await ask(gate, "ann", SESSION, text="<**!a.other**> hi")).status == 200
        assert [json.loads(one.body)["model"] for one in gate.requests] == ["m"]
        # Who has no such budget may, and what has no price costs nothing.
        assert (await ask(gate, "bob", text="<**a.other**> hi")).status == 200
        await gate.quiet()
        used = await gate.fetch(get("/api/usage", key("bob")))
        assert used.json["data"][0]["cost_usd"] is None


@pytest.mark.parametrize(
    ("budget", "limit", "spent", "unit", "period"),
    [("250 tokens/day", 250, 100, "tokens", "day"), ("0.5 USD/month", 0.5, 0.001, "USD", "month")],
)
async def test_usage_shows_what_is_left_of_a_budget(
    budget: str, limit: float, spent: float, unit: str, period: Period
) -> None:
    clock = MovableClock()
    async with limited(COSTLY, clock=clock, tables=PRICED, budget=budget) as gate:
        assert (await ask(gate)).status == 200
        await gate.quiet()
        resets_at = iso(end_of(period, clock.now_ms()))
        wanted = {"limit": limit, "spent": spent, "unit": unit, "resets_at": resets_at}
        for owner, query in (("ann", ""), ("root", "?owner=ann"), ("ann", "?from=2020-01-01")):
            shown = await gate.fetch(get(f"/api/usage{query}", key(owner)))
            assert shown.json["budget"] == wanted
        for owner in ("bob", "root"):
            assert (await gate.fetch(get("/api/usage", key(owner)))).json["budget"] is None


@pytest.mark.parametrize("grace_ms, waits", [(3_600_000, True), (60_000, False)])
async def test_a_one_time_job_waits_for_its_budget_if_that_is_soon(
    grace_ms: int, waits: bool
) -> None:
    clock = ManualClock(MIDNIGHT - 600_000)
    options = {"settings": {"cron__misfire_grace_ms": grace_ms}}
    async with limited(COSTLY, clock=clock, options=options, budget="100 tokens/day") as gate:
        assert (await ask(gate)).status == 200
        await gate.quiet()
        once = {"kind": "at", "at": iso(clock.now_ms() + 1000)}
        job_id = await add(gate, "news?", key("ann"), schedule=once)
        clock.advance(1000)
        runs = partial(runs_of, gate, job_id, key("ann"))
        await seen(runs, lambda found: [one["status"] for one in found] == ["skipped"])
        shown = await gate.fetch(get(f"/api/cron/get?job_id={job_id}", key("ann")))
        job = shown.json["data"]["job"]
        assert job["enabled"] is waits
        if not waits:
            assert f"it begins again at {iso(MIDNIGHT)}." in job["disabled_reason"]
            return
        assert job["next_run_at"] == iso(MIDNIGHT)
        clock.set(MIDNIGHT)
        await seen(runs, lambda found: sorted(one["status"] for one in found) == ["ok", "skipped"])
        assert len(gate.requests) == 2


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


async def test_bounds_of_nobody_change_if_the_budget_of_one_cannot_be_read() -> None:
    limits = OwnerLimits({"ann": OwnerBounds(rpm=9)}, MovableClock(), print)
    budget = Budget(100, "tokens", "day")
    wanted = {name: OwnerBounds(rpm=1, budget=budget) for name in ("ann", "bob", "cid")}

    async def tell_of_ann(owner: str, since_ms: int) -> Spending:
        return await (_all_spent if owner == "ann" else _cannot_tell)(owner, since_ms)

    with pytest.raises(StoreUnavailable):
        await limits.replace_bounds(wanted, tell_of_ann)
    limits.check("ann", "openai-chat")
    for owner, limit in (("ann", b"9"), ("bob", None)):
        allowance = limits.open(owner, "openai-chat")
        headers = {} if allowance is None else dict(allowance.headers())
        assert headers.get(b"x-ratelimit-limit-requests") == limit


async def test_what_is_spent_while_budgets_are_read_counts() -> None:
    """Turns of one owner end while what another one spent is read."""
    limits = OwnerLimits({}, MovableClock(), print)
    budget = Budget(100, "tokens", "day")
    wanted = {name: OwnerBounds(budget=budget) for name in ("ann", "bob")}

    async def spend_meanwhile(owner: str, since_ms: int) -> Spending:
        if owner == "bob":
            limits.settle("ann", Usage(60, 40), 0)
        return Spending()

    await limits.replace_bounds(wanted, spend_meanwhile)
    limits.check("bob", "openai-chat")
    with pytest.raises(BudgetExceeded):
        limits.check("ann", "openai-chat")


async def test_a_reload_without_the_store_is_refused_in_the_log() -> None:
    async with limited(COSTLY) as gate:
        await gate.gateway.parts.rows.aclose()
        owners = keys("ann", "bob", "root", admin="root")
        owners[1] |= {"budget": "1 tokens/day"}
        await gate.reload(keys=owners)
        await gate.quiet()
        lines = [json.loads(line) for line in gate.log.splitlines()]
        (refused,) = [line for line in lines if line["event"] == "config_not_reloaded"]
        assert "budgets" in refused["problem"]
        assert "exception" not in gate.log


MIDNIGHT = 1_793_836_800_000
"""2026-11-05T00:00:00Z"""
A_DAY = SECONDS_OF_A_DAY * 1000


async def test_a_clock_that_is_set_over_midnight_and_back_frees_no_budget() -> None:
    clock = ManualClock(MIDNIGHT - 5000)
    bounds = {"ann": OwnerBounds(budget=Budget(5, "tokens", "day"))}
    limits = OwnerLimits(bounds, clock, print)
    limits.settle("ann", Usage(3, 2), 0)
    for _ in range(2):
        clock.step(10_000)
        limits.check("ann", "openai-chat")
        limits.settle("ann", Usage(1, 1), 0)
        clock.step(-10_000)
        with pytest.raises(BudgetExceeded):
            limits.check("ann", "openai-chat")


@pytest.mark.parametrize("wrong_by", [-A_DAY, A_DAY])
async def test_a_clock_that_is_set_right_after_the_start_finds_what_was_spent(
    wrong_by: int,
) -> None:
    """What was spent is read while the clock shows another day, and counts on its own day."""

    async def sum_since(owner: str, since_ms: int) -> Spending:
        return Spending(tokens=9 if since_ms <= MIDNIGHT else 0)

    clock = ManualClock(MIDNIGHT + 5000 + wrong_by)
    limits = OwnerLimits({"ann": OwnerBounds(budget=Budget(9, "tokens", "day"))}, clock, print)
    await limits.load(sum_since)
    limits.check("ann", "openai-chat")
    clock.step(-wrong_by)
    with pytest.raises(BudgetExceeded):
        limits.check("ann", "openai-chat")


async def _cannot_tell(owner: str, since_ms: int) -> Spending:
    raise StoreUnavailable("It is not there.")


async def _all_spent(owner: str, since_ms: int) -> Spending:
    return Spending(tokens=100 if since_ms <= time.time() * 1000 else 0)


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
