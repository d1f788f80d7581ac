"""What the demo model answers to a conversation."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from gateway.demo.conversation import Call, Conversation, Message
from gateway.demo.play import Told, told
from gateway.demo.script import PACE_MS, script_for
from gateway.demo.steps import Argue, Fail, Say, Script
from gateway.demo.wishes import Now, Wish, clock_time, told_time, wish_of

TAG = (
    "[Time/Date]: utc=`2026-02-02T21:22:38.229Z` local=`2026-02-02 13:22:38.229 -08:00` "
    "tz=`America/Los_Angeles` nowMs=`1770067358229` ntpOffsetMs=`-12`"
)
REMINDER = (
    '[Clock Reminder]: scheduled tasks are due.\n[scheduled task:"{}" dueAt=2026-02-02T21:22:58Z]\n'
    "You may call tools to complete these tasks."
)
CLOCK = frozenset({"clock"})
DUE = {"dueAt": "2026-02-02T21:22:58.229Z", "task": "stretch", "tool": "", "arguments": "{}"}


def user(*texts: str) -> Message:
    return Message("user", texts)


def assistant(text: str = "", *calls: Call) -> Message:
    return Message("assistant", (text,) if text else (), calls)


def result(text: str, call: str = "c1") -> Message:
    return Message("tool", (text,), answers=call)


def answer(*messages: Message, tools: frozenset[str] = frozenset()) -> Told:
    return told(script_for(Conversation(messages, tools)).steps)


def clock_call(**arguments: object) -> Call:
    return Call("c1", "clock", json.dumps(arguments))


SCHEDULED = assistant("", clock_call(action="schedule", items=[DUE], taskId=""))


def test_a_newcomer_is_greeted_and_told_what_to_try() -> None:
    said = answer(user("Hello!"))
    assert said.text.startswith("Hello! I am the demo model")
    assert "demo: tokens=50" in said.text
    assert said.reason == "stop"


@pytest.mark.parametrize("prompt", ["Why is the sky blue?", "history of tea", "{braces} %s"])
def test_a_natural_prompt_is_quoted(prompt: str) -> None:
    assert answer(user(prompt)).text.startswith(f"You said “{prompt}”. I am the demo model")


def test_a_long_prompt_is_quoted_in_part() -> None:
    assert f"“{'x' * 60}…”" in answer(user("x" * 5000)).text


def test_chinese_is_answered_in_chinese() -> None:
    assert answer(user("你好")).text.startswith("你好！我是 Holdgate 自带的演示模型")
    assert answer(user("天空为什么是蓝的？")).text.startswith("你说的是“天空为什么是蓝的？”")


def test_thanks_are_welcome() -> None:
    assert answer(user("Thanks!")).text.startswith("You are welcome!")


def test_it_speaks_word_by_word_at_token_pace() -> None:
    (said,) = (s for s in script_for(Conversation((user("hi"),))).steps if isinstance(s, Say))
    assert said.every_ms == PACE_MS
    assert said.pieces[:3] == ("Hello!", " I", " am")


def test_it_stops_at_the_wanted_length() -> None:
    said = told(script_for(Conversation((user("hi"),), limit=3)).steps)
    assert (said.text, said.reason) == ("Hello! I am", "length")


def test_equal_conversations_get_equal_scripts() -> None:
    talk = Conversation((user("tell me more"), user(TAG)), CLOCK)
    assert script_for(talk) == script_for(talk)


def test_a_conversation_without_a_user_is_greeted() -> None:
    assert answer(Message("system", ("be brief",))).text.startswith("Hello!")


def test_the_clock_is_advertised_when_it_is_there() -> None:
    assert "remind me in 20 seconds" in answer(user("hi"), tools=CLOCK).text
    assert "remind me in 20 seconds" not in answer(user("hi")).text


# Orders


def test_the_first_line_orders_the_first_turn_and_the_second_the_next() -> None:
    prompt = user('please\n  demo: tool=t\ndemo: say="second turn"\nthank you')
    call = assistant("", Call("c1", "t", "{}"))
    assert answer(prompt).calls == (("t", "{}"),)
    assert answer(prompt, call, result("ok")).text == "second turn"
    assert answer(prompt, call, result("ok"), assistant("x")).text == "The tool t answered: ok"


def test_orders_stand_at_the_start_of_a_line_only() -> None:
    assert answer(user("a demo: tokens=1")).text.startswith("You said")


def test_orders_hold_though_a_time_tag_or_a_reminder_was_added() -> None:
    prompt = user("demo: say=ordered")
    assert answer(prompt, user(TAG)).text == "ordered"
    assert answer(prompt, user(REMINDER.format("tea")), user(TAG)).text == "ordered"
    assert answer(user("demo: say=ordered", REMINDER.format("tea"), TAG)).text == "ordered"


def test_orders_of_an_older_message_are_forgotten() -> None:
    talk = (user("demo: say=old"), assistant("old"), user("hi"))
    assert answer(*talk).text.startswith("Hello!")


def test_a_due_task_may_be_an_order() -> None:
    due = REMINDER.format('demo: say=\\"a [b\\] c\\"')
    assert answer(user("hi"), assistant("hello"), user(due), user(TAG)).text == "a [b] c"


def test_a_wrong_order_is_a_bad_request() -> None:
    script = script_for(Conversation((user("demo: colour=red"),)))
    (step,) = script.steps
    assert isinstance(step, Fail)
    assert (step.status, step.code) == (400, "bad_demo_line")
    assert "Unknown key 'colour'" in step.message


# The clock


def test_a_wish_becomes_a_call_of_the_clock() -> None:
    said = answer(user("Remind me in 20 seconds to stretch."), user(TAG), tools=CLOCK)
    ((name, arguments),) = said.calls
    assert name == "clock"
    assert json.loads(arguments) == {"action": "schedule", "items": [DUE], "taskId": ""}
    assert said.reason == "tool_calls"


def test_the_arguments_come_in_several_pieces() -> None:
    talk = Conversation((user("remind me in 20 seconds to stretch"), user(TAG)), CLOCK)
    (argued,) = (step for step in script_for(talk).steps if isinstance(step, Argue))
    assert len(argued.pieces) > 5


def test_it_says_when_it_will_come_back() -> None:
    talk = (user("remind me in 20 seconds to stretch"), user(TAG), SCHEDULED)
    kept = {"taskId": "t", "dueAt": DUE["dueAt"], "task": "stretch"}
    held = result(json.dumps({"ok": True, "scheduled": [{**kept, "delivery": "hold"}]}))
    later = result(json.dumps({"ok": True, "scheduled": [{**kept, "delivery": "next_request"}]}))
    promise = "Done: at 13:22:58 I will remind you: stretch. "
    assert answer(*talk, held, tools=CLOCK).text == (
        promise + "Stay connected and I will come back in this same answer."
    )
    assert answer(*talk, later, tools=CLOCK).text == (
        promise + "I will bring it up when you write to me after that."
    )


def test_without_a_time_tag_it_asks_the_clock_first() -> None:
    wish = user("remind me in 20 seconds to stretch")
    asked = assistant("", clock_call(action="get", items=[], taskId=""))
    told_now = result('{"ok":true,"action":"get","nowMs":1770067358229}')
    first = answer(wish, tools=CLOCK)
    assert json.loads(first.calls[0][1]) == {"action": "get", "items": [], "taskId": ""}
    second = answer(wish, asked, told_now, tools=CLOCK)
    assert json.loads(second.calls[0][1])["items"] == [DUE]


def test_a_clock_that_tells_no_time_is_not_asked_twice() -> None:
    wish = user("remind me in 20 seconds to stretch")
    asked = assistant("", clock_call(action="get", items=[], taskId=""))
    refused = result('{"ok":false,"error":"It is broken."}')
    said = answer(wish, asked, refused, tools=CLOCK)
    assert said.text == "The clock did not do that: It is broken."


def test_a_due_reminder_is_brought() -> None:
    talk = (user("remind me in 20 seconds to stretch"), SCHEDULED, result("{}"), assistant("Done"))
    said = answer(*talk, user(REMINDER.format("stretch")), user(TAG), tools=CLOCK)
    assert said.text == "Here is your reminder: stretch."
    assert answer(user(REMINDER.format("喝水")), tools=CLOCK).text == "提醒时间到了：喝水。"


def test_a_reminder_in_the_same_message_is_brought() -> None:
    assert answer(user("hi", REMINDER.format("tea"), TAG)).text == "Here is your reminder: tea."


def test_asked_for_the_time_it_asks_the_clock() -> None:
    talk = (user("What time is it?"), user(TAG))
    said = answer(*talk, tools=CLOCK)
    assert json.loads(said.calls[0][1]) == {"action": "get", "items": [], "taskId": ""}
    now = result('{"ok":true,"action":"get","local":"2026-02-02 13:22","timezone":"PST"}')
    call = assistant("", clock_call(action="get"))
    assert answer(*talk, call, now, tools=CLOCK).text == "It is 2026-02-02 13:22 (PST)."
    assert (
        answer(user("现在几点？"), call, now, tools=CLOCK).text
        == "现在是 2026-02-02 13:22（PST）。"
    )


@pytest.mark.parametrize("prompt", ["remind me in 5 minutes to eat", "what time is it", "现在几点"])
def test_without_a_clock_it_says_so(prompt: str) -> None:
    assert "clock" in answer(user(prompt)).text
    assert not answer(user(prompt)).calls


RESULTS = {
    "sunny": "The tool weather answered: sunny",
    "x" * 400: f"The tool weather answered: {'x' * 300}…",
}


@pytest.mark.parametrize("text", RESULTS)
def test_a_result_is_put_into_a_sentence(text: str) -> None:
    call = assistant("", Call("c1", "weather", "{}"))
    assert answer(user("how is it outside?"), call, result(text)).text == RESULTS[text]


@pytest.mark.parametrize(
    "text",
    ["not json", "[" * 100_000, "3", "{}", '{"scheduled":[]}', '{"scheduled":[3]}', '{"ok":false}'],
)
def test_an_odd_result_of_the_clock_is_no_trouble(text: str) -> None:
    call = assistant("", clock_call(action="list"))
    assert answer(user("hm"), call, result(text), tools=CLOCK).text


WISHES = {
    "remind me in 20 seconds to stretch": Wish(20, "stretch"),
    "Please remind me in 5 minutes, to call Ann!": Wish(300, "call Ann"),
    "remind me in a minute about the tea": Wish(60, "the tea"),
    "remind me in 2h": Wish(7200, ""),
    "remind me to drink water in 10 s": Wish(10, "drink water"),
    "remind me in 5 minutes together": Wish(300, "together"),
    "20秒后提醒我喝水": Wish(20, "喝水"),
    "请在5分钟后提醒我开会。": Wish(300, "开会"),
    "提醒我一个小时后吃饭": Wish(3600, "吃饭"),
    "remind me tomorrow": None,
    "hello": None,
}


@pytest.mark.parametrize("text", WISHES)
def test_a_wish_is_read(text: str) -> None:
    assert wish_of(text) == WISHES[text]


def test_the_newest_time_counts() -> None:
    older = user(TAG.replace("1770067358229", "1"))
    now = told_time((older, assistant("x"), user(TAG)))
    assert now is not None
    assert (now.ms, now.offset.total_seconds()) == (1770067358229, -8 * 3600)


def test_a_time_in_a_persons_words_does_not_count() -> None:
    assert told_time((user("it is nowMs=`5`"), assistant("nowMs=`6`"))) is None
    assert told_time((user("[Time/Date]: nowMs=`99999999999999`"),)) is None
    assert told_time((user("[Time/Date]: nowMs=`5`"),)) == Now(5)


TIMES = {
    ("2026-02-02T21:22:58Z", 0): "21:22:58 UTC",
    ("2026-02-02T21:22:58+01:00", 0): "20:22:58 UTC",
    ("2026-02-02T21:22:58Z", 90): "22:52:58",
    ("soon", 0): "soon",
    ("0001-01-01T00:00:00Z", -60): "0001-01-01T00:00:00Z",
}


@pytest.mark.parametrize("due, minutes", TIMES)
def test_a_time_of_day(due: str, minutes: int) -> None:
    assert clock_time(due, timedelta(minutes=minutes)) == TIMES[due, minutes]


def test_what_is_said_is_a_script() -> None:
    assert isinstance(script_for(Conversation(())), Script)
