"""What the demo model knows when it is to speak; its two tools tell of what they did alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from gateway.demo.dialogue import Dialogue
from gateway.demo.intents import (
    AddTasks,
    ReminderIntent,
    TaskIntent,
    read_reminder_intent,
    read_task_intent,
)
from gateway.demo.phrases import Phrases, phrases_for
from gateway.demo.times import CurrentTime, find_time

CLOCK = "clock"
SCHEDULE_TASK = "schedule_task"
T = TypeVar("T")


class ToolAction(msgspec.Struct, frozen=True):
    """What an earlier call asked a tool to do."""

    action: str = ""


ACTION = msgspec.json.Decoder(ToolAction)


@dataclass(frozen=True, slots=True)
class UnderstoodTurn:
    """A dialogue, understood: what the person wants of each tool, and what time it is for them."""

    dialogue: Dialogue
    phrases: Phrases
    now: CurrentTime | None
    reminders: ReminderIntent | None
    tasks: TaskIntent | None

    def find_actions(self, tool: str) -> frozenset[str]:
        """Return what a tool was already asked to do for this prompt."""
        calls = (call for call in self.dialogue.calls if call.name == tool)
        actions = (decode_json(ACTION, call.arguments) for call in calls)
        return frozenset(action.action if action else "" for action in actions)

    def find_results(self, tool: str, decoder: msgspec.json.Decoder[T]) -> list[T]:
        """Return what a tool has answered for this prompt, as far as it can be read."""
        texts = (result.text for result in self.dialogue.learned if result.tool == tool)
        return [result for text in texts if (result := decode_json(decoder, text))]

    def tell_list(self, kind: str, entries: Sequence[str]) -> str:
        """Tell what there is of a kind, `reminder` or `task`."""
        if not entries:
            return self.phrases.say(f"no_{kind}s")
        return self.phrases.say(f"{kind}s", items="; ".join(entries))

    def ask_which(self, kind: str, entries: Sequence[str], words: Iterable[str], fits: bool) -> str:
        """Say why nothing was removed: none of the entries fits the words, or several do."""
        listing, say = self.tell_list(kind, entries), self.phrases.say
        if not entries:
            return listing
        why = say("which") if fits else say(f"no_{kind}_fits", words=" ".join(words))
        return self.phrases.space.join((why, listing))


def understand(dialogue: Dialogue) -> UnderstoodTurn:
    """Read what the person wants.

    Without a tool for tasks, what sounds like ending or listing them means reminders. What is
    wanted again and again is no reminder, but the rest of the prompt may ask for one.
    """
    tasks = read_task_intent(dialogue.prompt)
    if SCHEDULE_TASK not in dialogue.tools and not isinstance(tasks, AddTasks):
        tasks = None
    rest = tasks.rest if isinstance(tasks, AddTasks) else "" if tasks else dialogue.prompt
    return UnderstoodTurn(
        dialogue,
        phrases=phrases_for(dialogue.prompt),
        now=find_time(dialogue.messages),
        reminders=read_reminder_intent(rest),
        tasks=tasks,
    )


def decode_json(decoder: msgspec.json.Decoder[T], text: str) -> T | None:
    """Read JSON of a known shape; anything else is nothing."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
