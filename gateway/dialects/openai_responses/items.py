"""The output items of a Responses answer: what they are, say, and whose; what goes back of them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import msgspec

from gateway.dialects.events import (
    NO_ARGUMENTS,
    Json,
    NewId,
    as_text,
    number_in,
    objects_in,
    part_of,
    read_events,
    sum_usage,
)
from gateway.dialects.raw_json import NULL, Fields, members_of, raw, readable
from gateway.exchange.model import Stop, ToolCall, Usage

FUNCTION_CALL = "function_call"
CALLS = (FUNCTION_CALL, "custom_tool_call")
REASONS = {"max_output_tokens": Stop.LENGTH, "content_filter": Stop.FILTER}
# What a stateless upstream cannot look up by its id, and takes without one.
NEEDS_NO_ID = ("message", "reasoning", *CALLS)
OUTPUT_COUNTS = ("output_tokens", "output_tokens_details")

_objects = msgspec.json.Decoder(list[Json])
_object = msgspec.json.Decoder(Json)
_string = msgspec.json.Decoder(str)


class AnsweredItems(msgspec.Struct, frozen=True):
    """A turn as it was answered: its items, and whether the upstream remembers it by itself."""

    items: list[Json]
    remembered: bool = False

    @property
    def text(self) -> str:
        """All the text it said."""
        return text_of(self.items)

    def message(self) -> AnsweredItems:
        """Return what is told of the turn in a follow-up: all of it."""
        return self

    def server_calls(self, tools: frozenset[str]) -> tuple[ToolCall, ...]:
        """Return the calls to our own tools."""
        return tuple(
            ToolCall(item["call_id"], item["name"], as_text(item.get("arguments")) or NO_ARGUMENTS)
            for item in self.items
            if is_ours(item, tools)
        )

    def client_calls(self, tools: frozenset[str]) -> list[Json]:
        """Return what the client has to answer: calls of its tools, and what it is to approve.

        A hosted tool's call has no `call_id`, or the upstream has answered it in the same turn.
        """
        visible = client_items(self.items, tools)
        kinds = [(as_text(item.get("type")) or "", item) for item in visible]
        told = {as_text(item.get("call_id")) for kind, item in kinds if kind.endswith("_output")}
        return [
            item
            for kind, item in kinds
            if kind in (*CALLS, "mcp_approval_request")
            or (item.get("call_id") and as_text(item["call_id"]) not in told)
        ]

    def client_call_ids(self, tools: frozenset[str]) -> tuple[str, ...]:
        """Return the ids by which the client's results will name its calls."""
        ids = (as_text(item.get("call_id")) for item in self.client_calls(tools))
        return tuple(ident for ident in ids if ident)


def text_in(fields: Fields, name: str) -> str:
    """Return a text member, empty if it is none."""
    return readable(_string, fields.get(name, NULL)) or ""


def fields_in(fields: Fields, name: str) -> Fields:
    """Return an object member, empty if it is none."""
    return members_of(fields.get(name, NULL))


def output_in(response: Fields) -> list[Json]:
    """Return a response's items; none if they cannot be read."""
    return readable(_objects, response.get("output", NULL)) or []


def usage_in(response: Fields) -> Json | None:
    """Return a response's usage object."""
    return readable(_object, response.get("usage", NULL)) or None


def is_ours(item: Json, tools: frozenset[str]) -> bool:
    """Whether an item calls a server tool; a name inside a namespace is another name."""
    return (
        item.get("type") == FUNCTION_CALL
        and as_text(item.get("name")) in tools
        and not item.get("namespace")
    )


def client_items(items: list[Json], tools: frozenset[str]) -> list[Json]:
    """Return what the client sees of a turn's items."""
    return [item for item in items if not is_ours(item, tools)]


def add_call_ids(items: list[Json], new_id: NewId) -> list[Json]:
    """Give every call its id."""
    calls = (item for item in items if item.get("type") in CALLS)
    for ordinal, call in enumerate(calls):
        call["call_id"] = as_text(call.get("call_id")) or new_id(ordinal)
    return items


def make_unused(ident: str, used: Container[str]) -> str:
    """Return an id as it is, or one like it that is not in use."""
    other, count = ident, 2
    while other in used:
        other, count = f"{ident}_{count}", count + 1
    return other


def separate_ids(items: Iterable[Json]) -> list[Json]:
    """Give items of several turns ids of their own, where two have the same."""
    used: set[str] = set()
    named: list[Json] = []
    for item in items:
        ident = item.get("id")
        if isinstance(ident, str) and ident in used:
            ident = make_unused(ident, used)
            item = {**item, "id": ident}
        used.add(str(ident))
        named.append(item)
    return named


