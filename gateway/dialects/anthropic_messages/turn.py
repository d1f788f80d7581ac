"""What one Messages turn said, read from its events or its body, and what it cost.

A turn is a list of blocks. From a stream each block is put together of its start and its deltas, by
its index; from a body it is read as it stands. Either way gives the same record, so follow-ups do
not depend on how the client wanted its answer. Invariants: every call has an id; a call's input is
what the model wrote, byte for byte, where it is an object; nothing upstreams refuse goes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from gateway.dialects.events import (
    NO_ARGUMENTS,
    Json,
    NewId,
    as_text,
    number_in,
    objects_in,
    part_of,
    read_event,
    read_events,
    read_object,
    sum_usage,
)
from gateway.dialects.raw_json import fields_of
from gateway.dialects.statuses import status_of
from gateway.errors import UpstreamAnswered, UpstreamBroke, UpstreamError
from gateway.exchange.model import Stop, ToolCall, Usage

STOPS = {
    "end_turn": Stop.STOP,
    "stop_sequence": Stop.STOP,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "tool_use": Stop.TOOL_CALLS,
    "refusal": Stop.FILTER,
    # The client is to send back what it has got, as it is: nothing of ours may follow.
    "pause_turn": Stop.UNKNOWN,
    "compaction": Stop.UNKNOWN,
}
# What ends an answer whose own reason names a call that nobody saw.
PLAIN_STOP = "end_turn"

START, DELTA, END = "content_block_start", "content_block_delta", "content_block_stop"
CALL = "tool_use"
APART = "\n\n"
THINKING = ("thinking", "redacted_thinking")
# What is told of a block in pieces: the member, the kind of piece, and what it begins with.
PIECES: dict[str, tuple[tuple[str, str, object], ...]] = {
    "text": (("text", "text_delta", ""),),
    "thinking": (("thinking", "thinking_delta", ""), ("signature", "signature_delta", "")),
    CALL: (("input", "input_json_delta", {}),),
}
DELTA_NAMES = {"input_json_delta": "partial_json"}
# What was asked is counted in three parts; only their sum is comparable with other dialects.
CACHED = "cache_read_input_tokens"
INPUT = ("input_tokens", "cache_creation_input_tokens", CACHED)


def stop_of(reason: object) -> Stop:
    """Translate a stop reason."""
    return STOPS.get(reason, Stop.UNKNOWN) if isinstance(reason, str) else Stop.UNKNOWN


def is_call(block: Json) -> bool:
    """Whether a block calls a tool that the upstream does not run itself."""
    return block.get("type") == CALL


def name_of(block: Json) -> str:
    """Return which tool a block calls."""
    return as_text(block.get("name")) or ""


def ident_of(block: Json) -> str:
    """Return a call's id as text, empty if it has none."""
    return as_text(block.get("id")) or ""


def needs_sifting(block: Json, tools: frozenset[str]) -> bool:
    """Whether a block calls a tool of ours, or one without an id where ours are offered."""
    # A made-up id only matters where turns are rebuilt, which our own tools make necessary.
    return is_call(block) and bool(tools) and (name_of(block) in tools or not ident_of(block))


def speaks(event: Json) -> bool:
    """Whether an event says anything beside that a block begins or ends."""
    block, delta = part_of(event, "content_block"), part_of(event, "delta")
    said = {**block, **delta}
    return is_call(block) or any(value for name, value in said.items() if name != "type")


def text_in(event: Json) -> str:
    """Return the text that an event begins or lengthens, empty if it does neither."""
    part = part_of(event, "content_block") or part_of(event, "delta")
    text = part.get("text") if part.get("type") in ("text", "text_delta") else None
    return text if isinstance(text, str) else ""


def set_apart(event: Json) -> Json:
    """Begin the text of an event, or of a block, with an empty line: clients join the texts."""
    if "text" in event:
        return {**event, "text": APART + event["text"]}
    return {
        name: set_apart(part) if name in ("content_block", "delta") else part
        for name, part in event.items()
    }


def is_error(event: Json) -> bool:
    """Whether this is an error and not an event, or an answer."""
    return event.get("type") == "error" or (not event.get("type") and bool(event.get("error")))


