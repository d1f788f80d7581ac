"""Conversations of agents: what frames say, what an exchange adds, and how it is stored.

Nothing is lost or incomplete: of a turn that was cut short, the part that was shown is kept, and
every tool call has a result, if only one that says that there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec

from gateway.dialects.events import Json, part_of, read_object
from gateway.dialects.openai_chat.turn import calls_of, first_choice, function_of, is_error
from gateway.dialects.raw_json import append_items
from gateway.errors import HoldgateError, UpstreamAnswered
from gateway.exchange.additions import Addition, AnsweredTurn, ToolResult, UserText
from gateway.exchange.model import Stop, ToolCall, TurnEnd
from gateway.jobs.model import Run
from gateway.offload import Offload
from gateway.stores.conversation_rows import (
    LONGEST,
    AgentConversation,
    ConversationRows,
    TalkAddition,
    TalkRows,
)
from gateway.stores.documents import Conflict, StoreUnavailable
from gateway.wire.sse import data_of, split

Message = dict[str, Any]

CUT = msgspec.json.encode(
    {"ok": False, "error": "The call was cut short; whether it had an effect is not known."}
).decode()
THOUGHTS = ("reasoning_content", "reasoning")
UPSTREAM_ERROR = "upstream_error"
WORDS = ("content", "refusal")
ATTEMPTS = 32
NOTHING = b"[]"


@dataclass(frozen=True, slots=True)
class ReasoningShown:
    """The model sent this reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class TextShown:
    """The model sent this text."""

    text: str


@dataclass(frozen=True, slots=True)
class ForeignCallShown:
    """The model called a tool that is not a tool of the gateway."""

    name: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an answer failed."""

    message: str
    code: str


Shown = ReasoningShown | TextShown | ForeignCallShown


def read_frames(frames: bytes) -> Iterator[Shown]:
    """Yield the contents of whole frames, in order."""
    for frame in split(frames):
        if (data := data_of(frame)) is not None and (chunk := read_object(data)) is not None:
            yield from _read(chunk)


def _read(chunk: Json) -> Iterator[Shown]:
    if is_error(chunk):
        # The observer gets the failure of an exchange.
        return
    delta = part_of(first_choice(chunk), "delta")
    # Some upstreams send the same reasoning under both names.
    if thought := next((text for name in THOUGHTS if (text := _text(delta, name))), ""):
        yield ReasoningShown(thought)
    if text := "".join(_text(delta, name) for name in WORDS):
        yield TextShown(text)
    for call in calls_of(delta):
        if name := function_of(call).get("name"):
            yield ForeignCallShown(name)


def read_failure(error: HoldgateError) -> Failure:
    """Return the failure: with the upstream's own message, if it has one."""
    answer = read_object(error.body) if isinstance(error, UpstreamAnswered) else None
    if answer is None or not is_error(answer):
        return Failure(error.message, error.code)
    error_body = answer["error"]
    if not isinstance(error_body, dict):
        return Failure(f"The model failed: {error_body}", UPSTREAM_ERROR)
    code = error_body.get("code") or error_body.get("type")
    message = _text(error_body, "message") or "The model failed and did not say why."
    return Failure(message, str(code) if isinstance(code, str | int) else UPSTREAM_ERROR)


