"""What the demo model answers to a conversation."""

from __future__ import annotations

import json

import pytest

from gateway.demo.dialect import CompleteAnswer, UnreadableRequest
from gateway.demo.dialogue import Dialogue, DialogueCall, DialogueMessage, strip_agent_blocks
from gateway.demo.orders import Orders
from gateway.demo.replies import choose_orders

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


def user(*texts: str) -> DialogueMessage:
    return DialogueMessage("user", texts)


def assistant(text: str = "", *calls: DialogueCall) -> DialogueMessage:
    return DialogueMessage("assistant", (text,) if text else (), calls)


def result(text: str, call: str = "c1") -> DialogueMessage:
    return DialogueMessage("tool", (text,), answers=call)


def answer(*messages: DialogueMessage, tools: frozenset[str] = frozenset()) -> CompleteAnswer:
    return choose_orders(Dialogue(messages, tools)).whole


def clock_call(**arguments: object) -> DialogueCall:
    return DialogueCall("c1", "clock", json.dumps(arguments))


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
    orders = choose_orders(Dialogue((user("hi"),)))
    assert orders.delay_ms == 30
    assert orders.spoken[:3] == ("Hello!", " I", " am")


def test_it_stops_at_the_wanted_length() -> None:
    said = choose_orders(Dialogue((user("hi"),), limit=3)).whole
    assert (said.text, said.reason) == ("Hello! I am", "length")


def test_equal_conversations_get_equal_scripts() -> None:
    dialogue = Dialogue((user("tell me more"), user(TAG)), CLOCK)
    assert choose_orders(dialogue) == choose_orders(dialogue)


def test_a_conversation_without_a_user_is_greeted() -> None:
    assert answer(DialogueMessage("system", ("be brief",))).text.startswith("Hello!")


def test_the_clock_is_advertised_when_it_is_there() -> None:
    assert "remind me in 20 seconds" in answer(user("hi"), tools=CLOCK).text
    assert "remind me in 20 seconds" not in answer(user("hi")).text


# Orders


def test_the_first_line_orders_the_first_turn_and_the_second_the_next() -> None:
    prompt = user('please\n  demo: tool=t\ndemo: say="second turn"\nthank you')
    call = assistant("", DialogueCall("c1", "t", "{}"))
    assert answer(prompt).calls == (("t", "{}"),)
    assert answer(prompt, call, result("ok")).text == "second turn"
    assert answer(prompt, call, result("ok"), assistant("x")).text.startswith("You said “please")


def test_orders_stand_at_the_start_of_a_line_only() -> None:
    assert answer(user("a demo: tokens=1")).text.startswith("You said")


def test_orders_hold_though_a_time_tag_or_a_reminder_was_added() -> None:
    prompt = user("demo: say=ordered")
    assert answer(prompt, user(TAG)).text == "ordered"
    assert answer(prompt, user(REMINDER.format("tea")), user(TAG)).text == "ordered"
    assert answer(user("demo: say=ordered", REMINDER.format("tea"), TAG)).text == "ordered"


def test_orders_of_an_older_message_are_forgotten() -> None:
    dialogue = (user("demo: say=old"), assistant("old"), user("hi"))
    assert answer(*dialogue).text.startswith("Hello!")


def test_a_due_task_may_be_an_order() -> None:
    due = REMINDER.format('demo: say=\\"a [b\\u005d c\\"')
    assert answer(user("hi"), assistant("hello"), user(due), user(TAG)).text == "a [b] c"


def test_a_wrong_order_is_a_bad_request() -> None:
    with pytest.raises(UnreadableRequest) as caught:
        choose_orders(Dialogue((user("demo: colour=red"),)))
    fail = caught.value.fail
    assert (fail.status, fail.code) == (400, "bad_demo_line")
    assert "Unknown key 'colour'" in fail.message


# The clock, where a real one would not lead; where it leads is in test_demo_clock.py.


