"""Reading a Responses request into the canonical form."""

from __future__ import annotations

from collections.abc import Callable

from gateway.dialects.canonical import (
    Call,
    Choice,
    Conversation,
    File,
    Image,
    Message,
    Refusal,
    Text,
    Tool,
)
from gateway.dialects.translate.content_parts import (
    Otherwise,
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
from gateway.dialects.translate.reasoning import reasoning_item
from gateway.dialects.translate.tools import choose, grammar_of
from gateway.errors import BadRequest

INPUT = "input"
KNOWN = frozenset(
    {
        "model",
        INPUT,
        "instructions",
        "stream",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_output_tokens",
        "temperature",
        "top_p",
        "reasoning",
        "text",
        "user",
        "metadata",
    }
)
# What is kept by the upstream that gave the id cannot be asked of another.
KEPT_ELSEWHERE = ("previous_response_id", "conversation", "prompt")
KEPT_ITEMS = frozenset({"item_reference", "compaction"})
KNOWN_TEXT = frozenset({"format"})
KNOWN_REASONING = frozenset({"effort"})
KNOWN_TOOL = frozenset({"type", "name", "description", "parameters", "strict", "format"})
KNOWN_ITEM = frozenset(
    {
        "type",
        "id",
        "status",
        "role",
        "content",
        "call_id",
        "name",
        "arguments",
        "input",
        "output",
        "summary",
        "encrypted_content",
    }
)


def read_responses(body: bytes) -> Conversation:
    """Read a request; what cannot be carried is named in it, or refused by `BadRequest`."""
    request, losses = opened(body), Losses()
    _refuse_what_is_kept_elsewhere(request)
    losses.beside(request, KNOWN)
    reasoning = request.inner("reasoning")
    losses.beside(reasoning, KNOWN_REASONING, "reasoning")
    tools, choice = _tools(request, losses)
    system, messages = in_order(_history(request, losses), INPUT)
    return Conversation(
        model=request.need("model"),
        stream=bool(request.flag("stream")),
        system=system,
        messages=messages,
        tools=tools,
        choice=choice,
        parallel=request.flag("parallel_tool_calls"),
        max_tokens=request.whole("max_output_tokens"),
        temperature=request.number("temperature"),
        top_p=request.number("top_p"),
        effort=effort_word(reasoning, "effort", losses),
        format=_format(request, losses),
        user=request.text("user"),
        metadata=(request.node("metadata") or Node({})).members,
        # It is always reported here.
        wants_usage=True,
        lost=losses.names,
    )


def _refuse_what_is_kept_elsewhere(request: Node) -> None:
    for name in KEPT_ELSEWHERE:
        if request.members.get(name) is not None:
            raise BadRequest(
                f"This model's upstream keeps nothing that `{name}` could name.", param=name
            )
    if request.flag("background"):
        raise BadRequest("This model's upstream answers at once.", param="background")


def _format(request: Node, losses: Losses) -> Format | None:
    text = request.inner("text")
    losses.beside(text, KNOWN_TEXT, "text")
    asked = text.inner("format")
    kind = asked.text("type")
    if kind == "json_schema":
        return format_of(asked)
    if kind not in ("", "text", "json_object"):
        raise refused(f"A format `{kind}`", asked.path)
    return ANY_OBJECT if kind == "json_object" else None


def _history(request: Node, losses: Losses) -> list[Message]:
    instructions = Message("system", spoken((Text(request.text("instructions")),)))
    asked = request.content(INPUT)
    if isinstance(asked, str):
        return [instructions, Message("user", (Text(asked),))]
    return [instructions, *(_item(item, losses) for item in asked)]


def _item(item: Node, losses: Losses) -> Message:
    kind = item.text("type") or "message"
    if kind in KEPT_ITEMS:
        raise BadRequest(
            f"`{item.path}` is of type `{kind}`: what it stands for is not kept by this model's "
            "upstream. Send the items themselves; most clients do so with `store: false`.",
            param=item.path,
        )
    read = ITEMS.get(kind)
    if read is None:
        # What hosted tools did means nothing elsewhere.
        losses.add(f"{INPUT}.{kind}")
        return Message("assistant", ())
    losses.beside(item, KNOWN_ITEM, kind)
    return read(item, losses)


def _message(item: Node, losses: Losses) -> Message:
    role = item.text("role")
    if role not in ROLES:
        raise item.misfit("role", "user, assistant, system or developer")
    speaker, table, otherwise = ROLES[role]
    parts = read_parts(item, "content", table, otherwise, losses)
    return Message(speaker, parts if speaker == "user" else spoken(parts))


def _call(item: Node, losses: Losses) -> Message:
    arguments = item.text("arguments") or "{}"
    return Message("assistant", (Call(item.need("call_id"), item.need("name"), arguments),))


def _custom_call(item: Node, losses: Losses) -> Message:
    call = Call(item.need("call_id"), item.need("name"), item.text("input"), custom=True)
    return Message("assistant", (call,))


def _returned(item: Node, losses: Losses) -> Message:
    parts = read_returned(item, "output", SAID, losses)
    return Message("user", (result_of(item.need("call_id"), parts),))


def _reasoning(item: Node, losses: Losses) -> Message:
    told = item.nodes("content") or item.nodes("summary")
    text = "\n\n".join(part.text("text") for part in told)
    proof = item.text("encrypted_content")
    return Message("assistant", (reasoning_item(text, proof, item.text("id")),))


ITEMS: dict[str, Callable[[Node, Losses], Message]] = {
    "message": _message,
    "function_call": _call,
    "custom_tool_call": _custom_call,
    "function_call_output": _returned,
    "custom_tool_call_output": _returned,
    "reasoning": _reasoning,
}


def _text(part: Node, losses: Losses) -> Text:
    losses.beside(part, frozenset({"type", "text"}), part.text("type"))
    return Text(part.text("text"))


def _refusal(part: Node, losses: Losses) -> Refusal:
    return Refusal(part.text("refusal"))


def _image(part: Node, losses: Losses) -> Image | None:
    url = part.text("image_url")
    # Without one it is a picture that only its upstream knows.
    return image_at(url, part.text("detail")) if url else None


def _file(part: Node, losses: Losses) -> File:
    name, file_id, url = part.text("filename"), part.text("file_id"), part.text("file_url")
    if file_id or url:
        return File(name=name, id=file_id, url="" if file_id else url)
    return file_of(name, part.need("file_data"))


INSTRUCTED: Table = {"input_text": _text, "text": _text}
SAID: Table = {**INSTRUCTED, "input_image": _image, "input_file": _file}
ANSWERED: Table = {**INSTRUCTED, "output_text": _text, "refusal": _refusal}
ROLES: dict[str, tuple[str, Table, Otherwise]] = {
    "system": ("system", INSTRUCTED, leave_out),
    "developer": ("system", INSTRUCTED, leave_out),
    "user": ("user", SAID, refuse),
    "assistant": ("assistant", ANSWERED, leave_out),
}


def _tools(request: Node, losses: Losses) -> tuple[tuple[Tool, ...], Choice | None]:
    declared = [_tool(node, losses) for node in request.nodes("tools")]
    tools = tuple(tool for tool in declared if tool is not None)
    return choose(request, "tool_choice", tools)


def _tool(node: Node, losses: Losses) -> Tool | None:
    kind = node.text("type")
    if kind not in ("function", "custom"):
        losses.add(f"tools.{_label(node)}")
        return None
    losses.beside(node, KNOWN_TOOL, "tools")
    name, description = node.need("name"), node.text("description")
    if kind == "custom":
        asked = node.inner("format")
        grammar = grammar_of(asked) if asked.text("type") == "grammar" else {}
        return Tool(name, description, grammar, custom=True)
    schema = (node.node("parameters") or Node({})).members
    return Tool(name, description, schema, node.flag("strict"))


def _label(node: Node) -> str:
    """Return what a hosted tool is called in the log: its type, and a namespace's name."""
    kind, name = node.text("type"), node.text("name")
    return f"{kind}.{name}" if kind == "namespace" else kind
