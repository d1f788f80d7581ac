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
    Text,
    Tool,
)
from gateway.dialects.translate.content_parts import (
    Table,
    file_of,
    image_at,
    leave_out,
    read_parts,
    read_returned,
    refuse,
    refused,
    result_of,
)
from gateway.dialects.translate.effort import effort_word
from gateway.dialects.translate.history import in_order, spoken
from gateway.dialects.translate.json_format import ANY_OBJECT, Format, format_of
from gateway.dialects.translate.json_node import Losses, Node, opened
from gateway.dialects.translate.tools import choose, grammar_of
from gateway.errors import BadRequest

MESSAGES = "messages"
KNOWN = frozenset(
    {
        "model",
        MESSAGES,
        "stream",
        "stream_options",
        "n",
        "modalities",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "parallel_tool_calls",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "stop",
        "reasoning_effort",
        "response_format",
        "user",
        "metadata",
    }
)
KNOWN_MESSAGE = frozenset(
    {
        "role",
        "content",
        "refusal",
        "reasoning",
        "reasoning_content",
        "tool_calls",
        "tool_call_id",
        "function_call",
    }
)
KNOWN_OPTIONS = frozenset({"include_usage"})
KNOWN_FUNCTION = frozenset({"name", "description", "parameters", "strict"})


def read_chat(body: bytes) -> Conversation:
    """Read a request; what cannot be carried is named in it, or refused by `BadRequest`."""
    request, losses = opened(body), Losses()
    _refuse_other_shapes(request)
    losses.beside(request, KNOWN)
    options = request.node("stream_options") or Node({})
    losses.beside(options, KNOWN_OPTIONS, "stream_options")
    tools, choice = _tools(request, losses)
    system, messages = in_order(_History(losses).read(request.nodes(MESSAGES)), MESSAGES)
    return Conversation(
        model=request.need("model"),
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
        format=_format(request),
        user=request.text("user"),
        metadata=(request.node("metadata") or Node({})).members,
        wants_usage=bool(options.flag("include_usage")),
        lost=losses.names,
    )


def _refuse_other_shapes(request: Node) -> None:
    """Refuse what only a Chat Completions upstream can answer in the shape that is asked for."""
    if (request.whole("n") or 1) > 1:
        raise BadRequest("This model's upstream gives one answer; `n` must be 1.", param="n")
    modalities = request.members.get("modalities")
    if isinstance(modalities, list) and "audio" in modalities:
        raise BadRequest("This model's upstream answers in text only.", param="modalities")


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _stop(request: Node) -> tuple[str, ...]:
    stop = request.members.get("stop")
    return (stop,) if isinstance(stop, str) else request.texts("stop")


def _format(request: Node) -> Format | None:
    asked = request.node("response_format") or Node({})
    kind = asked.text("type")
    if kind == "json_schema":
        return format_of(asked.inner("json_schema"))
    if kind not in ("", "text", "json_object"):
        raise refused(f"A format `{kind}`", "response_format")
    return ANY_OBJECT if kind == "json_object" else None