def parts_of(item: Json) -> list[Json]:
    """Return the parts of a message's content."""
    return objects_in(item.get("content")) if item.get("type") == "message" else []


def text_of(items: Iterable[Json]) -> str:
    """Return what the items say; messages are apart by an empty line."""
    said = ("".join(_texts(item)) for item in items)
    return "\n\n".join(text for text in said if text)


def _texts(item: Json) -> Iterator[str]:
    return (part["text"] for part in parts_of(item) if isinstance(part.get("text"), str))


def refuses(items: Iterable[Json]) -> bool:
    """Whether the model declined to answer."""
    return any(part.get("refusal") for item in items for part in parts_of(item))


def speaks(items: Iterable[Json]) -> bool:
    """Whether the items say or do anything; thinking alone is neither."""
    return any(
        any(part.get("text") or part.get("refusal") for part in parts_of(item))
        if item.get("type") == "message"
        else item.get("type") != "reasoning"
        for item in items
    )


def stop_of(status: str, response: Fields, items: list[Json]) -> Stop:
    """Say why a turn ended."""
    if status == "incomplete":
        reason = text_in(fields_in(response, "incomplete_details"), "reason")
        return REASONS.get(reason, Stop.UNKNOWN)
    if status != "completed":
        return Stop.UNKNOWN
    if any(item.get("type") in CALLS for item in items):
        return Stop.TOOL_CALLS
    return Stop.FILTER if refuses(items) else Stop.STOP


def usage_of(usage: Json | None) -> Usage | None:
    """Translate a usage object."""
    if not usage:
        return None
    return Usage(
        number_in(usage, "input_tokens"),
        number_in(usage, "output_tokens"),
        number_in(part_of(usage, "input_tokens_details"), "cached_tokens"),
        number_in(part_of(usage, "output_tokens_details"), "reasoning_tokens"),
    )


def join_usage(usages: Iterable[Json | None]) -> Json | None:
    """Join the usage of turns: output added up, all else of the last.

    Clients take the last input and total as what the conversation fills of the model's context.
    """
    told = [usage for usage in usages if usage]
    if not told:
        return None
    counts = ({name: u[name] for name in OUTPUT_COUNTS if name in u} for u in told)
    return {**told[-1], **(sum_usage(counts) or {})}


def is_stored(request: Fields) -> bool:
    """Whether the upstream keeps what it answers to this request."""
    return bytes(request.get("store", b"")) != b"false"


def as_input(items: Iterable[Json], stored: bool) -> list[bytes]:
    """Write items as they go back to the upstream that made them.

    One that stores its answers pairs reasoning with what followed it by their ids. One that does
    not would look the ids up in vain, and cannot tell what reasoning it was without its content.
    """
    if not stored:
        items = [_stateless(item) for item in items if not _is_lost(item)]
    return [msgspec.json.encode(item) for item in items]


def _stateless(item: Json) -> Json:
    if item.get("type") not in NEEDS_NO_ID:
        return item
    return {name: value for name, value in item.items() if name != "id"}


def _is_lost(item: Json) -> bool:
    told = item.get("encrypted_content") or item.get("content")
    return item.get("type") == "reasoning" and not told


def join_responses(first: Fields, last: Fields, items: list[Json], usage: Json | None) -> Fields:
    """Make one response of several: what names it is the first's, how it ended the last's."""
    constant = ("id", "object", "created_at", "model")
    # Some upstreams add the text in one piece; clients put it together from the items.
    response = {name: value for name, value in last.items() if name != "output_text"}
    response |= {name: first[name] for name in constant if name in first}
    response["output"] = raw(items)
    if usage:
        response["usage"] = raw(usage)
    return response


# What an event says by itself: a piece of something, or all of it.
SAID = ("delta", "text", "refusal", "arguments", "input", "code", "partial_image_b64")
# Where the words stand of items that begin empty; any other item is a call, and is content.
EMPTY_AT_FIRST = {
    "message": ("content",),
    "reasoning": ("summary", "content"),
}


def shows_content(frames: bytes) -> bool:
    """Tell whether any event says something, thinks, refuses or calls."""
    return any(map(_says, read_events(frames)))


def _says(event: Json) -> bool:
    part = part_of(event, "part")
    if any(map(event.get, SAID)) or part.get("text") or part.get("refusal"):
        return True
    item = part_of(event, "item")
    members = EMPTY_AT_FIRST.get(str(item.get("type")))
    return bool(item) if members is None else any(_is_filled(item.get(name)) for name in members)


def _is_filled(value: object) -> bool:
    """Tell whether a member holds more than empty parts."""
    if not isinstance(value, list):
        return bool(value)
    return any(part.get("text") or part.get("refusal") for part in objects_in(value))
