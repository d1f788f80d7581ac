"""A request as the demo model sees it, whichever dialect it came in."""

from __future__ import annotations

import re
from dataclasses import dataclass

TIME_TAG = "[Time/Date]:"
REMINDER = "[Clock Reminder]"
ORDER = "demo:"

TASK = re.compile(r'\[scheduled task:"((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(r'\\(["\\\]])')


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call the model made earlier."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its texts, the calls it makes, or the call it answers."""

    role: str
    texts: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    answers: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool answered, with the name it was called by."""

    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """All messages, the tools offered, and the longest answer wanted."""

    messages: tuple[Message, ...]
    tools: frozenset[str] = frozenset()
    limit: int | None = None

    @property
    def prompt(self) -> str:
        """What the person said last; additions of the gateway are not theirs."""
        at = self._newest(reminders=False)
        return "" if at is None else "\n".join(own_texts(self.messages[at]))

    @property
    def turn(self) -> int:
        """How many turns have answered the prompt already."""
        at = self._newest(reminders=False)
        later = self.messages if at is None else self.messages[at + 1 :]
        return sum(message.role == "assistant" for message in later)

    @property
    def due(self) -> tuple[str, ...]:
        """The tasks of the newest user text, if that is a reminder."""
        at = self._newest(reminders=True)
        if at is None:
            return ()
        text = next(t for t in reversed(self.messages[at].texts) if not is_time_tag(t))
        if not is_reminder(text):
            return ()
        return tuple(ESCAPE.sub(r"\1", task) for task in TASK.findall(text)) or (text,)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls made since the newest user text."""
        return tuple(call for message in self._since() for call in message.calls)

    @property
    def results(self) -> tuple[Result, ...]:
        """The tool results that wait for an answer."""
        names = {call.id: call.name for call in self.calls}
        return tuple(
            Result(names.get(message.answers, "tool"), "\n".join(message.texts))
            for message in self._since()
            if message.answers is not None
        )

    def _since(self) -> tuple[Message, ...]:
        at = self._newest(reminders=True)
        return self.messages if at is None else self.messages[at + 1 :]

    def _newest(self, *, reminders: bool) -> int | None:
        for at in range(len(self.messages) - 1, -1, -1):
            message = self.messages[at]
            if message.role == "user" and (own_texts(message) or (reminders and reminds(message))):
                return at
        return None


def is_time_tag(text: str) -> bool:
    """Whether a text only tells the time."""
    return text.startswith(TIME_TAG)


def is_reminder(text: str) -> bool:
    """Whether a text says that reminders are due."""
    return text.startswith(REMINDER)


def reminds(message: Message) -> bool:
    """Whether a message says that reminders are due."""
    return any(is_reminder(text) for text in message.texts)


def own_texts(message: Message) -> tuple[str, ...]:
    """The texts of a message that its author wrote."""
    return tuple([t for t in message.texts if not is_time_tag(t) and not is_reminder(t)])


def order_lines(text: str) -> tuple[str, ...]:
    """What stands after `demo:` on each line that starts with it."""
    if ORDER not in text:
        return ()
    lines = (line.strip() for line in text.split("\n"))
    return tuple(line[len(ORDER) :].strip() for line in lines if line.startswith(ORDER))
