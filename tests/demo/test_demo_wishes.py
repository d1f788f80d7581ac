"""What a person wants of the clock, and what time it is in a conversation."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.demo.conversation import Message
from gateway.demo.daytimes import At
from gateway.demo.moments import Now, clock_time, instant, told_time
from gateway.demo.wishes import (
    LONGEST,
    CancelReminder,
    ClearReminders,
    ListReminders,
    Reminder,
    RemindSometime,
    SetReminders,
    TellTime,
    Wish,
    wish_of,
)

DOCS = Path(__file__).parents[2] / "docs" / "demo-upstream.md"
NOW = 1_770_067_358_229
TAG = f"[Time/Date]: utc=`x` local=`2026-02-02 13:22:38.229 -08:00` tz=`x` nowMs=`{NOW}`"

REMINDERS: dict[str, tuple[tuple[int | At, str], ...]] = {
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
    "remind me at nine": ((At(9), ""),),
    "remind me at 9:30 to stretch": ((At(9, 30), "stretch"),),
    "remind me at 12am about the party": ((At(0), "the party"),),
    "remind me at twelve o’clock: lunch": ((At(12), "lunch"),),
    "remind me tomorrow at noon to pay": ((At(12, ahead=1), "pay"),),
    "remind me at 6 pm tomorrow to pay": ((At(18, ahead=1), "pay"),),
    "at 6pm remind me to go home": ((At(18), "go home"),),
    "remind me to call Ann at 18:30, please": ((At(18, 30), "call Ann"),),
    "remind me at nine to look and at ten to leave": ((At(9), "look"), (At(10), "leave")),
    "明天上午9点提醒我开会": ((At(9, ahead=1), "开会"),),
    "九点半提醒我喝茶": ((At(9, 30), "喝茶"),),
    "晚上8点一刻叫我睡觉": ((At(20, 15), "睡觉"),),
    "提醒我今天下午3点05分开会": ((At(15, 5, 0), "开会"),),
    "18:30提醒我下班": ((At(18, 30), "下班"),),
    "午夜提醒我睡觉": ((At(0), "睡觉"),),
}

OTHERS: dict[str, Wish | None] = {
    "remind me tomorrow": RemindSometime(),
    "remind me in 5 months to rest": RemindSometime(),
    "remind me at 25:00 to rest": RemindSometime(),
    "remind me at 24 to rest": RemindSometime(),
    "remind me to look at 5 pictures": RemindSometime(),
    "二十五点提醒我喝水": RemindSometime(),
    "二十五秒后提醒我喝水": RemindSometime(),
    "1234567 秒后提醒我喝水": RemindSometime(),
    "list my reminders": ListReminders(),
    "Which reminders are set?": ListReminders(),
    "我有哪些提醒": ListReminders(),
    "cancel": CancelReminder(),
    "cancel my reminder": CancelReminder(),
    "cancel tea": CancelReminder(("tea",)),
    "Cancel the Tea reminder": CancelReminder(("tea",)),
    "please delete the reminder to drink tea": CancelReminder(("drink", "tea")),
    "取消提醒": CancelReminder(),
    "取消喝茶的提醒": CancelReminder(("喝茶",)),
    "cancel my reminders": ClearReminders(),
    "clear my reminders": ClearReminders(),
    "Cancel everything!": ClearReminders(),
    "forget all my reminders": ClearReminders(),
    "清空提醒": ClearReminders(),
    "取消所有提醒": ClearReminders(),
    "What time is it?": TellTime(),
    "what’s the time": TellTime(),
    "what is the date today?": TellTime(),
    "现在几点？": TellTime(),
    "what is the time complexity of sorting?": None,
    "how do I cancel my subscription?": None,
    "a reminder is a fine thing": None,
    "hello": None,
    "": None,
}


@pytest.mark.parametrize("text", REMINDERS)
def test_reminders_are_read(text: str) -> None:
    assert wish_of(text) == SetReminders(tuple(Reminder(*one) for one in REMINDERS[text]))


@pytest.mark.parametrize("text", OTHERS)
def test_other_wishes_are_read(text: str) -> None:
    assert wish_of(text) == OTHERS[text]


@pytest.mark.parametrize(
    "noise", ["remind me ", "cancel ", "what time ", "1", "十", " in 5 s", " at 9"]
)
def test_a_long_prompt_takes_no_time(noise: str) -> None:
    wish_of(noise * 1_000_000)
    assert wish_of("remind me in 5 s to " + "x" * LONGEST * 2) is not None


def test_the_docs_say_what_is_understood() -> None:
    row = re.compile(r"^\| (`.+`) \| .*`clock`.* \|$", re.MULTILINE)
    examples = [e for cell in row.findall(DOCS.read_text()) for e in re.findall(r"`(.+?)`", cell)]
    assert {type(wish_of(example)) for example in examples} == {
        SetReminders,
        TellTime,
        ListReminders,
        CancelReminder,
        ClearReminders,
    }


def user(*texts: str) -> Message:
    return Message("user", texts)


def test_the_newest_time_counts() -> None:
    older = user(TAG.replace(str(NOW), "1"))
    now = told_time((older, Message("assistant", ("x",)), user("hi", TAG)))
    assert now == Now(NOW, timedelta(hours=-8))


def test_a_result_tells_the_time_too() -> None:
    text = f'{{"ok":true,"nowMs":{NOW},"local":"2026-02-02 22:22:38.229 +01:00"}}'
    told = Message("tool", (text,), answers="c")
    assert told_time((user(TAG), told)) == Now(NOW, timedelta(hours=1))


def test_a_time_in_a_persons_words_does_not_count() -> None:
    assert told_time((user("it is nowMs=`5`"), Message("assistant", ("nowMs=`6`",)))) is None
    assert told_time((user("[Time/Date]: nowMs=`99999999999999`"),)) is None
    assert told_time((user("[Time/Date]: nowMs=`5`"),)) == Now(5)


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
    assert clock_time(due, Now(NOW, timedelta(minutes=minutes))) == TIMES[due, minutes]


INSTANTS = {
    20: "2026-02-02T21:22:58.229Z",
    At(14): "2026-02-02T22:00:00.000Z",
    At(9): "2026-02-03T17:00:00.000Z",
    At(13, 22): "2026-02-03T21:22:00.000Z",
    At(14, ahead=1): "2026-02-03T22:00:00.000Z",
    At(9, ahead=0): "2026-02-02T17:00:00.000Z",
}


@pytest.mark.parametrize("when", INSTANTS)
def test_the_next_time_it_is_that_time(when: int | At) -> None:
    assert instant(Now(NOW, timedelta(hours=-8)), when) == INSTANTS[when]


def test_an_instant_when_no_time_is_known() -> None:
    assert clock_time("2026-02-02T21:22:58Z", None) == "2026-02-02 21:22:58 UTC"


def test_an_absurd_zone_is_no_trouble() -> None:
    now = told_time((user(TAG.replace("-08:00", "-99:99")),))
    assert clock_time("2026-02-02T21:22:58Z", now)
