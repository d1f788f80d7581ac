"""What one Chat Completions turn said, read from its frames or its body.

Tool calls are put together from fragments, and ours are kept from the client. Upstreams say in many
ways which call a fragment belongs to, and may cut even a tool's name in two. `Calls` reads them all
one way, for the tape and for the client alike; `Sifter` holds a fragment back until it is certain
that the call it belongs to is the client's.

Invariants: a call that was shown stays shown, with one id and one number; numbers have no gaps,
whatever was left out; a fragment is held only while its name may still grow into a server tool's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from gateway.dialects.events import (
    NO_ARGUMENTS,
    Json,
    NewId,
    as_text,
    check_call_count,
    number_in,
    objects_in,
    part_of,
    read_event,
    read_events,
    read_object,
    text_in,
)
from gateway.dialects.statuses import status_of
from gateway.errors import UpstreamAnswered, UpstreamBroke, UpstreamError
from gateway.exchange.model import Stop, ToolCall, Usage

STOPS = {
    "stop": Stop.STOP,
    "length": Stop.LENGTH,
    "tool_calls": Stop.TOOL_CALLS,
    "function_call": Stop.TOOL_CALLS,
    "content_filter": Stop.FILTER,
    # What GLM calls it.
    "sensitive": Stop.FILTER,
}

# Some upstreams have a word for it that nothing has ended yet.
UNFINISHED = (None, "", "null", "false")


def read_disguised_error(body: bytes) -> UpstreamError:
    """Read an error that came under a 2xx status, or say that the answer makes no sense."""
    answer = read_event(body)
    if answer is None or not is_error(answer):
        return UpstreamBroke("The upstream's answer is not what was asked for.")
    error = answer["error"]
    told = error if isinstance(error, dict) else {}
    return UpstreamAnswered(status_of(told.get("type"), told.get("code")), (), body)


def is_error(answer: Json) -> bool:
    """Whether this is an error and not an answer; some still put a choice beside it."""
    choice = first_choice(answer)
    return bool(answer.get("error")) and (not choice or choice.get("finish_reason") == "error")


def first_choice(answer: Json) -> Json:
    """Return the only choice that is looked at, or an empty one."""
    choices = answer.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    return {}


def speaks(delta: Json) -> bool:
    """Whether a delta says anything beside who speaks."""
    return any(value not in (None, "", [], {}) for name, value in delta.items() if name != "role")


def finish_of(choice: Json) -> str | None:
    """Return the word for why a choice ended, if it has."""
    reason = as_text(choice.get("finish_reason"))
    return None if reason in UNFINISHED else reason


def stop_of(reason: object) -> Stop:
    """Translate a finish reason."""
    return STOPS.get(reason, Stop.UNKNOWN) if isinstance(reason, str) else Stop.UNKNOWN


def usage_of(usage: Json | None) -> Usage | None:
    """Translate a usage object."""
    if not usage:
        return None
    details = part_of(usage, "prompt_tokens_details")
    # DeepSeek has a name of its own for it.
    cached = number_in(details, "cached_tokens") or number_in(usage, "prompt_cache_hit_tokens")
    return Usage(
        number_in(usage, "prompt_tokens"),
        number_in(usage, "completion_tokens"),
        cached,
        number_in(part_of(usage, "completion_tokens_details"), "reasoning_tokens"),
    )


def calls_of(part: Json) -> list[Json]:
    """Return the tool calls, or their fragments, of a delta or a message."""
    return objects_in(part.get("tool_calls"))


def function_of(call: Json) -> Json:
    """Return what a call calls: its name and arguments, both as text whatever they were."""
    function = call.get("function")
    if not isinstance(function, dict):
        return {}
    name, arguments = function.get("name"), function.get("arguments")
    # Some upstreams send arguments as an object; clients and tools take them as text.
    if isinstance(name, str | None) and isinstance(arguments, str | None):
        return function
    return {**function, "name": as_text(name), "arguments": as_text(arguments)}


def ident_of(call: Json) -> str:
    """Return a call's id as text, empty if it has none."""
    return as_text(call.get("id")) or ""


