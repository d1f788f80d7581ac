"""What the demo model answers: a pure function from a dialogue to orders.

What it says depends only on the dialogue, so equal requests get equal answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gateway.demo.dialogue import Dialogue, DialogueResult, is_persons, order_lines, own_texts
from gateway.demo.orders import OrderedCall, Orders, parse, tokens_of
from gateway.demo.phrases import Phrases, phrases_for
from gateway.demo.tools import (
    CLOCK,
    SCHEDULE_TASK,
    UnderstoodTurn,
    call_tools,
    describe_clock_result,
    describe_task_result,
    understand,
)

QUOTED = 60
SHOWN_OF_RESULT = 300
# Who asks for a joke, a word or a summary is brief; whoever writes more wants something else.
LONGEST_WISH = 200
END_MARKS = (".", "!", "?", "…", "。", "！", "？")
GREETING = re.compile(
    r"\s*(?:(?:hi|hello|hey|good (?:morning|evening))\b|你好|您好|[\s.]*$)", re.IGNORECASE
)
THANKS = re.compile(r"\s*(?:(?:thanks|thank you)\b|谢谢|多谢)", re.IGNORECASE)
JOKE = re.compile(r"\bjokes?\b|笑话", re.IGNORECASE)
WORD = re.compile(
    r"\b(?:tell|say|give|teach|send)\b.*\bwords?\b|(?:说|教|给|来).*(?:词|单词)", re.IGNORECASE
)
SUMMARY = re.compile(r"\A(?:please )?(?:give me a summary|sum(?:mari[sz]e| up))\b|\A.{0,4}总结")
REMIND = re.compile(r"\A(?:Remind the user|提醒用户)[:：]\s*(?P<task>.+)\Z", re.DOTALL)


def choose_orders(dialogue: Dialogue) -> Orders:
    """Decide what to answer: what is ordered, or else what the model says of its own accord."""
    return find_orders(dialogue) or order_reply(dialogue)


def find_orders(dialogue: Dialogue) -> Orders | None:
    """Read the prompt's first `demo:` line in the first turn, the second in the next, …

    A `demo:` line that comes back as a due task is an order too.
    """
    lines = order_lines(dialogue.prompt)
    if lines and dialogue.turn < len(lines):
        return parse(lines[dialogue.turn])
    due = order_lines("\n".join(dialogue.due))
    return parse(due[0]) if due else None


def order_reply(dialogue: Dialogue) -> Orders:
    """Say what is due, and answer what was asked; no longer than the client wants."""
    news = "\n\n".join(filter(None, (announce_due(dialogue), tell_outcomes(dialogue))))
    text, calls = ("", ()) if news and not dialogue.asked else answer_prompt(understand(dialogue))
    said = "\n\n".join(filter(None, (news, text)))
    if dialogue.limit is not None and dialogue.limit < len(tokens_of(said)):
        return Orders(say=said, tokens=max(dialogue.limit, 0), finish="length")
    return Orders(say=said, tool=calls)


def answer_prompt(turn: UnderstoodTurn) -> tuple[str, tuple[OrderedCall, ...]]:
    """Call tools, or else say something: the first rule that knows an answer wins."""
    calls = call_tools(turn)
    return "" if calls else next(text for rule in RULES if (text := rule(turn))), calls


def announce_due(dialogue: Dialogue) -> str:
    """Say what is due, if anything is."""
    if not dialogue.due:
        return ""
    phrases = phrases_for(dialogue.prompt or "".join(dialogue.due))
    return announce(phrases, "; ".join(task.strip() for task in dialogue.due))


def announce(phrases: Phrases, tasks: str) -> str:
    """Say that it is time for something."""
    said = phrases.say("due", tasks=tasks)
    return said if said.endswith(END_MARKS) else said + phrases.say("stop")


def tell_outcomes(dialogue: Dialogue) -> str:
    """Say what tasks came to, if any result was brought."""
    phrases = phrases_for(dialogue.prompt or "".join(text for _, text in dialogue.outcomes))
    return "\n\n".join(
        phrases.say("outcome", name=name, text=shorten(text, SHOWN_OF_RESULT))
        for name, text in dialogue.outcomes
    )


def report_results(turn: UnderstoodTurn) -> str | None:
    """Put the tools' answers into sentences, and say what there was no tool for."""
    if not turn.dialogue.results:
        return None
    reports = [describe_result(turn, result) for result in turn.dialogue.results]
    return turn.phrases.space.join(filter(None, (*reports, regret_tasks(turn))))