def read_disguised_error(body: bytes) -> UpstreamError:
    """Read an error that came under a 2xx status, or say that the answer makes no sense."""
    answer = read_event(body)
    if answer is None or not is_error(answer):
        return UpstreamBroke("The upstream's answer is not what was asked for.")
    error = answer.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    return UpstreamAnswered(status_of(kind, None), (), body)


@dataclass(slots=True)
class RecordedBlock:
    """One block of a turn, put together."""

    block: Json
    arguments: str = ""
    """What a call was made with, as the model wrote it."""


@dataclass(slots=True)
class RecordedMessagesTurn:
    """A turn's blocks in their order; every call has its id."""

    blocks: list[RecordedBlock] = field(default_factory=list)
    had_ids: bool = True
    """Whether each of them came with it."""

    @property
    def text(self) -> str:
        """All the text it said."""
        texts = (said.block.get("text") for said in self.blocks if said.block.get("type") == "text")
        return "".join(text for text in texts if isinstance(text, str))

    @property
    def calls(self) -> list[RecordedBlock]:
        """The calls, whoever answers them."""
        return [said for said in self.blocks if is_call(said.block)]

    def message(self) -> Json:
        """Build the assistant's message, without what upstreams refuse to be sent."""
        # An empty text block is refused in a request, though it may come in an answer.
        blocks = [said.block for said in self.blocks if not _is_blank(said.block)]
        while blocks and blocks[-1].get("type") in THINKING:
            # No turn may end in a thought; one that was cut short is not even signed.
            blocks.pop()
        return {"role": "assistant", "content": blocks}

    def client_blocks(self, tools: frozenset[str]) -> list[Json]:
        """Return the blocks that the client sees."""
        return [said.block for said in self.blocks if not _calls_one_of(said.block, tools)]

    def server_calls(self, tools: frozenset[str]) -> tuple[ToolCall, ...]:
        """Return the calls to our own tools."""
        return tuple(
            ToolCall(ident_of(said.block), name_of(said.block), said.arguments)
            for said in self.calls
            if _calls_one_of(said.block, tools)
        )

    def client_call_ids(self, tools: frozenset[str]) -> tuple[str, ...]:
        """Return the ids of the calls that the client sees."""
        return tuple(ident_of(block) for block in self.client_blocks(tools) if is_call(block))


def _is_blank(block: Json) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and not (isinstance(text, str) and text.strip())


def _calls_one_of(block: Json, tools: frozenset[str]) -> bool:
    return is_call(block) and name_of(block) in tools


class _Assembly:
    """A block that is being put together from its deltas."""

    __slots__ = ("_block", "_texts")

    def __init__(self, block: Json) -> None:
        self._block = block
        self._texts: dict[str, list[str]] = {}

    def add(self, delta: Json) -> None:
        """Take a delta: a text goes on, whatever it is of; anything else is set."""
        for name, value in delta.items():
            # The delta's type says how it came, the block's type stays what it is.
            if name == "type" or value is None:
                continue
            if name == "citation":
                self._cite(value)
            elif isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            else:
                self._block[name] = value

    def build(self) -> RecordedBlock:
        """Return the block as it is in the end."""
        block = self._block
        arguments = "".join(self._texts.pop("partial_json", ()))
        for name, pieces in self._texts.items():
            # A block may start with a piece of its text already in it.
            begun = block.get(name)
            block[name] = (begun if isinstance(begun, str) else "") + "".join(pieces)
        calls = "input" in block or is_call(block)
        return _build_call(block, arguments) if calls else RecordedBlock(block)

    def _cite(self, citation: object) -> None:
        cited = self._block.get("citations")
        if not isinstance(cited, list):
            cited = self._block["citations"] = []
        cited.append(citation)


def _build_call(block: Json, arguments: str) -> RecordedBlock:
    """Give a call its input as the model wrote it; only an object can be sent back."""
    # Broken arguments go to the tool as text, but back to the upstream only as an object.
    told = arguments if arguments.strip() else as_text(block.get("input")) or NO_ARGUMENTS
    whole = read_object(told.encode()) is not None
    return RecordedBlock({**block, "input": msgspec.Raw(told.encode()) if whole else {}}, told)


def blocks_of(event: Json) -> list[Json]:
    """Return the blocks that a message begins with: usually none."""
    return objects_in(part_of(event, "message").get("content"))