class _History:
    """Reads messages; calls without an id get one, and so do the results that follow them."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._named: deque[str] = deque()

    def read(self, messages: Iterable[Node]) -> list[Message]:
        """Read all of them."""
        return [self._message(message) for message in messages]

    def _message(self, message: Node) -> Message:
        speaker, read = ROLES.get(message.text("role"), ("", None))
        if read is None:
            raise message.misfit("role", "system, developer, user, assistant or tool")
        self._losses.beside(message, KNOWN_MESSAGE, MESSAGES)
        return Message(speaker, tuple(read(self, message)))

    def instructed(self, message: Node) -> Iterable[Part]:
        """Read instructions."""
        return spoken(read_parts(message, "content", INSTRUCTED, leave_out, self._losses))

    def said(self, message: Node) -> Iterable[Part]:
        """Read what the user said."""
        return read_parts(message, "content", SAID, refuse, self._losses)

    def answered(self, message: Node) -> Iterable[Part]:
        """Read what the model said and called."""
        thought = message.text("reasoning_content") or message.text("reasoning")
        refusal = message.text("refusal")
        yield from [Reasoning(thought)] if thought else []
        yield from spoken(read_parts(message, "content", ANSWERED, leave_out, self._losses))
        yield from [Refusal(refusal)] if refusal else []
        for call in message.nodes("tool_calls"):
            yield self._call(call, call.text("id"))
        if older := message.node("function_call"):
            yield self._call(Node({"function": older.members}, older.path), "")

    def returned(self, message: Node) -> Iterable[Part]:
        """Read what a tool returned."""
        call_id = message.text("tool_call_id")
        if not call_id and self._named:
            call_id = self._named.popleft()
        parts = read_returned(message, "content", SAID, self._losses)
        yield result_of(call_id or message.need("tool_call_id"), parts)

    def _call(self, call: Node, call_id: str) -> Call:
        if not call_id:
            call_id = f"call_{call.path}".translate(_TO_ID)
            self._named.append(call_id)
        if custom := call.node("custom"):
            return Call(call_id, custom.need("name"), custom.text("input"), custom=True)
        function = call.inner("function")
        return Call(call_id, function.need("name"), function.text("arguments") or "{}")


ROLES: dict[str, tuple[str, Callable[[_History, Node], Iterable[Part]]]] = {
    "system": ("system", _History.instructed),
    "developer": ("system", _History.instructed),
    "user": ("user", _History.said),
    "assistant": ("assistant", _History.answered),
    "tool": ("user", _History.returned),
    "function": ("user", _History.returned),
}
_TO_ID = {ord("["): "_", ord("]"): None, ord("."): "_"}


def _text(part: Node, losses: Losses) -> Text:
    losses.beside(part, frozenset({"type", "text"}), "text")
    return Text(part.text("text"))


def _refusal(part: Node, losses: Losses) -> Refusal:
    return Refusal(part.text("refusal"))


def _image(part: Node, losses: Losses) -> Image:
    url = part.members.get("image_url")
    if isinstance(url, str):
        return image_at(url)
    image = part.inner("image_url")
    return image_at(image.need("url"), image.text("detail"))


def _file(part: Node, losses: Losses) -> File:
    file = part.inner("file")
    name, file_id = file.text("filename"), file.text("file_id")
    return File(name=name, id=file_id) if file_id else file_of(name, file.need("file_data"))


INSTRUCTED: Table = {"text": _text}
SAID: Table = {"text": _text, "image_url": _image, "file": _file}
ANSWERED: Table = {"text": _text, "refusal": _refusal}


def _tools(request: Node, losses: Losses) -> tuple[tuple[Tool, ...], Choice | None]:
    declared = [_tool(node, losses) for node in request.nodes("tools")]
    declared += [_function(node, losses) for node in request.nodes("functions")]
    tools = tuple(tool for tool in declared if tool is not None)
    older = "function_call" if request.members.get("tool_choice") is None else ""
    return choose(request, older or "tool_choice", tools)


def _tool(node: Node, losses: Losses) -> Tool | None:
    kind = node.text("type")
    if kind == "custom":
        return _custom(node.inner("custom"))
    if kind not in ("", "function"):
        losses.add(f"tools.{kind}")
        return None
    return _function(node.inner("function"), losses)


def _function(node: Node, losses: Losses) -> Tool:
    losses.beside(node, KNOWN_FUNCTION, "tools")
    schema = node.node("parameters") or Node({})
    return Tool(node.need("name"), node.text("description"), schema.members, node.flag("strict"))


def _custom(node: Node) -> Tool:
    asked = node.inner("format")
    schema = grammar_of(asked.inner("grammar")) if asked.text("type") == "grammar" else {}
    return Tool(node.need("name"), node.text("description"), schema, custom=True)
