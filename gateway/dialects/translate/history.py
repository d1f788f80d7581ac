"""Putting a history in order, so that every dialect can tell it.

In order, no two turns of the model follow each other, every call has its result in the user's
message right after it, in the order of the calls and before anything else, and no result is without
a call. Messages of the user stay apart: upstreams that make one text of a message's parts put
nothing between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from hashlib import sha256
from itertools import groupby

from msgspec.structs import replace

from gateway.dialects.canonical import Call, Message, Part, Refusal, Result, Text
from gateway.errors import BadRequest

UNANSWERED = (Text("No result came back from this call."),)
System = tuple[str, ...]


class _UniqueCallIds:
    """Gives every call an id of its own, and its result the same.

    Some upstreams use one id for several calls, of a turn or of a conversation; others refuse that.
    """

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)

    def rename_calls(self, message: Message) -> Message:
        """Return a message whose calls are named by no call before them."""
        made: list[tuple[str, str]] = []
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, Call):
                made.append((part.id, self._new(part.id)))
                part = replace(part, id=made[-1][1])
            elif isinstance(part, Result) and self._waiting[part.call_id]:
                part = replace(part, call_id=self._waiting[part.call_id].pop())
            parts.append(part)
        # The last turn to use an id is answered first, and in it the first call.
        for told, own in reversed(made):
            self._waiting[told].append(own)
        return Message(message.role, tuple(parts))

    def _new(self, told: str) -> str:
        own, times = told, self._times.get(told, 0)
        while own in self._times:
            times += 1
            own = f"{told}_{times}"
        self._times[told] = times
        self._times.setdefault(own, 0)
        return own


class _CallTurn:
    """A message without the results in it, and the results of the calls it makes."""

    def __init__(self, message: Message) -> None:
        self.role = message.role
        self.parts = tuple(part for part in message.parts if not isinstance(part, Result))
        calls = (part.id for part in message.parts if isinstance(part, Call))
        self.results: dict[str, Result | None] = dict.fromkeys(calls)

    def to_messages(self) -> list[Message]:
        """Return the message, and what its calls came to."""
        results = (
            result or Result(call, UNANSWERED, is_error=True)
            for call, result in self.results.items()
        )
        return [Message(self.role, self.parts), Message("user", tuple(results))]


def order_history(messages: Iterable[Message], param: str) -> tuple[System, tuple[Message, ...]]:
    """Return the instructions a history begins with, and the rest of it put in order.

    A result without a call raises `BadRequest`; a call without a result gets one.
    """
    turns: list[_CallTurn] = []
    waiting: dict[str, _CallTurn] = {}
    for message in map(_UniqueCallIds().rename_calls, _join_turns(messages)):
        for part in message.parts:
            if isinstance(part, Result):
                _take_caller(part, waiting, param).results[part.call_id] = part
        turns.append(turn := _CallTurn(message))
        waiting |= dict.fromkeys(turn.results, turn)
    told = _join_turns(message for turn in turns for message in turn.to_messages())
    if told and told[0].role == "system":
        return texts(told[0].parts), told[1:]
    return (), told


def _take_caller(result: Result, waiting: dict[str, _CallTurn], param: str) -> _CallTurn:
    """Return the turn that waits for a result, and no longer does."""
    turn = waiting.pop(result.call_id, None)
    if turn is None:
        raise BadRequest(
            f"The tool result `{result.call_id}` answers no call that waits for one.", param=param
        )
    return turn


def _join_turns(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Make one turn of what the model says in a row, and of results and what the user says next."""
    told: list[tuple[str, list[Part]]] = []
    for message in messages:
        if told and message.parts and _goes_on(*told[-1], message):
            told[-1][1].extend(message.parts)
        elif message.parts:
            told.append((message.role, list(message.parts)))
    return tuple([Message(role, tuple(parts)) for role, parts in told])


def _goes_on(role: str, parts: list[Part], message: Message) -> bool:
    if message.role != role:
        return False
    return role != "user" or (isinstance(parts[0], Result) and isinstance(parts[-1], Result))


def separate_texts(messages: tuple[Message, ...], own: Collection[str]) -> tuple[Message, ...]:
    """Make messages of their own of these texts, which a dialect may have as parts of one."""
    told: list[Message] = []
    for message in messages:
        if message.role != "user" or not any(_is_one_of(part, own) for part in message.parts):
            told.append(message)
            continue
        for is_own, run in groupby(message.parts, key=lambda part: _is_one_of(part, own)):
            if is_own:
                told += [Message("user", (part,)) for part in run]
            else:
                told.append(Message("user", tuple(run)))
    return tuple(told)


def _is_one_of(part: Part, own: Collection[str]) -> bool:
    return isinstance(part, Text) and part.text in own


def merge_turns(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Make one turn of all that one side says in a row; what says nothing is left out."""
    spoken = (message for message in messages if message.parts)
    return tuple(
        Message(role, tuple(part for message in run for part in message.parts))
        for role, run in groupby(spoken, key=lambda message: message.role)
    )


def drop_empty(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return all but texts that are empty."""
    return tuple(part for part in parts if not isinstance(part, Text | Refusal) or part.text)


def texts(parts: Iterable[Part]) -> tuple[str, ...]:
    """Return what is said in so many words."""
    return tuple(part.text for part in parts if isinstance(part, Text))


def fit_id(name: str, longest: int, allowed: str = "") -> str:
    """Return an id as it is if it fits, else a shorter one that is always the same for it.

    `allowed` are the characters beside letters and digits; empty for any.
    """
    fits = not allowed or all((c.isascii() and c.isalnum()) or c in allowed for c in name)
    if fits and len(name) <= longest:
        return name
    return "id_" + sha256(name.encode()).hexdigest()[:32]