def test_without_a_time_tag_it_asks_the_clock_first() -> None:
    wish = user("remind me in 20 seconds to stretch")
    asked = assistant("", clock_call(action="get", items=[], taskId=""))
    now = '{"ok":true,"nowMs":1770067358229,"local":"2026-02-02 13:22:38.229 -08:00"}'
    first = answer(wish, tools=CLOCK)
    assert json.loads(first.calls[0][1]) == {"action": "get", "items": [], "taskId": ""}
    second = answer(wish, asked, result(now), tools=CLOCK)
    assert json.loads(second.calls[0][1])["items"] == [DUE]
    scheduled = assistant("", DialogueCall("c2", "clock", second.calls[0][1]))
    kept = json.dumps({"ok": True, "scheduled": [{**DUE, "taskId": "t", "delivery": "hold"}]})
    third = answer(wish, asked, result(now), scheduled, result(kept, "c2"), tools=CLOCK)
    assert third.text == "I set it: stretch. This answer stays open and I go on at 13:22:58."


def test_a_clock_that_tells_no_time_is_not_asked_twice() -> None:
    wish = user("remind me in 20 seconds to stretch")
    asked = assistant("", clock_call(action="get", items=[], taskId=""))
    refused = result('{"ok":false,"error":"It is broken."}')
    said = answer(wish, asked, refused, tools=CLOCK)
    assert said.text == "I could not do that: It is broken."


def test_deliveries_of_both_kinds_are_told() -> None:
    wish = user("remind me in 5 s to stretch and in 2 d to rest"), user(TAG)
    item = {"dueAt": "2026-02-02T21:22:43Z", "task": "stretch", "delivery": "hold"}
    later = {"dueAt": "2026-02-04T21:22:38Z", "task": "rest", "delivery": "next_request"}
    kept = result(json.dumps({"ok": True, "scheduled": [later, item]}))
    assert answer(*wish, SCHEDULED, kept, tools=CLOCK).text == (
        "I set it: rest; stretch. This answer stays open and I go on at 13:22:43. "
        "I will bring it up when you write to me after 2026-02-04 13:22:38."
    )


def test_a_reminder_in_the_same_message_is_brought_before_the_answer() -> None:
    said = answer(user("hi", REMINDER.format("tea"), TAG)).text
    assert said.startswith("It is time: tea.\n\nHello!")


def test_a_reminder_is_brought_in_the_language_of_the_talk() -> None:
    assert answer(user(REMINDER.format("喝水"))).text == "时间到了：喝水。"
    dialogue = (user("hello"), assistant("hello"), user(REMINDER.format("喝水")))
    assert answer(*dialogue).text == "It is time: 喝水."


@pytest.mark.parametrize("task", ["Run!", "Ready?", "Go.", "走！"])
def test_a_task_with_a_mark_at_its_end_gets_no_other(task: str) -> None:
    assert answer(user("hi"), assistant("ho"), user(REMINDER.format(task))).text == (
        f"It is time: {task}"
    )


def test_a_reminder_between_a_tool_and_its_answer_is_brought_with_it() -> None:
    call = assistant("", DialogueCall("c1", "weather", "{}"))
    dialogue = (user("how is it outside?"), call, result("sunny"), user(REMINDER.format("tea")))
    assert answer(*dialogue, user(TAG)).text == (
        "It is time: tea.\n\nThe tool weather answered: sunny"
    )


def test_only_what_waits_is_brought() -> None:
    dialogue = (user("hi"), assistant("ho"), user(REMINDER.format("tea")), user(TAG))
    again = (assistant("It is time: tea."), user(REMINDER.format("cake")), user(TAG))
    assert answer(*dialogue, *again).text == "It is time: cake."


def test_a_reminder_in_an_unknown_form_is_brought_as_it_stands() -> None:
    assert answer(user("[Clock Reminder] tea")).text == "It is time: [Clock Reminder] tea."


@pytest.mark.parametrize(
    "prompt",
    [
        "remind me in 5 minutes to eat",
        "what time is it",
        "现在几点",
        "list my reminders",
        "取消提醒",
    ],
)
def test_without_a_clock_it_says_so(prompt: str) -> None:
    said = answer(user(prompt), user(TAG))
    assert said.text.startswith(("I have no clock", "我没有时钟"))
    assert not said.calls


