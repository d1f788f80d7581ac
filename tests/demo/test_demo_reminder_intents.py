"""What a person wants of the clock, and what time it is in a conversation."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.demo.dialogue import DialogueMessage
from gateway.demo.intents import LONGEST, ReminderIntent, WantedReminder, read_reminder_intent
from gateway.demo.times import CurrentTime, TimeOfDay, clock_time, find_time, instant

DOCS = Path(__file__).parents[2] / "docs" / "demo-upstream.md"
NOW = 1_770_067_358_229
TAG = f"[Time/Date]: utc=`x` local=`2026-02-02 13:22:38.229 -08:00` tz=`x` nowMs=`{NOW}`"

REMINDERS: dict[str, tuple[tuple[int | TimeOfDay, str], ...]] = {
    "remind me in 20 seconds to stretch": ((20, "stretch"),),
    "Please remind me in 5 minutes, to call Ann!": ((300, "call Ann"),),
    "remind me in a minute about the tea": ((60, "the tea"),),
    "remind me in 2h": ((7200, ""),),
    "remind me in an hour: lunch": ((3600, "lunch"),),
    "remind me to drink water in 10 s": ((10, "drink water"),),
    "remind me about the cake after fifteen mins, ok?": ((900, "the cake"),),
    "remind me in 5 minutes together": ((300, "together"),),
    "In 3 days, please remind me to pay": ((259200, "pay"),),
    "wake me in 5 s": ((5, ""),),
    "set a timer for 5 minutes": ((300, ""),),
    "set a reminder to drink tea in twenty seconds": ((20, "drink tea"),),
    "remind me in 5 s to look, in 10 s to leave": ((5, "look"), (10, "leave")),
    "remind me in 5 s to look and then in 10 s to leave.": ((5, "look"), (10, "leave")),
    "in 5 s remind me to look and in 10 s remind me to leave": ((5, "look"), (10, "leave")),
    "remind me in 5 s to taste the cake in 10 minutes": ((5, "taste the cake in 10 minutes"),),
    "remind me in 5 s to cancel all reminders": ((5, "cancel all reminders"),),
    "hello\nremind me in 5 s to look\nthank you": ((5, "look"),),
    "20秒后提醒我喝水": ((20, "喝水"),),
    "请在5分钟后提醒我开会。": ((300, "开会"),),
    "提醒我一个小时后吃饭": ((3600, "吃饭"),),
    "两分钟后叫我起床": ((120, "起床"),),
    "10秒后提醒我伸展，20秒后提醒我喝茶。": ((10, "伸展"), (20, "喝茶")),
    "remind me at nine": ((TimeOfDay(9), ""),),
    "remind me at 9:30 to stretch": ((TimeOfDay(9, 30), "stretch"),),
    "remind me at 12am about the party": ((TimeOfDay(0), "the party"),),
    "remind me at twelve o’clock: lunch": ((TimeOfDay(12), "lunch"),),
    "remind me tomorrow at noon to pay": ((TimeOfDay(12, ahead=1), "pay"),),
    "remind me at 6 pm tomorrow to pay": ((TimeOfDay(18, ahead=1), "pay"),),
    "at 6pm remind me to go home": ((TimeOfDay(18), "go home"),),
    "remind me to call Ann at 18:30, please": ((TimeOfDay(18, 30), "call Ann"),),
    "remind me at nine to look and at ten to leave": (
        (TimeOfDay(9), "look"),
        (TimeOfDay(10), "leave"),
    ),
    "明天上午9点提醒我开会": ((TimeOfDay(9, ahead=1), "开会"),),
    "九点半提醒我喝茶": ((TimeOfDay(9, 30), "喝茶"),),
    "晚上8点一刻叫我睡觉": ((TimeOfDay(20, 15), "睡觉"),),
    "提醒我今天下午3点05分开会": ((TimeOfDay(15, 5, 0), "开会"),),
    "18:30提醒我下班": ((TimeOfDay(18, 30), "下班"),),
    "午夜提醒我睡觉": ((TimeOfDay(0), "睡觉"),),
}

OTHERS: dict[str, ReminderIntent | None] = {
    "remind me tomorrow": ReminderIntent("ask_when"),
    "remind me in 5 months to rest": ReminderIntent("ask_when"),
    "remind me at 25:00 to rest": ReminderIntent("ask_when"),
    "remind me at 24 to rest": ReminderIntent("ask_when"),
    "remind me to look at 5 pictures": ReminderIntent("ask_when"),
    "二十五点提醒我喝水": ReminderIntent("ask_when"),
    "二十五秒后提醒我喝水": ReminderIntent("ask_when"),
    "1234567 秒后提醒我喝水": ReminderIntent("ask_when"),
    "list my reminders": ReminderIntent("list"),
    "Which reminders are set?": ReminderIntent("list"),
    "我有哪些提醒": ReminderIntent("list"),
    "cancel": ReminderIntent("cancel"),
    "cancel my reminder": ReminderIntent("cancel"),
    "cancel tea": ReminderIntent("cancel", words=("tea",)),
    "Cancel the Tea reminder": ReminderIntent("cancel", words=("tea",)),
    "please delete the reminder to drink tea": ReminderIntent("cancel", words=("drink", "tea")),
    "取消提醒": ReminderIntent("cancel"),
    "取消喝茶的提醒": ReminderIntent("cancel", words=("喝茶",)),
    "cancel my reminders": ReminderIntent("clear"),
    "clear my reminders": ReminderIntent("clear"),
    "Cancel everything!": ReminderIntent("clear"),
    "forget all my reminders": ReminderIntent("clear"),
    "清空提醒": ReminderIntent("clear"),
    "取消所有提醒": ReminderIntent("clear"),
    "What time is it?": ReminderIntent("get"),
    "what’s the time": ReminderIntent("get"),
    "what is the date today?": ReminderIntent("get"),
    "现在几点？": ReminderIntent("get"),
    "what is the time complexity of sorting?": None,
    "how do I cancel my subscription?": None,
    "a reminder is a fine thing": None,
    "hello": None,
    "": None,
}


@pytest.mark.parametrize("text", REMINDERS)
def test_reminders_are_read(text: str) -> None:
    assert read_reminder_intent(text) == ReminderIntent(
        "schedule", tuple(WantedReminder(*one) for one in REMINDERS[text])
    )


@pytest.mark.parametrize("text", OTHERS)
def test_other_wishes_are_read(text: str) -> None:
    assert read_reminder_intent(text) == OTHERS[text]


@pytest.mark.parametrize(
    "noise", ["remind me ", "cancel ", "what time ", "1", "十", " in 5 s", " at 9"]
)
def test_a_long_prompt_takes_no_time(noise: str) -> None:
    read_reminder_intent(noise * 1_000_000)
    assert read_reminder_intent("remind me in 5 s to " + "x" * LONGEST * 2) is not None


def test_the_docs_say_what_is_understood() -> None:
    row = re.compile(r"^\| (`.+`) \| .*`clock`.* \|$", re.MULTILINE)
    examples = [e for cell in row.findall(DOCS.read_text()) for e in re.findall(r"`(.+?)`", cell)]
    intents = [read_reminder_intent(example) for example in examples]
    assert None not in intents
    assert {intent.action for intent in intents if intent} == {
        "schedule",
        "get",
        "list",
        "cancel",
        "clear",
    }


def user(*texts: str) -> DialogueMessage:
    return DialogueMessage("user", texts)


def test_the_newest_time_counts() -> None:
    older = user(TAG.replace(str(NOW), "1"))
    now = find_time((older, DialogueMessage("assistant", ("x",)), user("hi", TAG)))
    assert now == CurrentTime(NOW, timedelta(hours=-8))


def test_a_result_tells_the_time_too() -> None:
    text = f'{{"ok":true,"nowMs":{NOW},"local":"2026-02-02 22:22:38.229 +01:00"}}'
    told = DialogueMessage("tool", (text,), answers="c")
    assert find_time((user(TAG), told)) == CurrentTime(NOW, timedelta(hours=1))


def test_a_time_in_a_persons_words_does_not_count() -> None:
    assert (
        find_time((user("it is nowMs=`5`"), DialogueMessage("assistant", ("nowMs=`6`",)))) is None
    )
    assert find_time((user("[Time/Date]: nowMs=`99999999999999`"),)) is None
    assert find_time((user("[Time/Date]: nowMs=`5`"),)) == CurrentTime(5)


TIMES = {
    ("2026-02-02T21:22:58Z", 0): "21:22:58 UTC",
    ("2026-02-02T22:22:58+01:00", 0): "21:22:58 UTC",
    ("2026-02-02T21:22:58Z", 90): "22:52:58",
    ("2026-02-02T21:22:58Z", -90): "19:52:58",
    ("2026-02-02T23:00:00Z", 90): "2026-02-03 00:30:00",
    ("soon", 0): "soon",
    ("0001-01-01T00:00:00Z", -60): "0001-01-01T00:00:00Z",
}


@pytest.mark.parametrize("due, minutes", TIMES)
def test_a_time_of_day(due: str, minutes: int) -> None:
    assert clock_time(due, CurrentTime(NOW, timedelta(minutes=minutes))) == TIMES[due, minutes]


INSTANTS = {
    20: "2026-02-02T21:22:58.229Z",
    TimeOfDay(14): "2026-02-02T22:00:00.000Z",
    TimeOfDay(9): "2026-02-03T17:00:00.000Z",
    TimeOfDay(13, 22): "2026-02-03T21:22:00.000Z",
    TimeOfDay(14, ahead=1): "2026-02-03T22:00:00.000Z",
    TimeOfDay(9, ahead=0): "2026-02-02T17:00:00.000Z",
}


@pytest.mark.parametrize("when", INSTANTS)
def test_the_next_time_it_is_that_time(when: int | TimeOfDay) -> None:
    assert instant(CurrentTime(NOW, timedelta(hours=-8)), when) == INSTANTS[when]


def test_an_instant_when_no_time_is_known() -> None:
    assert clock_time("2026-02-02T21:22:58Z", None) == "2026-02-02 21:22:58 UTC"


def test_an_absurd_zone_is_no_trouble() -> None:
    now = find_time((user(TAG.replace("-08:00", "-99:99")),))
    assert clock_time("2026-02-02T21:22:58Z", now)
