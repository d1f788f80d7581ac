"""Runs in relay sessions: they go on from the session's last request, and their result waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gateway.clock import ManualClock
from tests.clock.reminding import carried, remind
from tests.clock.words import Call, function, play, says
from tests.console.words import fetch_json
from tests.gateway.wire import request
from tests.jobs.models import failing, failing_after, task, told
from tests.jobs.words import (
    HOUR,
    MINUTE,
    NOW,
    add,
    asked,
    events_of,
    every,
    house,
    inbox,
    ran,
    run_now,
    said,
)
from tests.pairs.gate import MESSAGES, each_tongue, telling_all
from tests.pairs.neutral import Answer, Ask, Tongue, Turn
from tests.run import Running, until
from tests.sessions.talk import JSON, SESSION, assistant, kept, model, system, talk, text_of, user
from tests.wire.fake import CHUNKED, LAST, Request, answering, chunk

ASK = Ask((Turn("user", "Hello!"),), system="Be brief.", tools=("look", "find"))
HEADING = '[Scheduled task "what is new?" result]:\n'


async def converse(gate: Running, tongue: Tongue, ask: Ask, *headers: str, **more: Any) -> None:
    """Ask in the session, as a client of a dialect does, and hear the answer out."""
    body = tongue.ask(ask, True, **more)
    answer = await gate.fetch(request("POST", tongue.PATH, JSON, SESSION, *headers, body=body))
    assert answer.status == 200, bytes(answer.body)


async def ran_by_hand(gate: Running, **members: Any) -> dict[str, Any]:
    """Make a job of the session, run it, and return how that ended."""
    job_id = await add(gate, agent="", **members)
    await run_now(gate, job_id)
    (run,) = await ran(gate, job_id, "ok")
    return run


def spoken(asked: Request) -> list[tuple[str, str]]:
    """Read all that a request of any dialect says, and in whose name."""
    body = json.loads(asked.body)
    assert not body.keys() & {"system", "instructions", "tools"}
    found = []
    for item in body.get("messages") or body["input"]:
        content = item["content"]
        texts = [content] if isinstance(content, str) else [part["text"] for part in content]
        found.append((item["role"], "".join(texts)))
    return found


def plain(tongue: Tongue, *texts: str, **options: Any) -> Any:
    """Run a gateway without clock and tools, whose upstream speaks a dialect."""
    answers = [Answer(text) for text in texts]
    settings = {"cron__offer_to_clients": False, **options.pop("settings", {})}
    story = telling_all(tongue, answers, stream=True)
    return house(story, upstream={"dialect": tongue.NAME}, settings=settings, **options)


@each_tongue
async def test_a_run_goes_on_with_the_conversation(tongue: Tongue) -> None:
    async with plain(tongue, "Hi there.", "Nothing.", "I see.") as gate:
        await converse(gate, tongue, ASK)
        run = await ran_by_hand(gate)
        assert run["result"] == "Nothing."
        first, second = (tongue.asked(one.body) for one in gate.requests)
        assert second.system == first.system
        assert second.turns == (
            Turn("user", "Hello!"),
            Turn("assistant", "Hi there."),
            Turn("user", "what is new?"),
        )
        assert (first.tools, second.tools) == (("look", "find"), ())
        assert b'"stream":true' in gate.requests[1].body.replace(b" ", b"")
        (item,) = await inbox(gate)
        assert (item["kind"], item["text"], item["run_id"]) == ("run", "Nothing.", run["run_id"])


@each_tongue
async def test_a_fresh_conversation_begins_with_the_message(tongue: Tongue) -> None:
    async with plain(tongue, "Hi there.", "Nothing.") as gate:
        await converse(gate, tongue, ASK)
        run = await ran_by_hand(gate, session="isolated")
        assert run["result"] == "Nothing."
        assert spoken(gate.requests[1]) == [("user", "what is new?")]
        assert [item["text"] for item in await inbox(gate)] == ["Nothing."]
        assert len(gate.requests) == 2


@each_tongue
async def test_a_session_that_is_not_known_yet_has_the_message_alone(tongue: Tongue) -> None:
    async with plain(tongue, "Nothing.") as gate:
        run = await ran_by_hand(gate)
        assert run["result"] == "Nothing."
        assert spoken(gate.requests[0]) == [("user", "what is new?")]


@each_tongue
async def test_the_conversation_is_known_after_a_restart(tongue: Tongue, tmp_path: Path) -> None:
    later = Ask((*ASK.turns, Turn("assistant", "Hi there."), Turn("user", "And?")), "Be brief.")
    async with plain(tongue, "Hi there.", "And so on.", settings=kept(tmp_path)) as gate:
        await converse(gate, tongue, ASK)
        job_id = await add(gate, agent="")
        await converse(gate, tongue, later)
    async with plain(tongue, "Nothing.", settings=kept(tmp_path)) as gate:
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        assert tongue.asked(gate.requests[0].body).turns == (
            *later.turns,
            Turn("assistant", "And so on."),
            Turn("user", "what is new?"),
        )


async def test_a_conversation_without_jobs_is_not_kept(tmp_path: Path) -> None:
    async with house(model("Hi there."), settings=kept(tmp_path)) as gate:
        await gate.ask(talk("my words"), SESSION)
    found = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not [one for one in found if b"my words" in one]


async def test_what_the_upstream_has_to_be_told_beside_the_body_is_told_again() -> None:
    async with plain(MESSAGES, "Hi.", "Nothing.") as gate:
        beta = "anthropic-beta: context-management-2025-06-27"
        await converse(gate, MESSAGES, ASK, beta, "x-api-key: secret", metadata={"user_id": "u"})
        await ran_by_hand(gate)
        assert gate.requests[1].headers[b"anthropic-beta"] == b"context-management-2025-06-27"
        assert b"x-api-key" not in gate.requests[1].headers


async def test_a_side_request_of_a_coding_agent_is_not_gone_on_from() -> None:
    async with house(model()) as gate:
        tools = [function("look")]
        await gate.ask(talk(system("You code."), "write it", tools=tools), SESSION)
        await gate.ask(talk(system("You name things."), "a title"), SESSION)
        await ran_by_hand(gate)
        assert [text for _, text in said(gate.requests[2])] == [
            "You code.",
            "write it",
            "answer 1",
            "what is new?",
        ]


async def test_a_request_that_is_too_large_is_not_gone_on_from() -> None:
    async with house(model()) as gate:
        await gate.ask(talk("short"), SESSION)
        await gate.ask(talk("x" * 3 * 1024 * 1024), SESSION)
        await ran_by_hand(gate)
        assert [text for _, text in said(gate.requests[2])] == [
            "short",
            "answer 1",
            "what is new?",
        ]


async def test_another_model_may_be_named() -> None:
    models = [{"name": name, "routes": [f"a/real-{name}"]} for name in ("m", "n")]
    async with house(model(), tables={"models": models}) as gate:
        await gate.ask(talk("hi"), SESSION)
        await ran_by_hand(gate, model="n")
        await ran_by_hand(gate)
        names = [json.loads(one.body)["model"] for one in gate.requests]
        assert names == ["real-m", "real-n", "real-m"]


async def test_a_session_goes_to_the_upstream_that_it_is_told_to() -> None:
    async with house(model("a"), model("b")) as gate:
        await gate.ask(talk("<**!b**> hi"), SESSION)
        assert (await ran_by_hand(gate))["result"] == "b"
        assert len(gate.fakes[0].requests) == 0


async def test_a_session_that_is_led_nowhere_is_an_error() -> None:
    async with house(model("a")) as gate:
        await gate.ask(talk("hello"), SESSION)
        await gate.ask(talk("<**#a**> hi"), SESSION)
        job_id = await add(gate, agent="")
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "error")
        assert "No upstream" in run["error"]


async def test_the_result_comes_with_the_next_request_once() -> None:
    async with house(model("hi", "it rains", "fine", "bye")) as gate:
        await gate.ask(talk("hello"), SESSION)
        await ran_by_hand(gate)
        for answer in ("fine", "bye"):
            assert text_of(await gate.ask(talk("and?"), SESSION)) == answer
        assert ("user", f"{HEADING}it rains") in said(gate.requests[2])
        assert "it rains" not in str(said(gate.requests[3]))
        assert await inbox(gate) == []


async def test_a_run_leaves_to_the_client_what_waits_for_the_client() -> None:
    clock = ManualClock(NOW)
    settings = {"clock__time_tag": "off"}
    async with house(model(), clock=clock, settings=settings) as gate:
        await ran_by_hand(gate, message="first")
        await remind(gate, "drink tea", NOW + MINUTE)
        await ran_by_hand(gate, message="second")
        assert "answer 1" not in str(said(gate.requests[1]))
        assert carried(gate.requests[1]) == []
        await gate.ask(talk("hello"), SESSION)
        assert carried(gate.requests[2]) == ["drink tea"]
        assert "answer 1" in str(said(gate.requests[2]))
        assert "answer 2" in str(said(gate.requests[2]))


async def test_a_run_that_fails_delivers_nothing() -> None:
    async with house(failing("hi")) as gate:
        await gate.ask(talk("hello"), SESSION)
        job_id = await add(gate, agent="")
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "error")
        assert run["error"] == "no luck"
        assert await inbox(gate) == []


@each_tongue
async def test_what_an_upstream_says_went_wrong_is_recorded(tongue: Tongue) -> None:
    pieces = [CHUNKED, *map(chunk, tongue.broken("half of", "out of luck")), LAST]
    settings = {"cron__offer_to_clients": False}
    async with house(
        answering(*pieces), upstream={"dialect": tongue.NAME}, settings=settings
    ) as gate:
        job_id = await add(gate, agent="")
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "error")
        assert "out of luck" in run["error"]
        assert run["result"] == ""
        assert await inbox(gate) == []


async def test_a_call_of_a_tool_that_only_the_client_has_is_an_error() -> None:
    story = play(says("Hi."), says("Let me see.", Call("look")))
    async with house(story) as gate:
        await gate.ask(talk("hello", tools=[function("look")]), SESSION)
        job_id = await add(gate, agent="")
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "error")
        assert "only a client" in run["error"]
        assert await inbox(gate) == []
        await gate.quiet()


async def test_the_gateways_own_tools_work_in_a_run() -> None:
    clock = ManualClock(NOW)
    results: list[Any] = []

    def look(asked: dict[str, Any]) -> Any:
        results.append(told(asked))
        return says("done") if len(results) == 2 else says("", task("list"))

    refused = task("add", schedule_text="hourly", message="again")
    async with house(play(says("", refused), look), clock=clock) as gate:
        run = await ran_by_hand(gate)
        assert run["result"] == "done"
        add_told, list_told = results
        assert add_told["ok"] is False
        assert "cannot add" in add_told["error"]
        assert [job["name"] for job in list_told["jobs"]] == ["what is new?"]


async def test_a_follow_up_that_is_lost_is_an_error() -> None:
    async with house(failing_after(says("One moment.", task("list")))) as gate:
        job_id = await add(gate, agent="")
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "error")
        assert "gave no final answer" in run["error"]
        assert run["result"] == "One moment."
        assert await inbox(gate) == []


async def test_an_answer_can_be_held_for_a_result() -> None:
    clock = ManualClock(NOW)
    settings = {"clock__hold_for_jobs": True, "cron__max_concurrent_runs": 2}
    async with house(model("wait", "it rains", "I see"), clock=clock, settings=settings) as gate:
        await add(gate, agent="", schedule=every(MINUTE // 2))
        client = await gate.start(talk("hello"), SESSION)
        await until(lambda: gate.states == ["holding"])
        clock.advance(MINUTE // 2)
        answer = await client.saw(b"I see")
        await asked(gate, 3)
        assert "it rains" in str(said(gate.requests[2]))
        gate.gateway.holds.drain()
        answer = await client.answer()
        assert not answer.failed
        await gate.quiet()
        rows = (await fetch_json(gate, "exchanges?session=s&state=done"))["exchanges"]
        (held,) = [row for row in rows if row["kind"] == "client"]
        trail = await fetch_json(gate, f"exchanges/{held['id']}")
        assert [turn["why"] for turn in trail["turns"]] == ["request", "result"]
        assert trail["holds"][0]["outcome"] == "result"


async def test_events_and_the_log_tell_nothing_of_what_is_said() -> None:
    async with house(model("secret words")) as gate:
        await ran_by_hand(gate, message="secret question")
        await events_of(gate, "s", "run.finished")
        assert "secret" not in gate.log
        assert "run_ended" in gate.log


async def test_history_with_tools_of_the_client_is_kept() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    history = [
        user("look!"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "a cat"},
    ]
    async with house(model("A cat.", "Nothing.")) as gate:
        await gate.ask(talk(*history, tools=[function("look")]), SESSION)
        await ran_by_hand(gate)
        sent = json.loads(gate.requests[1].body)["messages"]
        assert sent == [*history, assistant("A cat."), user("what is new?")]


async def test_every_hour_by_itself() -> None:
    clock = ManualClock(NOW)
    async with house(model(), clock=clock) as gate:
        job_id = await add(gate, agent="", schedule=every(HOUR))
        for count in range(1, 4):
            clock.advance(HOUR)
            await ran(gate, job_id, *["ok"] * count)
        assert [item["text"] for item in await inbox(gate)] == ["answer 1", "answer 2", "answer 3"]