def describe_result(turn: UnderstoodTurn, result: DialogueResult) -> str:
    """Put one tool's answer into words."""
    described = None
    if result.tool == CLOCK:
        described = describe_clock_result(turn, result.text)
    elif result.tool == SCHEDULE_TASK:
        described = describe_task_result(turn, result)
    text = shorten(result.text.strip(), SHOWN_OF_RESULT)
    return described or turn.phrases.say("result", tool=result.tool, text=text)


def regret_tasks(turn: UnderstoodTurn) -> str | None:
    """Say that without the tool nothing can be done again and again."""
    if SCHEDULE_TASK in turn.dialogue.tools or turn.tasks is None:
        return None
    return turn.phrases.say("no_tool")


def regret_clock(turn: UnderstoodTurn) -> str | None:
    """Say that without a clock there is neither time nor reminder."""
    if CLOCK in turn.dialogue.tools or turn.reminders is None:
        return None
    return turn.phrases.say("no_clock")


def ask_when(turn: UnderstoodTurn) -> str | None:
    """Ask for the time of a reminder that has none."""
    is_vague = turn.reminders is not None and turn.reminders.action == "ask_when"
    return turn.phrases.say("when") if is_vague else None


def run_reminding_task(turn: UnderstoodTurn) -> str | None:
    """Say that it is time for what a task of reminding is about."""
    found = REMIND.match(turn.dialogue.prompt)
    return announce(turn.phrases, found["task"].strip()) if found else None


def entertain(turn: UnderstoodTurn) -> str | None:
    """Tell a joke or a word, each time the next one."""
    prompt, phrases = turn.dialogue.prompt, turn.phrases
    if len(prompt) > LONGEST_WISH:
        return None
    # The time differs from one run of a task to the next; nothing else may.
    number = turn.now.ms // 1000 if turn.now else turn.dialogue.answers
    for pattern, stock in ((JOKE, phrases.some_jokes), (WORD, phrases.some_words)):
        if pattern.search(prompt):
            return stock[number % len(stock)]
    return None


def summarise(turn: UnderstoodTurn) -> str | None:
    """Say how much was said, and what last."""
    prompt, say = turn.dialogue.prompt, turn.phrases.say
    if len(prompt) > LONGEST_WISH or not SUMMARY.match(prompt.lower()):
        return None
    *before, _ = [m for m in turn.dialogue.messages if is_persons(m)]
    last = say("last", text=quote(" ".join(own_texts(before[-1])))) if before else ""
    return say("summary", count=len(before), last=last)


def introduce(turn: UnderstoodTurn) -> str:
    """Answer kindly, and say what can be tried."""
    prompt, say = turn.dialogue.prompt, turn.phrases.say
    if THANKS.match(prompt):
        opening = say("thanks")
    elif GREETING.match(prompt):
        opening = say("hello")
    else:
        opening = say("answer", prompt=quote(prompt))
    offered = ((CLOCK, "clock_tricks"), (SCHEDULE_TASK, "task_tricks"))
    tricks = [say(name) for tool, name in offered if tool in turn.dialogue.tools]
    return turn.phrases.space.join((opening, *tricks, say("tricks")))


RULES: tuple[Callable[[UnderstoodTurn], str | None], ...] = (
    report_results,
    regret_tasks,
    regret_clock,
    ask_when,
    run_reminding_task,
    entertain,
    summarise,
    introduce,
)


def quote(text: str) -> str:
    """Return how a text begins, on one line."""
    return shorten(" ".join(text.split()), QUOTED)


def shorten(text: str, most: int) -> str:
    """Return how a text begins."""
    return text if len(text) <= most else text[:most] + "…"
