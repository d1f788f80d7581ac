"""Reading a Chat Completions request into the canonical form."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from gateway.dialects.canonical import (
    Call,
    Choice,
    Conversation,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Tool,
)
from gateway.dialects.translate.content_parts import (
    PartReaders,
    file_of,
    image_at,
    leave_out,
    read_parts,
    read_refusal,
    read_result,
    read_text,
    refuse,
    result_of,
)
from gateway.dialects.translate.effort import effort_word
from gateway.dialects.translate.history import drop_empty, order_history
from gateway.dialects.translate.json_format import read_answer_format
from gateway.dialects.translate.json_node import OPENAI_MEMBERS, JsonNode, Losses, parse_body
from gateway.dialects.translate.tools import choose, read_custom, read_function, read_tools
from gateway.errors import BadRequest

MESSAGES = "messages"
KNOWN = (
    OPENAI_MEMBERS
    | {MESSAGES, "stream_options", "n", "modalities", "stop", "reasoning_effort"}
    | {"response_format", "max_tokens", "max_completion_tokens"}
    # Older forms of `tools` and `tool_choice`.
    | {"functions", "function_call"}
)
KNOWN_MESSAGE = (
    frozenset({"role", "content"})
    # Of the assistant, older forms among them, and of a tool.
    | {"refusal", "reasoning", "reasoning_content", "tool_calls", "function_call"}
    | {"tool_call_id"}
)
KNOWN_OPTIONS = frozenset({"include_usage"})


def read_chat(body: bytes) -> Conversation:
    """Read a request; what cannot be carried is named in it, or refused by `BadRequest`."""
    request, losses = parse_body(body), Losses()
    _refuse_other_shapes(request)
    losses.note_unknown(request, KNOWN)
    options = request.inner("stream_options")
    losses.note_unknown(options, KNOWN_OPTIONS, "stream_options")
    tools, choice = _tools(request, losses)
    system, messages = order_history(_ChatHistory(losses).read(request.nodes(MESSAGES)), MESSAGES)
    return Conversation(
        model=request.require("model"),
        stream=bool(request.flag("stream")),
        system=system,
        messages=messages,
        tools=tools,
        choice=choice,
        parallel=request.flag("parallel_tool_calls"),
        max_tokens=_first(request.whole("max_completion_tokens"), request.whole("max_tokens")),
        temperature=request.number("temperature"),
        top_p=request.number("top_p"),
        stop=_stop(request),
        effort=effort_word(request, "reasoning_effort", losses),
        format=read_answer_format(request.inner("response_format"), "json_schema"),
        user=request.text("user"),
        metadata=request.inner("metadata").members,
        wants_usage=bool(options.flag("include_usage")),
        lost=losses.names,
    )


def _refuse_other_shapes(request: JsonNode) -> None:
    """Refuse what only a Chat Completions upstream can answer in the shape that is asked for."""
    if (request.whole("n") or 1) > 1:
        raise BadRequest("This model's upstream gives one answer; `n` must be 1.", param="n")
    modalities = request.members.get("modalities")
    if isinstance(modalities, list) and "audio" in modalities:
        raise BadRequest("This model's upstream answers in text only.", param="modalities")


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _stop(request: JsonNode) -> tuple[str, ...]:
    stop = request.members.get("stop")
    return (stop,) if isinstance(stop, str) else request.texts("stop")


class _ChatHistory:
    """Reads messages; calls without an id get one, and so do the results that follow them."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._named: deque[str] = deque()

    def read(self, messages: Iterable[JsonNode]) -> list[Message]:
        """Read all of them."""
        return [self._message(message) for message in messages]

    def _message(self, message: JsonNode) -> Message:
        speaker, read = ROLES.get(message.text("role"), ("", None))
        if read is None:
            raise message.invalid_member("role", "system, developer, user, assistant or tool")
        self._losses.note_unknown(message, KNOWN_MESSAGE, MESSAGES)
        return Message(speaker, tuple(read(self, message)))

    def read_instructions(self, message: JsonNode) -> Iterable[Part]:
        """Read instructions."""
        return drop_empty(read_parts(message, "content", INSTRUCTED, leave_out, self._losses))

    def read_user(self, message: JsonNode) -> Iterable[Part]:
        """Read what the user said."""
        return read_parts(message, "content", SAID, refuse, self._losses)

    def read_assistant(self, message: JsonNode) -> Iterable[Part]:
        """Read what the model said and called."""
        thought = message.text("reasoning_content") or message.text("reasoning")
        refusal = message.text("refusal")
        yield from [Reasoning(thought)] if thought else []
        yield from drop_empty(read_parts(message, "content", ANSWERED, leave_out, self._losses))
        yield from [Refusal(refusal)] if refusal else []
        for call in message.nodes("tool_calls"):
            yield self._call(call, call.text("id"))
        if older := message.node("function_call"):
            yield self._call(JsonNode({"function": older.members}, older.path), "")

    def read_tool(self, message: JsonNode) -> Iterable[Part]:
        """Read what a tool returned."""
        call_id = message.text("tool_call_id")
        if not call_id and self._named:
            call_id = self._named.popleft()
        parts = read_result(message, "content", SAID, self._losses)
        yield result_of(call_id or message.require("tool_call_id"), parts)

    def _call(self, call: JsonNode, call_id: str) -> Call:
        if not call_id:
            call_id = f"call_{call.path}".translate(_TO_ID)
            self._named.append(call_id)
        if custom := call.node("custom"):
            return Call(call_id, custom.require("name"), custom.text("input"), custom=True)
        function = call.inner("function")
        return Call(call_id, function.require("name"), function.text("arguments") or "{}")


ROLES: dict[str, tuple[str, Callable[[_ChatHistory, JsonNode], Iterable[Part]]]] = {
    "system": ("system", _ChatHistory.read_instructions),
    "developer": ("system", _ChatHistory.read_instructions),
    "user": ("user", _ChatHistory.read_user),
    "assistant": ("assistant", _ChatHistory.read_assistant),
    "tool": ("user", _ChatHistory.read_tool),
    "function": ("user", _ChatHistory.read_tool),
}
_TO_ID = {ord("["): "_", ord("]"): None, ord("."): "_"}


def _image(part: JsonNode, losses: Losses) -> Image:
    url = part.members.get("image_url")
    if isinstance(url, str):
        return image_at(url)
    image = part.inner("image_url")
    return image_at(image.require("url"), image.text("detail"))


def _file(part: JsonNode, losses: Losses) -> File:
    file = part.inner("file")
    name, file_id = file.text("filename"), file.text("file_id")
    return File(name=name, id=file_id) if file_id else file_of(name, file.require("file_data"))


INSTRUCTED: PartReaders = {"text": read_text}
SAID: PartReaders = {"text": read_text, "image_url": _image, "file": _file}
ANSWERED: PartReaders = {"text": read_text, "refusal": read_refusal}


def _tools(request: JsonNode, losses: Losses) -> tuple[tuple[Tool, ...], Choice | None]:
    tools = read_tools(request.nodes("tools"), _tool, losses)
    tools += read_tools(request.nodes("functions"), _function, losses)
    older = "function_call" if request.members.get("tool_choice") is None else ""
    return choose(request, older or "tool_choice", tools)


def _tool(node: JsonNode, losses: Losses) -> Tool | None:
    kind = node.text("type")
    if kind == "custom":
        return read_custom(node.inner("custom"), "grammar")
    if kind not in ("", "function"):
        losses.add(f"tools.{kind}")
        return None
    return _function(node.inner("function"), losses)


def _function(node: JsonNode, losses: Losses) -> Tool:
    return read_function(node, "parameters", losses)