def _text(value: Json, name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


class Transcript:
    """Collects the messages that an exchange adds to its conversation."""

    def __init__(self, message: str) -> None:
        self._messages: list[Message] = [_user(message)]
        self._results: dict[str, str] = {}
        self._untold: tuple[str, tuple[ToolCall, ...]] | None = None
        self._partial: list[str] = []
        self.turns = 0
        self.stop = Stop.UNKNOWN
        self.calls_strangers = False
        """Whether the last turn called tools that are not the gateway's."""
        self.unanswered = False
        """Whether the last turn called tools whose results no later turn got."""

    def set_message(self, text: str) -> None:
        """Set the user's message as the model reads it, without directives."""
        self._messages[0] = _user(text)

    def extend(self, additions: tuple[Addition, ...]) -> None:
        """Add what was added to the request: an answered turn, a text, a tool result."""
        for addition in additions:
            match addition:
                case AnsweredTurn():
                    self._tell(addition)
                case UserText() if not addition.fleeting:
                    self._messages.append(_user(addition.text))
                case ToolResult():
                    self._messages.append(_result(addition.call_id, addition.text))
                    self.unanswered = False

    def end_turn(self, text: str, end: TurnEnd) -> None:
        """Add the text of a turn, and how it ended."""
        self._untold = (text, end.server_calls)
        self._partial.clear()
        self.turns += 1
        self.stop = end.stop
        self.calls_strangers = end.client_calls
        self.unanswered = bool(end.server_calls)

    def add_text(self, text: str) -> None:
        """Add shown text of a turn that has not ended yet."""
        self._partial.append(text)

    def add_result(self, call: ToolCall, text: str) -> None:
        """Add the result of a tool, even if the model never gets it."""
        self._results[call.id] = text

    def messages(self) -> list[Message]:
        """Return the messages to store; none if the message got no answer."""
        messages = self._messages + self._cut_short()
        if not any(message["role"] == "assistant" for message in messages):
            return []
        while messages[-1]["role"] == "user":
            # No turn answered it, so the model does not know it, and it comes again.
            messages.pop()
        return repair_calls(messages, self._results)

    def _tell(self, turn: AnsweredTurn) -> None:
        # Add a turn once: if a follow-up to it fails, the same turn is passed again.
        untold, self._untold = self._untold, None
        message = turn.message
        assert isinstance(message, dict)
        if untold is not None and _says_something(message):
            self._messages.append(message)

    def _cut_short(self) -> list[Message]:
        """Return the last turn, if no later request contained it."""
        if self._untold is not None:
            text, calls = self._untold
            message: Message = {"role": "assistant", "content": text or None}
            if calls:
                message["tool_calls"] = [_call(call) for call in calls]
            return [message] if _says_something(message) else []
        text = "".join(self._partial).strip()
        return [{"role": "assistant", "content": text}] if text else []


def repair_calls(messages: Iterable[Message], results: Mapping[str, str]) -> list[Message]:
    """Add missing results of tool calls, after the results that the turn has."""
    whole: list[Message] = []
    missing: dict[str, None] = {}
    for message in messages:
        if message["role"] == "tool":
            missing.pop(message["tool_call_id"], None)
        else:
            whole += _make_results(missing, results)
            missing = {call["id"]: None for call in message.get("tool_calls", ())}
        whole.append(message)
    return whole + _make_results(missing, results)


def _make_results(missing: Iterable[str], results: Mapping[str, str]) -> list[Message]:
    return [_result(call_id, results.get(call_id, CUT)) for call_id in missing]


def extend_history(history: bytes, gained: Iterable[Message], longest: int = LONGEST) -> bytes:
    """Append messages to a conversation; if it is too long, drop its oldest exchanges."""
    added = [msgspec.json.encode(message) for message in gained]
    whole = append_items(history, added)
    return whole if len(whole) <= longest else _shorten(whole, len(added), longest)


class _Role(msgspec.Struct):
    role: str = ""


_items: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_role = msgspec.json.Decoder(_Role)


def _shorten(history: bytes, new: int, longest: int) -> bytes:
    """Drop the beginning up to a user message; new messages are never dropped."""
    items = _items.decode(history)
    size = len(history)
    for at, item in enumerate(items):
        is_new = at >= len(items) - new
        if is_new or (size <= longest and _role.decode(item).role == "user"):
            return append_items(b"[]", [bytes(item) for item in items[at:]])
        size -= len(bytes(item)) + 1
    return b"[]"


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _result(call_id: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _call(call: ToolCall) -> Message:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _says_something(message: Message) -> bool:
    return any(message.get(name) for name in ("content", "tool_calls", "refusal"))


class Bookmark(NamedTuple):
    """A position in a conversation: after the last stored message."""

    version: int = 0
    at_ms: int = 0
    """When that message was stored."""
    is_unlocked: bool = False
    """Whether the lock of the exchange was released with it."""


class Conversations:
    """The stored conversations, each of one owner, agent and session.

    Where instances share the store, `talks` appends to them.
    """

    def __init__(
        self,
        rows: ConversationRows,
        now_ms: Callable[[], int],
        offload: Offload | None = None,
        talks: TalkRows | None = None,
    ) -> None:
        self.rows = rows
        self.now_ms = now_ms
        self.offload = offload or Offload()
        self.talks = talks

    async def open(
        self, owner: str, agent: str, session: str, told: Run | None = None
    ) -> ConversationRecord | TalkRecord:
        """Open a conversation for one exchange; raise if the store is down.

        `told` is the run whose owed result the exchange tells the session.
        """
        found = await self.read(owner, agent, session)
        if self.talks is None:
            return ConversationRecord(self, found)
        return TalkRecord(self.talks, found, self.now_ms, told)

    async def read(self, owner: str, agent: str, session: str) -> AgentConversation:
        """Return a conversation, an empty one if there is none; raise if the store is down."""
        found = await self.rows.get(owner, agent, session)
        return found or AgentConversation(owner, agent, session)


class ConversationRecord:
    """A conversation as one exchange found it; the exchange appends to it at its end."""

    def __init__(self, conversations: Conversations, found: AgentConversation) -> None:
        self._all = conversations
        self._key = (found.owner, found.agent, found.session)
        self._found: AgentConversation | None = found

    @property
    def messages(self) -> bytes:
        """The earlier messages, as a JSON array."""
        return NOTHING if self._found is None else self._found.messages

    def let_go(self) -> None:
        """Release the messages: an exchange may be held for long, and a conversation be large."""
        self._found = None

    async def add(self, gained: list[Message], token: str = "") -> Bookmark:
        """Append messages to the conversation, durably; return its new end.

        If the conversation was changed meanwhile, they are appended to the changed one.
        """
        for _ in range(ATTEMPTS):
            found = self._found or await self._all.read(*self._key)
            if not gained:
                return Bookmark(found.version, found.updated_ms)
            work = partial(extend_history, found.messages, gained)
            size = len(found.messages) + sum(len(m.get("content") or "") for m in gained)
            messages = await self._all.offload.run(found.owner, size, work)
            now_ms = self._all.now_ms()
            changed = msgspec.structs.replace(found, messages=messages, updated_ms=now_ms)
            with suppress(Conflict):
                return Bookmark(await self._all.rows.put(changed), now_ms)
            self.let_go()
        raise StoreUnavailable("Too many requests change this conversation at once; try again.")


class TalkRecord:
    """A conversation as one exchange found it, in a store that instances share.

    The exchange is appended in the statement that releases its lock, so that nobody who lost the
    lock appends anything.
    """

    def __init__(
        self,
        talks: TalkRows,
        found: AgentConversation,
        now_ms: Callable[[], int],
        told: Run | None = None,
    ) -> None:
        self._talks = talks
        self._now_ms = now_ms
        self._told = told
        self._found = found

    @property
    def messages(self) -> bytes:
        """The earlier messages, as a JSON array."""
        return self._found.messages

    def let_go(self) -> None:
        """Release the messages: an exchange may be held for long, and a conversation be large."""
        self._found = msgspec.structs.replace(self._found, messages=NOTHING)

    async def add(self, gained: list[Message], token: str = "") -> Bookmark:
        """Append messages to the conversation, and release the lock of this token."""
        found = self._found
        if not gained:
            return Bookmark(found.version, found.updated_ms)
        messages = msgspec.json.encode(gained)
        key = (found.owner, found.agent, found.session)
        addition = TalkAddition(*key, messages, token, found.first, self._told)
        version = await self._talks.append(addition)
        return Bookmark(version, self._now_ms(), is_unlocked=bool(token))


class UnkeptConversation:
    """A conversation of one exchange only, which is not stored."""

    messages = NOTHING

    def let_go(self) -> None:
        """Do nothing: there are no messages."""

    async def add(self, gained: list[Message], token: str = "") -> Bookmark:
        """Store nothing."""
        return Bookmark()


Record = ConversationRecord | TalkRecord | UnkeptConversation
