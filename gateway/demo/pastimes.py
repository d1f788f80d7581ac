"""What the demo model can do all day: jokes, words, summaries, and reminding of one thing.

What it says next depends only on what time it is told, or how much it has said: equal requests get
equal answers.
"""

from __future__ import annotations

import re

from gateway.demo.conversation import Conversation, Reply, is_persons, own_texts
from gateway.demo.moments import told_time
from gateway.demo.phrases import Tongue, tongue_for
from gateway.demo.timekeeping import announcement

QUOTED = 60
# A wish for one of these is short; whoever writes more wants something else.
LONGEST = 200
JOKE = re.compile(r"\bjokes?\b|笑话", re.IGNORECASE)
WORD = re.compile(
    r"\b(?:tell|say|give|teach|send)\b.*\bwords?\b|(?:说|教|给|来).*(?:词|单词)", re.IGNORECASE
)
SUMMARY = re.compile(r"\A(?:please )?(?:give me a summary|sum(?:mari[sz]e| up))\b|\A.{0,4}总结")
REMIND = re.compile(r"\A(?:Remind the user|提醒用户)[:：]\s*(?P<task>.+)\Z", re.DOTALL)


def keep_reminding(talk: Conversation) -> Reply | None:
    """Say that it is time for what a task of reminding is about."""
    found = REMIND.match(talk.prompt)
    return Reply(announcement(tongue_for(talk.prompt), found["task"].strip())) if found else None


def entertain(talk: Conversation) -> Reply | None:
    """Tell a joke or a word, each time the next one."""
    if len(talk.prompt) > LONGEST:
        return None
    tongue = tongue_for(talk.prompt)
    for wanted, stock in ((JOKE, tongue.some_jokes), (WORD, tongue.some_words)):
        if wanted.search(talk.prompt):
            return Reply(stock[turn_of(talk) % len(stock)])
    return None


def turn_of(talk: Conversation) -> int:
    """Return a number that differs from one time to the next; in a run nothing else may."""
    now = told_time(talk.messages)
    return now.ms // 1000 if now else talk.answers


def summarise(talk: Conversation) -> Reply | None:
    """Say how much was said, and what last."""
    if len(talk.prompt) > LONGEST or not SUMMARY.match(talk.prompt.lower()):
        return None
    tongue = tongue_for(talk.prompt)
    said = [" ".join(own_texts(message)) for message in talk.messages if is_persons(message)]
    return Reply(tongue.summary.format(count=len(said) - 1, last=last_of(said[:-1], tongue)))


def last_of(said: list[str], tongue: Tongue) -> str:
    """Quote what was said last, if anything was."""
    if not said:
        return ""
    words = " ".join(said[-1].split())
    return tongue.last.format(text=words if len(words) <= QUOTED else words[:QUOTED] + "…")