@dataclass(slots=True, eq=False)
class ChatCall:
    """One tool call, as far as its fragments are in."""

    id: str
    given: bool
    """Whether the id came with it."""
    name: str = ""
    server: bool | None = None
    """Whether it calls a server tool; None while its name may still become that of one."""
    argued: bool = False
    """Whether its arguments have begun."""
    named: bool = False
    """Whether they went on without a name, so that the name is whole."""
    whole: bool = False
    """Whether they came with the name, all at once."""
    shown_as: int | None = None
    held: list[Json] = field(default_factory=list)

    def add(self, name: str, arguments: str, tools: frozenset[str]) -> None:
        """Take what a fragment says, and judge whose call it is."""
        if name and not self.named:
            self._lengthen(name, tools)
        # Arguments come after the name, so a fragment without a name means that it is whole.
        if arguments and self.name:
            self.whole = (
                bool(name) and not self.argued and read_object(arguments.encode()) is not None
            )
            self.named = self.named or not name
        self.argued = self.argued or bool(arguments)
        if self.server is None:
            # No server tool begins so: it can be shown, however the name goes on.
            if not _begins_one(self.name, tools):
                self.server = False
            elif self.named:
                self.settle(tools)

    def settle(self, tools: frozenset[str]) -> None:
        """Judge by the name as it is: it does not go on."""
        if self.server is None:
            self.server = self.name in tools

    def _lengthen(self, piece: str, tools: frozenset[str]) -> None:
        # Some upstreams repeat the whole name with every fragment.
        if piece != self.name or _begins_one(self.name + piece, tools):
            self.name += piece


def _begins_one(name: str, tools: frozenset[str]) -> bool:
    return any(tool.startswith(name) for tool in tools)


@dataclass(slots=True, eq=False)
class Calls:
    """The calls of one turn, in the order they began."""

    tools: frozenset[str]
    _new_id: NewId
    made: list[ChatCall] = field(default_factory=list)
    _at: dict[int, ChatCall] = field(default_factory=dict)
    _by_id: dict[str, ChatCall] = field(default_factory=dict)

    def take(self, fragment: Json) -> ChatCall:
        """Find the call that a fragment belongs to, or begin it, and add the fragment."""
        function = function_of(fragment)
        name, arguments = function.get("name") or "", function.get("arguments") or ""
        index, ident = fragment.get("index"), ident_of(fragment)
        call = self._find(index, ident)
        if call is None or (name and call.name and self._is_another(call, ident, name, arguments)):
            call = self._begin(index, ident)
        call.add(name, arguments, self.tools)
        return call

    def _find(self, index: object, ident: str) -> ChatCall | None:
        # The index is the protocol's own way; the rest is for upstreams that leave it out.
        if isinstance(index, int):
            return self._at.get(index)
        last = self.made[-1] if self.made else None
        return self._by_id.get(ident, last)

    def _begin(self, index: object, ident: str) -> ChatCall:
        call = ChatCall(ident or self._new_id(len(self.made)), given=bool(ident))
        self.made.append(call)
        self._by_id[call.id] = call
        if isinstance(index, int):
            self._at[index] = call
        return call

    def _is_another(self, call: ChatCall, ident: str, name: str, arguments: str) -> bool:
        """Whether a name begins a call beside the one that it seems to belong to.

        Some upstreams give all calls of a turn the same index, some give them none, or no ids.
        """
        # Two ids that both came from the upstream decide; a made-up one says nothing.
        if ident and call.given:
            return ident != call.id
        if _begins_one(call.name + name, self.tools):
            return False
        return (call.named or call.whole) and (name != call.name or bool(arguments))


class Sifter:
    """Keeps calls to server tools from the client, and numbers the others without gaps."""

    __slots__ = ("_calls", "_first", "_held", "_limit", "_next")

    def __init__(self, calls: Calls, first: int, limit: int) -> None:
        self._calls = calls
        self._first = self._next = first
        self._limit = limit
        self._held = 0

    @property
    def shown(self) -> int:
        """How many calls the client sees."""
        return self._next - self._first

    @property
    def hides_all(self) -> bool:
        """Whether tools were called, and the client sees none of it."""
        return bool(self._calls.made) and not self.shown

    def sift(self, delta: Json, size: int) -> tuple[list[Json], bool]:
        """Leave in a delta what the client may see now.

        Returns the fragments that may be seen before it, as they had to wait, and whether the delta
        was changed. `size` is what the delta took on the wire.
        """
        before: list[Json] = []
        kept: list[Json] = []
        changed = False
        for fragment in calls_of(delta):
            call = self._take(fragment, size)
            if call.server is False:
                before += self._let_go(call)
                changed = self._number(call, fragment) or changed
                kept.append(fragment)
            else:
                changed = True
        # Without a fragment left the member goes too, as if nothing had been called.
        if kept:
            delta["tool_calls"] = kept
        elif changed:
            del delta["tool_calls"]
        return before, changed

    def settle(self) -> list[Json]:
        """Return what was held of the client's calls: no name goes on any more."""
        for call in self._calls.made:
            call.settle(self._calls.tools)
        return [fragment for call in self._calls.made for fragment in self._let_go(call)]

    def _take(self, fragment: Json, size: int) -> ChatCall:
        """Add a fragment to its call, and hold it while nobody can tell whose call it is."""
        call = self._calls.take(fragment)
        check_call_count(len(self._calls.made))
        if call.server is None:
            call.held.append(fragment)
            self._held += size
        if self._held > self._limit:
            raise UpstreamBroke("The upstream began a tool call and did not name its tool.")
        return call

    def _let_go(self, call: ChatCall) -> list[Json]:
        held, call.held = call.held, []
        if call.server:
            return []
        for fragment in held:
            self._number(call, fragment)
        return held

    def _number(self, call: ChatCall, fragment: Json) -> bool:
        """Write a fragment as the client sees it; tell whether that changes it."""
        first = call.shown_as is None
        if first:
            call.shown_as = self._next
            self._next += 1
        changed = fragment.get("index") != call.shown_as
        fragment["index"] = call.shown_as
        if call.given or not (first or fragment.get("id")):
            return changed
        # A call has one id: the one that it was shown with.
        if first:
            fragment["id"] = call.id
        else:
            del fragment["id"]
        return True


