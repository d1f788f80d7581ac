"""What the demo model can do all day: jokes, words, summaries, and reminding of one thing.

What it says next depends only on what time it is told, or how much it has said: equal requests get
equal answers.
"""

from __future__ import annotations

import re

from gateway.demo.clock_tool import announcement
from gateway.demo.dialogue import Dialogue, ModelReply, is_persons, own_texts
from gateway.demo.moments import find_time
from gateway.demo.phrases import Phrases, phrases_for

QUOTED = 60
# A wish for one of these is short; whoever writes more wants something else.
LONGEST = 200
JOKE = re.compile(r"\bjokes?\b|笑话", re.IGNORECASE)
WORD = re.compile(
    r"\b(?:tell|say|give|teach|send)\b.*\bwords?\b|(?:说|教|给|来).*(?:词|单词)", re.IGNORECASE
)
SUMMARY = re.compile(r"\A(?:please )?(?:give me a summary|sum(?:mari[sz]e| up))\b|\A.{0,4}总结")
REMIND = re.compile(r"\A(?:Remind the user|提醒用户)[:：]\s*(?P<task>.+)\Z", re.DOTALL)


def keep_reminding(dialogue: Dialogue) -> ModelReply | None:
    """Say that it is time for what a task of reminding is about."""
    found = REMIND.match(dialogue.prompt)
    return (
        ModelReply(announcement(phrases_for(dialogue.prompt), found["task"].strip()))
        if found
        else None
    )


def entertain(dialogue: Dialogue) -> ModelReply | None:
    """Tell a joke or a word, each time the next one."""
    if len(dialogue.prompt) > LONGEST:
        return None
    phrases = phrases_for(dialogue.prompt)
    for wanted, stock in ((JOKE, phrases.some_jokes), (WORD, phrases.some_words)):
        if wanted.search(dialogue.prompt):
            return ModelReply(stock[turn_of(dialogue) % len(stock)])
    return None


def turn_of(dialogue: Dialogue) -> int:
    """Return a number that differs from one time to the next; in a run nothing else may."""
    now = find_time(dialogue.messages)
    return now.ms // 1000 if now else dialogue.answers


def summarise(dialogue: Dialogue) -> ModelReply | None:
    """Say how much was said, and what last."""
    if len(dialogue.prompt) > LONGEST or not SUMMARY.match(dialogue.prompt.lower()):
        return None
    phrases = phrases_for(dialogue.prompt)
    said = [" ".join(own_texts(message)) for message in dialogue.messages if is_persons(message)]
    return ModelReply(phrases.summary.format(count=len(said) - 1, last=last_of(said[:-1], phrases)))


def last_of(said: list[str], phrases: Phrases) -> str:
    """Quote what was said last, if anything was."""
    if not said:
        return ""
    words = " ".join(said[-1].split())
    return phrases.last.format(text=words if len(words) <= QUOTED else words[:QUOTED] + "…")
