"""What a person wants done again and again, read from their words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.demo.intents import (
    RecurringTask,
    TaskIntent,
    read_task_intent,
)
from gateway.errors import InvalidInput
from gateway.jobs.model import JobRules
from gateway.jobs.schedule.reader import read_schedule

DOCS = Path(__file__).parents[2] / "docs" / "demo-upstream.md"
NOW = 1_770_067_358_229

TASKS: dict[str, tuple[str, str]] = {
    "every 10 seconds tell me a joke": ("every 10 seconds", "tell me a joke"),
    "tell me a joke every 10 seconds, please": ("every 10 seconds", "tell me a joke"),
    "Could you tell me a word every five seconds?": ("every five seconds", "tell me a word"),
    "I'd like you to tell me a joke every half hour": ("every half hour", "tell me a joke"),
    "tell me a joke hourly": ("hourly", "tell me a joke"),
    "Hello! Every 5 s tell me a word.": ("every 5 s", "tell me a word"),
    "every 5 seconds demo: say=hi": ("every 5 seconds", "demo: say=hi"),
    "daily at 9am summarise": ("daily at 9:00", "summarise"),
    "daily at 9 a.m. tell me the news": ("daily at 9:00", "tell me the news"),
    "daily at 9am and 6pm summarise": ("daily at 9:00 and 6pm", "summarise"),
    "summarise the day daily at midnight": ("daily at 0:00", "summarise the day"),
    "every morning summarise": ("daily at 9:00", "summarise"),
    "every evening at 8 say good night": ("daily at 20:00", "say good night"),
    "Every Friday, summarise and tell me a joke": (
        "every friday at 9:00",
        "summarise and tell me a joke",
    ),
    "check the mail and summarise it every Friday": (
        "every friday at 9:00",
        "check the mail and summarise it",
    ),
    "summarise every Monday and Friday at noon": ("every monday and friday at 12:00", "summarise"),
    "at 18:30 on weekdays say goodbye": ("on weekdays at 18:30", "say goodbye"),
    "weekly on friday summarise": ("weekly on friday at 9:00", "summarise"),
    "monthly on the 1st at 9am pay the rent": ("monthly on the 1st at 9:00", "pay the rent"),
    "每10秒给我讲个笑话": ("每10秒", "给我讲个笑话"),
    "请每隔半小时讲个笑话吧。": ("每隔半小时", "讲个笑话"),
    "每天9点总结一下": ("每天9点", "总结一下"),
    "每周五九点总结": ("每周五九点", "总结"),
    "每周一、三、五8点一刻总结": ("每周一、三、五8点一刻", "总结"),
    "每周五总结": ("每周五9点", "总结"),
    "每晚8点说晚安": ("每天晚上8点", "说晚安"),
    "每早说早安": ("每天早上9点", "说早安"),
    "我想每小时听一个笑话": ("每小时", "听一个笑话"),
}

REMINDING: dict[str, tuple[str, str]] = {
    "remind me daily at 9am to drink tea": ("daily at 9:00", "drink tea"),
    "remind me every hour about the cake": ("every hour", "the cake"),
    "at nine every weekday remind me to stand up": ("every weekday at 9:00", "stand up"),
    "wake me every day at seven": ("every day at 7:00", ""),
    "工作日18:30提醒我下班": ("工作日18:30", "下班"),
}

OTHERS: dict[str, TaskIntent | None] = {
    "remind me at nine and summarise every Friday": TaskIntent(
        "add", (RecurringTask("every friday at 9:00", "summarise"),), "remind me at nine"
    ),
    "every Friday summarise, and remind me in 5 s to look, in 10 s to leave": TaskIntent(
        "add",
        (RecurringTask("every friday at 9:00", "summarise"),),
        ", and remind me in 5 s to look, in 10 s to leave",
    ),
    "9点提醒我开会，每周五总结": TaskIntent(
        "add", (RecurringTask("每周五9点", "总结"),), "9点提醒我开会"
    ),
    "every 5 s tell me a word and every Friday at ten summarise": TaskIntent(
        "add",
        (
            RecurringTask("every 5 s", "tell me a word"),
            RecurringTask("every friday at 10:00", "summarise"),
        ),
    ),
    "every 5 s tell me a word\nremind me in 5 s to look": TaskIntent(
        "add", (RecurringTask("every 5 s", "tell me a word"),), "remind me in 5 s to look"
    ),
    "list my tasks": TaskIntent("list"),
    "What tasks do I have?": TaskIntent("list"),
    "which jobs are running?": TaskIntent("list"),
    "列出我的任务": TaskIntent("list"),
    "我有哪些定时任务？": TaskIntent("list"),
    "stop": TaskIntent("remove"),
    "cancel that task": TaskIntent("remove"),
    "stop telling me jokes": TaskIntent("remove", words=("jokes",)),
    "please remove the task about tea": TaskIntent("remove", words=("tea",)),
    "cancel all tasks": TaskIntent("remove", every=True),
    "Stop everything!": TaskIntent("remove", every=True),
    "remove my jobs": TaskIntent("remove", every=True),
    "停止": TaskIntent("remove"),
    "取消那个任务": TaskIntent("remove"),
    "别再讲笑话了": TaskIntent("remove", words=("笑话",)),
    "清空任务": TaskIntent("remove", every=True),
    "every 5 minutes": None,
    "每5分钟": None,
    "I eat an apple every day": None,
    "the bus comes every 10 minutes": None,
    "what do developers do every day?": None,
    "what jobs pay well?": None,
    "我每天喝茶": None,
    "remind me in 20 s to drink tea every day": None,
    "remind me in 20 s to drink tea": None,
    "cancel the tea reminder": None,
    "what time is it?": None,
    "": None,
}


@pytest.mark.parametrize("text", TASKS)
def test_tasks_are_read(text: str) -> None:
    assert tasks(text) == (RecurringTask(*TASKS[text]),)


@pytest.mark.parametrize("text", REMINDING)
def test_reminders_that_come_again_are_read(text: str) -> None:
    assert tasks(text) == (RecurringTask(*REMINDING[text], reminds=True),)


@pytest.mark.parametrize("text", OTHERS)
def test_other_errands_are_read(text: str) -> None:
    assert read_task_intent(text) == OTHERS[text]


@pytest.mark.parametrize("schedule", [said for said, _ in (*TASKS.values(), *REMINDING.values())])
def test_the_gateway_understands_when(schedule: str) -> None:
    assert read_schedule({}, schedule, NOW, JobRules())


@pytest.mark.parametrize("text", ["weekly summarise", "every month summarise"])
def test_what_leaves_the_day_open_is_left_to_the_gateway_to_refuse(text: str) -> None:
    (task,) = tasks(text)
    with pytest.raises(InvalidInput, match="say on which day"):
        read_schedule({}, task.schedule, NOW, JobRules())


@pytest.mark.parametrize(
    "noise",
    [
        "every day at 9, ",
        "every 5 s and ",
        "at nine ",
        "what jobs ",
        "stop ",
        "please ",
        "每5秒，",
        "a. ",
    ],
)
def test_a_long_prompt_takes_no_time(noise: str) -> None:
    read_task_intent(noise * 1_000_000)


def test_the_docs_say_what_is_understood() -> None:
    row = re.compile(r"^\| (`.+`) \| .*`schedule_task`.* \|$", re.MULTILINE)
    examples = [e for cell in row.findall(DOCS.read_text()) for e in re.findall(r"`(.+?)`", cell)]
    intents = [read_task_intent(example) for example in examples]
    assert None not in intents
    assert {intent.action for intent in intents if intent} == {"add", "list", "remove"}


def tasks(text: str) -> tuple[RecurringTask, ...]:
    """Read what is to be done again and again."""
    errand = read_task_intent(text)
    assert errand is not None
    assert errand.action == "add"
    return errand.tasks