@dataclass(slots=True)
class RecordedChatTurn:
    """A turn's text and calls, put together from its parts; every call has its id."""

    text: str = ""
    refusal: str = ""
    calls: list[Json] = field(default_factory=list)
    legacy: bool = False
    """Whether it called a function in the old form, which only clients answer."""

    def message(self) -> Json:
        """Build the assistant's message."""
        message: Json = {"role": "assistant", "content": self.text or None}
        if self.refusal:
            message["refusal"] = self.refusal
        if self.calls:
            message["tool_calls"] = self.calls
        elif not self.text:
            message["content"] = ""
        return message

    def server_calls(self, tools: frozenset[str]) -> tuple[ToolCall, ...]:
        """Return the calls to our own tools."""
        return tuple(
            ToolCall(ident_of(call), function["name"], function.get("arguments") or NO_ARGUMENTS)
            for call in self.calls
            if (function := function_of(call)).get("name") in tools
        )

    def client_calls(self, tools: frozenset[str]) -> list[Json]:
        """Return the calls that the client sees."""
        return [call for call in self.calls if function_of(call).get("name") not in tools]

    def client_call_ids(self, tools: frozenset[str]) -> tuple[str, ...]:
        """Return the ids of those, by which the client's results will name them."""
        return tuple(ident for call in self.client_calls(tools) if (ident := ident_of(call)))


def record_deltas(deltas: Iterable[Json], calls: Calls) -> RecordedChatTurn:
    """Put a turn together from its streamed deltas."""
    texts: list[str] = []
    refusals: list[str] = []
    fragments: dict[ChatCall, list[Json]] = {}
    legacy = False
    for delta in deltas:
        texts.append(text_in(delta.get("content")))
        refusals.append(text_in(delta.get("refusal")))
        for fragment in calls_of(delta):
            fragments.setdefault(calls.take(fragment), []).append(fragment)
        legacy = legacy or bool(delta.get("function_call"))
    whole = [_join_fragments(call, pieces) for call, pieces in fragments.items()]
    return RecordedChatTurn("".join(texts), "".join(refusals), whole, legacy)


def _join_fragments(call: ChatCall, fragments: list[Json]) -> Json:
    """Put a call together; what upstreams add to it, such as signatures, they want back."""
    more = {name: value for fragment in fragments for name, value in fragment.items()}
    more.pop("index", None)
    arguments = "".join(function_of(f).get("arguments") or "" for f in fragments)
    function = {"name": call.name, "arguments": arguments or NO_ARGUMENTS}
    return {**more, "id": call.id, "type": "function", "function": function}


def record_message(message: Json, new_id: NewId) -> RecordedChatTurn:
    """Read a turn from its whole message."""
    text, refusal = text_in(message.get("content")), text_in(message.get("refusal"))
    calls = [_ensure_id(call, new_id, at) for at, call in enumerate(calls_of(message))]
    return RecordedChatTurn(text, refusal, calls, bool(message.get("function_call")))


def _ensure_id(call: Json, new_id: NewId, ordinal: int) -> Json:
    """Give a call its id as text; what names no function is no call that could be answered."""
    ident = ident_of(call)
    if not ident and function_of(call).get("name"):
        ident = new_id(ordinal)
    return {**call, "id": ident} if ident else call


def shows_content(frames: bytes) -> bool:
    """Tell whether any chunk says something, thinks, refuses or calls."""
    choices = (objects_in(chunk.get("choices")) for chunk in read_events(frames))
    return any(map(_says, chain.from_iterable(choices)))


def _says(choice: Json) -> bool:
    return speaks(part_of(choice, "delta")) or speaks(part_of(choice, "message"))
