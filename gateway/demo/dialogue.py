"""A request as the demo model sees it, whichever dialect it came in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

TIME_TAG = "[Time/Date]:"
REMINDER = "[Clock Reminder]"
OUTCOME = '[Scheduled task "'
ADDITIONS = (TIME_TAG, REMINDER, OUTCOME)
ORDER = "demo:"
# What coding agents put into a user's message, or send as one, that the user did not write.
AGENT_BLOCKS = (
    "system-reminder",
    "environment_context",
    "user_instructions",
    "INSTRUCTIONS",
    "local-command-stdout",
    "command-name",
    "command-message",
)
AGENT_HEADING = "# AGENTS.md instructions"

RESULT = re.compile(r'^\[Scheduled task "([^"\n]*)" result\]:\n', re.MULTILINE)
TASK = re.compile(r'^\[scheduled task:("(?:[^"\\\n]++|\\.)*+")', re.MULTILINE)
JOINED = re.compile(rf"\n\n(?={'|'.join(map(re.escape, ADDITIONS))})")
JSON_TEXT = msgspec.json.Decoder(str)


@dataclass(frozen=True, slots=True)
class DialogueCall:
    """A tool call the model made earlier."""

    id: str
    name: str
    arguments: str


NO_CALL = DialogueCall("", "tool", "")


@dataclass(frozen=True, slots=True)
class DialogueMessage:
    """One message: its texts, the calls it makes, or the call it answers."""

    role: str
    texts: tuple[str, ...] = ()
    calls: tuple[DialogueCall, ...] = ()
    answers: str | None = None


@dataclass(frozen=True, slots=True)
class DialogueResult:
    """What a tool answered, with the name it was called by and what it was told."""

    tool: str
    text: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """All messages, the tools offered, and the longest answer wanted."""

    messages: tuple[DialogueMessage, ...]
    tools: frozenset[str] = frozenset()
    limit: int | None = None

    @property
    def prompt(self) -> str:
        """What the person said last; additions of the gateway are not theirs."""
        at = self._newest(is_persons)
        return "" if at < 0 else "\n".join(own_texts(self.messages[at]))

    @property
    def turn(self) -> int:
        """How many turns have answered the prompt already."""
        return sum(map(is_turn, self._since_prompt()))

    @property
    def asked(self) -> bool:
        """Whether a person or a tool has said something since the last turn."""
        return any(m.answers is not None or is_persons(m) for m in self._waiting())

    @property
    def due(self) -> tuple[str, ...]:
        """The tasks of the reminders that came since the last turn."""
        return tuple(task for text in self._additions(REMINDER) for task in tasks_in(text))

    @property
    def outcomes(self) -> tuple[tuple[str, str], ...]:
        """The names of the tasks whose results came since the last turn, and the results."""
        return tuple(pair for text in self._additions(OUTCOME) for pair in outcomes_in(text))

    @property
    def answers(self) -> int:
        """How many answers the model has given in all."""
        return sum(is_turn(message) and not message.calls for message in self.messages)

    @property
    def calls(self) -> tuple[DialogueCall, ...]:
        """The calls made since the prompt."""
        return tuple(call for message in self._since_prompt() for call in message.calls)

    @property
    def results(self) -> tuple[DialogueResult, ...]:
        """The tool results that wait for an answer."""
        return self._results(self._waiting())

    @property
    def learned(self) -> tuple[DialogueResult, ...]:
        """All tool results since the prompt."""
        return self._results(self._since_prompt())

    def _results(self, messages: Sequence[DialogueMessage]) -> tuple[DialogueResult, ...]:
        calls = {call.id: call for call in self.calls}
        answered = [(calls.get(m.answers, NO_CALL), m) for m in messages if m.answers is not None]
        return tuple(DialogueResult(c.name, "\n".join(m.texts), c.arguments) for c, m in answered)

    def _additions(self, kind: str) -> Iterator[str]:
        """Yield what the gateway has added since the last turn, of one kind."""
        users = (message for message in self._waiting() if message.role == "user")
        return (text for m in users for text in split_texts(m) if text.startswith(kind))

    def _since_prompt(self) -> tuple[DialogueMessage, ...]:
        return self.messages[self._newest(is_persons) + 1 :]

    def _waiting(self) -> tuple[DialogueMessage, ...]:
        return self.messages[self._newest(is_turn) + 1 :]

    def _newest(self, wanted: Callable[[DialogueMessage], bool]) -> int:
        backwards = range(len(self.messages) - 1, -1, -1)
        return next((at for at in backwards if wanted(self.messages[at])), -1)


def outcomes_in(text: str) -> tuple[tuple[str, str], ...]:
    """Return the names of tasks and the results that a text brings."""
    _, *found = RESULT.split(text)
    return tuple(zip(found[::2], (result.strip() for result in found[1::2]), strict=True))


def tasks_in(reminder: str) -> tuple[str, ...]:
    """Return the tasks that a reminder brings; of one in another form, all it says."""
    return tuple(map(decode_quoted, TASK.findall(reminder))) or (reminder,)


def decode_quoted(text: str) -> str:
    """Read a JSON string, or take it as it stands."""
    try:
        return JSON_TEXT.decode(text)
    except msgspec.DecodeError:
        return text[1:-1]


def is_turn(message: DialogueMessage) -> bool:
    """Whether the model said this."""
    return message.role == "assistant"


def is_persons(message: DialogueMessage) -> bool:
    """Whether a person said this."""
    return message.role == "user" and bool(own_texts(message))


def own_texts(message: DialogueMessage) -> tuple[str, ...]:
    """The texts of a message that its author wrote, not the gateway or a coding agent."""
    texts = [text for text in split_texts(message) if not text.startswith(ADDITIONS)]
    return tuple([own for text in texts if (own := strip_agent_blocks(text)) is not None])


def split_texts(message: DialogueMessage) -> tuple[str, ...]:
    """The texts of a message; additions that were joined to another text are apart again."""
    if not any("\n\n[" in text for text in message.texts):
        return message.texts
    return tuple(part for text in message.texts for part in JOINED.split(text))


def strip_agent_blocks(text: str) -> str | None:
    """Return a text without what a coding agent wrote into it; None if nothing is left."""
    if "</" not in text:
        return text
    own = text
    for tag in AGENT_BLOCKS:
        own = _without_blocks(own, f"<{tag}>", f"</{tag}>")
    if own == text:
        return text
    if own.startswith(AGENT_HEADING):
        own = own.partition("\n")[2]
    return own.strip() or None


def _without_blocks(text: str, opening: str, closing: str) -> str:
    # Not a pattern: one that is opened a million times and never closed would take for ever.
    kept, at = [], 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(closing)
    return "".join([*kept, text[at:]])


def order_lines(text: str) -> tuple[str, ...]:
    """What stands after `demo:` on each line that starts with it."""
    if ORDER not in text:
        return ()
    lines = (line.strip() for line in text.split("\n"))
    return tuple(line[len(ORDER) :].strip() for line in lines if line.startswith(ORDER))