def test_it_stops_at_the_wanted_length_before_a_call() -> None:
    dialogue = (user("what time is it?"), user(REMINDER.format("drink your tea")), user(TAG))
    whole = choose_orders(Dialogue(dialogue, CLOCK)).whole
    cut = choose_orders(Dialogue(dialogue, CLOCK, limit=2)).whole
    assert (whole.text, whole.reason) == ("It is time: drink your tea.", "tool_calls")
    assert (cut.text, cut.calls, cut.reason) == ("It is", (), "length")


def test_an_empty_message_is_greeted() -> None:
    """The gateway leaves a dot where a message held nothing but a directive."""
    assert answer(user(".")).text.startswith("Hello!")


RESULTS = {
    "sunny": "The tool weather answered: sunny",
    "x" * 400: f"The tool weather answered: {'x' * 300}…",
}


@pytest.mark.parametrize("text", RESULTS)
def test_a_result_is_put_into_a_sentence(text: str) -> None:
    call = assistant("", DialogueCall("c1", "weather", "{}"))
    assert answer(user("how is it outside?"), call, result(text)).text == RESULTS[text]


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[" * 100_000,
        "3",
        "{}",
        '{"scheduled":[]}',
        '{"scheduled":[3]}',
        '{"ok":false}',
        '{"items":3}',
        '{"removed":"some id"}',
        '{"local":"late","timezone":"?"}',
    ],
)
def test_an_odd_result_of_the_clock_is_no_trouble(text: str) -> None:
    call = assistant("", clock_call(action="list"))
    assert answer(user("hm"), call, result(text), tools=CLOCK).text


def test_what_is_said_is_a_script() -> None:
    assert isinstance(choose_orders(Dialogue(())), Orders)


CLAUDE_CODE = (
    "<system-reminder>\nAs you answer the user's questions, you can use the following context:\n"
    "# currentDate\nToday's date is 2026-02-02.\ndemo: say=no\n</system-reminder>\n"
)
CODEX = (
    "# AGENTS.md instructions for /srv/work\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>",
    "<environment_context>\n  <cwd>/srv/work</cwd>\n  <shell>bash</shell>\n</environment_context>",
)


@pytest.mark.parametrize(
    "messages",
    [
        [user(CLAUDE_CODE, "Why is the sky blue?")],
        [user(f"{CLAUDE_CODE}Why is the sky blue?")],
        [user(f"Why is the sky blue?\n\n{CLAUDE_CODE}{CLAUDE_CODE}")],
        [user(*CODEX), user("Why is the sky blue?")],
        [user("\n\n".join(CODEX)), user("Why is the sky blue?")],
        [user("Why is the sky blue?"), user(CODEX[1])],
        [user(f"{CLAUDE_CODE}\n\nWhy is the sky blue?\n\n{TAG}")],
    ],
)
def test_it_quotes_the_user_and_not_the_coding_agent(messages: list[DialogueMessage]) -> None:
    assert answer(*messages).text.startswith("You said “Why is the sky blue?”.")


def test_a_reminder_that_was_joined_to_the_prompt_is_announced() -> None:
    said = answer(user("\n\n".join(("Why is the sky blue?", REMINDER.format("stretch"), TAG)))).text
    assert said.startswith("It is time: stretch.")
    assert "You said “Why is the sky blue?”." in said


@pytest.mark.parametrize(
    "prompt", ["<b>bold</b> words", "what is </system-reminder>?", "what is <system-reminder>?</b>"]
)
def test_marks_of_the_users_own_are_quoted(prompt: str) -> None:
    assert f"“{prompt}”" in answer(user(prompt)).text


def test_a_block_that_is_never_closed_costs_nothing() -> None:
    prompt = "</b>" + "<system-reminder>" * 200_000
    assert strip_agent_blocks(prompt) == prompt
