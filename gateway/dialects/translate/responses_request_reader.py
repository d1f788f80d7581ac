"""Reading a Responses request into the canonical form."""

from __future__ import annotations

from collections.abc import Callable

from gateway.dialects.canonical import (
    Call,
    Conversation,
    File,
    Image,
    Message,
    Text,
    Tool,
)
from gateway.dialects.seals import reasoning_item
from gateway.dialects.translate.content_parts import (
    PartReaders,
    Roles,
    file_of,
    image_at,
    leave_out,
    read_message,
    read_refusal,
    read_result,
    read_text,
    refuse,
    result_of,
)
from gateway.dialects.translate.effort import effort_word
from gateway.dialects.translate.history import drop_empty, order_history
from gateway.dialects.translate.json_format import Format, read_answer_format
from gateway.dialects.translate.json_node import OPENAI_MEMBERS, JsonNode, Losses, parse_body
from gateway.dialects.translate.tools import choose, read_custom, read_function, read_tools
from gateway.errors import BadRequest

INPUT = "input"
KNOWN = OPENAI_MEMBERS | {INPUT, "instructions", "max_output_tokens", "reasoning", "text"}
# What is kept by the upstream that gave the id cannot be asked of another.
KEPT_ELSEWHERE = ("previous_response_id", "conversation", "prompt")
KEPT_ITEMS = frozenset({"item_reference", "compaction"})
KNOWN_TEXT = frozenset({"format"})
KNOWN_REASONING = frozenset({"effort"})
KNOWN_TOOL = frozenset({"type", "name", "description", "parameters", "strict", "format"})
KNOWN_ITEM = (
    frozenset({"type", "id", "status"})
    # Of messages, of calls and their results, of reasoning.
    | {"role", "content"}
    | {"call_id", "name", "arguments", "input", "output"}
    | {"summary", "encrypted_content"}
)


def read_responses(body: bytes) -> Conversation:
    """Read a request; what cannot be carried is named in it, or refused by `BadRequest`."""
    request, losses = parse_body(body), Losses()
    _refuse_what_is_kept_elsewhere(request)
    losses.note_unknown(request, KNOWN)
    reasoning = request.inner("reasoning")
    losses.note_unknown(reasoning, KNOWN_REASONING, "reasoning")
    declared = read_tools(request.nodes("tools"), _tool, losses)
    tools, choice = choose(request, "tool_choice", declared)
    system, messages = order_history(_history(request, losses), INPUT)
    return Conversation(
        model=request.require("model"),
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
        metadata=request.inner("metadata").members,
        # It is always reported here.
        wants_usage=True,
        lost=losses.names,
    )


def _refuse_what_is_kept_elsewhere(request: JsonNode) -> None:
    for name in KEPT_ELSEWHERE:
        if request.members.get(name) is not None:
            raise BadRequest(
                f"This model's upstream keeps nothing that `{name}` could name.", param=name
            )
    if request.flag("background"):
        raise BadRequest("This model's upstream answers at once.", param="background")


def _format(request: JsonNode, losses: Losses) -> Format | None:
    text = request.inner("text")
    losses.note_unknown(text, KNOWN_TEXT, "text")
    return read_answer_format(text.inner("format"))


def _history(request: JsonNode, losses: Losses) -> list[Message]:
    instructions = Message("system", drop_empty((Text(request.text("instructions")),)))
    asked = request.content(INPUT)
    if isinstance(asked, str):
        return [instructions, Message("user", (Text(asked),))]
    return [instructions, *(_item(item, losses) for item in asked)]


def _item(item: JsonNode, losses: Losses) -> Message:
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
    losses.note_unknown(item, KNOWN_ITEM, kind)
    return read(item, losses)


def _message(item: JsonNode, losses: Losses) -> Message:
    return read_message(item, ROLES, "user, assistant, system or developer", losses)


def _call(item: JsonNode, losses: Losses) -> Message:
    arguments = item.text("arguments") or "{}"
    return Message("assistant", (Call(item.require("call_id"), item.require("name"), arguments),))


def _custom_call(item: JsonNode, losses: Losses) -> Message:
    call = Call(item.require("call_id"), item.require("name"), item.text("input"), custom=True)
    return Message("assistant", (call,))


def _read_output(item: JsonNode, losses: Losses) -> Message:
    parts = read_result(item, "output", SAID, losses)
    return Message("user", (result_of(item.require("call_id"), parts),))


def _reasoning(item: JsonNode, losses: Losses) -> Message:
    told = item.nodes("content") or item.nodes("summary")
    text = "\n\n".join(part.text("text") for part in told)
    proof = item.text("encrypted_content")
    return Message("assistant", (reasoning_item(text, proof, item.text("id")),))


ITEMS: dict[str, Callable[[JsonNode, Losses], Message]] = {
    "message": _message,
    "function_call": _call,
    "custom_tool_call": _custom_call,
    "function_call_output": _read_output,
    "custom_tool_call_output": _read_output,
    "reasoning": _reasoning,
}


def _image(part: JsonNode, losses: Losses) -> Image | None:
    url = part.text("image_url")
    # Without one it is a picture that only its upstream knows.
    return image_at(url, part.text("detail")) if url else None


def _file(part: JsonNode, losses: Losses) -> File:
    name, file_id, url = part.text("filename"), part.text("file_id"), part.text("file_url")
    if file_id or url:
        return File(name=name, id=file_id, url="" if file_id else url)
    return file_of(name, part.require("file_data"))


INSTRUCTED: PartReaders = {"input_text": read_text, "text": read_text}
SAID: PartReaders = {**INSTRUCTED, "input_image": _image, "input_file": _file}
ANSWERED: PartReaders = {**INSTRUCTED, "output_text": read_text, "refusal": read_refusal}
ROLES: Roles = {
    "system": ("system", INSTRUCTED, leave_out),
    "developer": ("system", INSTRUCTED, leave_out),
    "user": ("user", SAID, refuse),
    "assistant": ("assistant", ANSWERED, leave_out),
}


def _tool(node: JsonNode, losses: Losses) -> Tool | None:
    kind = node.text("type")
    if kind not in ("function", "custom"):
        losses.add(f"tools.{_label(node)}")
        return None
    if kind == "function":
        return read_function(node, "parameters", losses, KNOWN_TOOL)
    losses.note_unknown(node, KNOWN_TOOL, "tools")
    return read_custom(node)


def _label(node: JsonNode) -> str:
    """Return what a hosted tool is called in the log: its type, and a namespace's name."""
    kind, name = node.text("type"), node.text("name")
    return f"{kind}.{name}" if kind == "namespace" else kind