def unroll_block(block: Json, index: int) -> list[Json]:
    """Write a whole block as the events of a stream."""
    begun, told = dict(block), []
    for name, kind, empty in PIECES.get(str(block.get("type")), ()):
        if piece := block.get(name):
            begun[name] = empty
            said = piece if isinstance(piece, str) else msgspec.json.encode(piece).decode()
            told.append({"type": kind, DELTA_NAMES.get(kind, name): said})
    deltas = [{"type": DELTA, "index": index, "delta": delta} for delta in told]
    start = {"type": START, "index": index, "content_block": begun}
    return [start, *deltas, {"type": END, "index": index}]


def record_events(events: Iterable[Json], new_id: NewId) -> RecordedMessagesTurn:
    """Put a turn together from its streamed events."""
    at: dict[object, _Assembly] = {}
    begun: list[_Assembly] = []
    for event in events:
        # An index is only compared, whatever it is: some upstreams send no number.
        index = as_text(event.get("index"))
        for block in blocks_of(event):
            begun.append(_Assembly(dict(block)))
        if event.get("type") == START:
            at[index] = _Assembly(dict(part_of(event, "content_block")))
            begun.append(at[index])
        elif event.get("type") == DELTA and index in at:
            at[index].add(part_of(event, "delta"))
    return _add_ids([assembly.build() for assembly in begun], new_id)


def record_content(content: Iterable[msgspec.Raw], new_id: NewId) -> RecordedMessagesTurn:
    """Read a turn from its whole content; what is no block is left out."""
    read = ((item, read_object(bytes(item))) for item in content)
    blocks = [_read_block(item, block) for item, block in read if block is not None]
    return _add_ids(blocks, new_id)


def _read_block(item: msgspec.Raw, block: Json) -> RecordedBlock:
    if "input" not in block and not is_call(block):
        return RecordedBlock(block)
    given = block.get("input")
    if isinstance(given, str | None):
        return _build_call({**block, "input": None}, given or "")
    # Numbers stay as they were written.
    return _build_call(block, bytes(fields_of(bytes(item))["input"]).decode())


def _add_ids(blocks: list[RecordedBlock], new_id: NewId) -> RecordedMessagesTurn:
    recorded = RecordedMessagesTurn(blocks)
    for ordinal, said in enumerate(recorded.calls):
        ident = ident_of(said.block)
        recorded.had_ids = recorded.had_ids and bool(ident)
        said.block["id"] = ident or new_id(ordinal)
    return recorded


def usage_of(usage: Json) -> Usage | None:
    """Translate a usage object; what came from a cache was told as well."""
    if not usage:
        return None
    return Usage(
        sum(number_in(usage, name) for name in INPUT),
        number_in(usage, "output_tokens"),
        number_in(usage, CACHED),
        number_in(part_of(usage, "output_tokens_details"), "thinking_tokens"),
    )


def update_usage(usage: Json, more: Json) -> Json:
    """Bring a turn's usage up to date: what is told later counts from the turn's beginning."""
    return {**usage, **{name: value for name, value in more.items() if value is not None}}


def total_usage(turns: Iterable[tuple[object, Json]]) -> Json:
    """Add up what turns cost, each a model and its usage, and list them one by one."""
    counts = list(turns)
    total = sum_usage(usage for _, usage in counts) or {}
    iterations = [entry for model, usage in counts for entry in _iterations(model, usage)]
    # What each turn cost stays visible beside the sum.
    return {"output_tokens": 0, **total, "iterations": iterations}


def _iterations(model: object, usage: Json) -> list[Json]:
    """Return what a turn tells of its own iterations, or the turn as one."""
    own = usage.get("iterations")
    if isinstance(own, list) and own:
        return own
    numbers = {name: number_in(usage, name) for name in (*INPUT, "output_tokens")}
    return [{"type": "message", "model": model, **numbers}]


def shows_content(frames: bytes) -> bool:
    """Tell whether any event says something, thinks or calls."""
    return any(map(_says, read_events(frames)))


def _says(event: Json) -> bool:
    if event.get("type") in (START, DELTA):
        return speaks(event)
    # Usually empty: a message may begin with what was said before.
    return bool(part_of(event, "message").get("content"))
