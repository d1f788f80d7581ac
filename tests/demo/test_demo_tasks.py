"""The demo model and `schedule_task`, over real sockets: what a newcomer sees."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.demo.phrases import CHINESE, ENGLISH
from gateway.demo.server import DemoServer
from gateway.jobs.schedule.model import in_words
from gateway.stores.delivery_rows import OutboxItem

from .clockwork import BOTH, ZONE_NAME, Clockwork
from .peer import connected, request

JOKE = "every 10 seconds tell me a joke"
TWO_WISHES = "remind me at nine and summarise every Friday"
TAG = "[Time/Date]: local=`2026-02-02 13:22:38.229 -08:00` nowMs=`1770067358229`"


def planner(server: DemoServer, **options: Any) -> Clockwork:
    """Begin a talk with both tools on offer."""
    return Clockwork(server.url, tools=BOTH, **options)


def item(text: str, name: str = "news") -> OutboxItem:
    """Make the result of a task."""
    return OutboxItem("run_1", "local", "s", 0, text, name=name)


async def test_something_is_done_again_and_again(server: DemoServer) -> None:
    talk = planner(server)
    assert await talk.ask(JOKE, stream=True) == (
        "I will do it every 10 seconds: tell me a joke. The first time is at 13:22:48."
    )
    (job,) = talk.jobs.values()
    assert (in_words(job.schedule), job.message) == ("every 10 seconds", "tell me a joke")
    assert talk.calls == [
        {
            "action": "add",
            "name": "tell me a joke",
            "schedule_text": "every 10 seconds",
            "message": "tell me a joke",
        }
    ]


async def test_in_chinese(server: DemoServer) -> None:
    talk = planner(server)
    assert await talk.ask("每10秒讲个笑话") == "好的，每10秒：讲个笑话。第一次在 13:22:48。"
    assert await talk.ask("我有哪些任务？") == "你的任务：讲个笑话（下次 13:22:48）。"
    assert await talk.ask("别再讲笑话了") == "已取消：讲个笑话。"
    assert await talk.ask("停止") == "你没有任务。"


@pytest.mark.parametrize("tells_time", [True, False])
async def test_two_wishes_become_two_calls_in_one_turn(
    server: DemoServer, tells_time: bool
) -> None:
    talk = planner(server, tells_time=tells_time, holds=False)
    said = await talk.ask(TWO_WISHES, stream=True)
    assert said == (
        "I set it: the reminder you asked for. I will bring it up when you write to me after "
        "2026-02-03 09:00:00. I will do it every friday at 9:00: summarise. The first time is at "
        "2026-02-06 09:00:00."
    )
    assert [call["action"] for call in talk.calls][-2:] == ["schedule", "add"]
    assert [len(calls_of(answer.events)) for answer in talk.answers] == (
        [] if tells_time else [1]
    ) + [2, 0]
    (task,), (job,) = talk.tasks.values(), talk.jobs.values()
    assert task.due_ms == 1_770_138_000_000
    assert in_words(job.schedule) == f"every Friday at 09:00 ({ZONE_NAME})"


async def test_tasks_are_listed_and_ended_by_their_words(server: DemoServer) -> None:
    talk = planner(server)
    assert await talk.ask("list my tasks") == "You have no tasks."
    await talk.ask(JOKE)
    await talk.ask("every Friday summarise")
    there = "Your tasks: tell me a joke, next at 13:22:48; summarise, next at 2026-02-06 09:00:00."
    assert await talk.ask("what tasks do I have?") == there
    assert await talk.ask("stop") == f"Which one do you mean? {there}"
    assert await talk.ask("stop telling me riddles") == (
        f"I found no task about “riddles”. {there}"
    )
    assert await talk.ask("stop telling me jokes") == "I cancelled it: tell me a joke."
    assert await talk.ask("cancel that task") == "I cancelled it: summarise."
    assert talk.jobs == {}


async def test_all_tasks_are_ended_in_one_turn(server: DemoServer) -> None:
    talk = planner(server)
    await talk.ask("every 10 seconds tell me a joke and every Friday summarise")
    assert await talk.ask("cancel all tasks") == (
        "I cancelled it: tell me a joke. I cancelled it: summarise."
    )


async def test_what_is_refused_is_told(server: DemoServer) -> None:
    talk = planner(server)
    said = await talk.ask("weekly summarise")
    assert said.startswith("I could not do that: schedule_text 'weekly': say on which day")


async def test_without_the_tool_it_says_so(server: DemoServer) -> None:
    talk = Clockwork(server.url)
    assert (await talk.ask(JOKE)).startswith("I cannot do that again and again: this request")
    said = await talk.ask("remind me in 20 s to drink tea and summarise every Friday")
    assert said.startswith("I set it: drink tea. This answer stays open")
    assert said.endswith(ENGLISH.say("no_tool"))
    assert (
        await talk.ask("cancel the tea task")
        == "I found no reminder about “tea task”. Your reminders: drink tea at 13:22:58."
    )
    assert (await talk.ask("每10秒讲个笑话")) == CHINESE.say("no_tool")


async def test_both_tools_are_advertised(server: DemoServer) -> None:
    assert "every 10 seconds tell me a joke" in await planner(server).ask("hello")
    assert "every 10 seconds" not in await Clockwork(server.url).ask("hello")


# What a task does when its time has come.


async def test_jokes_and_words_differ_from_one_time_to_the_next(server: DemoServer) -> None:
    talk = planner(server)
    for wish, stock in (("tell me a joke", ENGLISH.some_jokes), ("讲个笑话", CHINESE.some_jokes)):
        told = []
        for _ in range(len(stock)):
            talk.let_pass(10)
            told.append(await talk.ask(wish))
        assert sorted(told) == sorted(stock)


async def test_where_no_time_is_told_they_come_in_order(server: DemoServer) -> None:
    talk = planner(server, tells_time=False)
    said = [await talk.ask("tell me a word") for _ in range(3)]
    assert said == list(ENGLISH.some_words[:3])


async def test_a_summary_says_how_much_was_said(server: DemoServer) -> None:
    talk = planner(server)
    assert await talk.ask("summarise") == "Before this you have said 0 things here."
    await talk.ask("tell me a word " + "please " * 20)
    assert await talk.ask("Summarize, please") == (
        "Before this you have said 2 things here. The last was: tell me a word "
        "please please please please please please ple…"
    )
    assert (await talk.ask("总结一下")).startswith("在这之前你在这里说过 3 句话。最后一句是：")


async def test_a_reminder_that_comes_again_is_said_each_time(server: DemoServer) -> None:
    talk = planner(server)
    await talk.ask("remind me every hour to drink tea")
    (job,) = talk.jobs.values()
    assert (job.name, job.message) == ("drink tea", "Remind the user: drink tea")
    assert await talk.ask(job.message) == "It is time: drink tea."
    await talk.ask("每小时提醒我喝茶")
    *_, job = talk.jobs.values()
    assert await talk.ask(job.message) == "时间到了：喝茶。"


async def test_a_task_may_be_an_order(server: DemoServer) -> None:
    talk = planner(server)
    await talk.ask("every 5 seconds demo: say=hi")
    (job,) = talk.jobs.values()
    assert await talk.ask(job.message) == "hi"


async def test_results_that_are_brought_are_told(server: DemoServer) -> None:
    talk = planner(server)
    talk.outcomes += [item("All is well."), item("x" * 400, "long one")]
    said = await talk.ask("hello")
    first, second, answer = said.split("\n\n")
    assert first == "Your task “news” has a result: All is well."
    assert second == f"Your task “long one” has a result: {'x' * 300}…"
    assert answer.startswith("Hello! I am the demo model")
    talk.outcomes.append(item("一切正常。", "新闻"))
    assert await talk.wake(1) == "Your task “新闻” has a result: 一切正常。"


# All dialects share it.

CHAT = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": TWO_WISHES}]},
        {"role": "user", "content": TAG},
    ],
    "tools": [{"type": "function", "function": {"name": name}} for name in BOTH],
}
RESPONSES = {
    "input": [{"role": "user", "content": TWO_WISHES}, {"role": "user", "content": TAG}],
    "tools": [{"type": "function", "name": name, "parameters": {}} for name in BOTH],
}
MESSAGES = {
    "max_tokens": 1000,
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": t} for t in (TWO_WISHES, TAG)]}
    ],
    "tools": [{"name": name, "input_schema": {"type": "object"}} for name in BOTH],
}


@pytest.mark.parametrize(
    "path, body",
    [("chat/completions", CHAT), ("responses", RESPONSES), ("messages", MESSAGES)],
    ids=["chat", "responses", "messages"],
)
async def test_every_dialect_calls_both_tools(
    server: DemoServer, path: str, body: dict[str, Any]
) -> None:
    async with connected(server.url) as peer:
        asked = json.dumps({"model": "demo", **body}).encode()
        await peer.send(request(asked, path=f"/v1/{path}"))
        answer = await peer.answer()
    assert answer.status == 200, answer.body
    called = {name: arguments["action"] for name, arguments in calls_in(answer.json)}
    assert called == {"clock": "schedule", "schedule_task": "add"}


def calls_in(answer: Any) -> list[tuple[str, Any]]:
    """Read the calls of a whole answer in any dialect."""
    if "choices" in answer:
        calls = [call["function"] for call in answer["choices"][0]["message"]["tool_calls"]]
    else:
        parts = answer.get("output") or answer["content"]
        calls = [part for part in parts if part["type"] in ("function_call", "tool_use")]
    return [(c["name"], c["input"] if "input" in c else json.loads(c["arguments"])) for c in calls]


def calls_of(events: list[Any]) -> list[str]:
    """Read which tools a streamed answer calls."""
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls", ())]
    return [piece["function"]["name"] for piece in pieces if "id" in piece]
