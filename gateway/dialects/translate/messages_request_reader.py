"""Reading a Messages request into the canonical form."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.dialects.canonical import (
    Call,
    Choice,
    Conversation,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Result,
    Text,
    Tool,
)
from gateway.dialects.seals import thinking
from gateway.dialects.translate.content_parts import (
    PartReaders,
    Roles,
    keep_result_parts,
    leave_out,
    read_message,
    read_parts,
    read_result,
    read_text,
    refuse,
)
from gateway.dialects.translate.effort import effort_of, effort_word
from gateway.dialects.translate.history import drop_empty, order_history, texts
from gateway.dialects.translate.json_format import Format, read_format
from gateway.dialects.translate.json_node import (
    SHARED_MEMBERS,
    JsonNode,
    Losses,
    parse_body,
    untranslatable,
)
from gateway.dialects.translate.tools import choose, read_function, read_tools

MESSAGES = "messages"
KNOWN = SHARED_MEMBERS | {
    MESSAGES,
    "system",
    "max_tokens",
    "stop_sequences",
    "thinking",
    "output_config",
}
KNOWN_MESSAGE = frozenset({"role", "content"})
KNOWN_METADATA = frozenset({"user_id"})
KNOWN_THINKING = frozenset({"type", "budget_tokens"})
BOOKKEEPING = "x-anthropic-billing-header"
KNOWN_OUTPUT = frozenset({"effort", "format"})
CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def read_messages(body: bytes) -> Conversation:
    """Read a request; what cannot be carried is named in it, or refused by `BadRequest`."""
    request, losses = parse_body(body), Losses()
    losses.note_unknown(request, KNOWN)
    metadata = request.inner("metadata")
    losses.note_unknown(metadata, KNOWN_METADATA, "metadata")
    effort, asked = _output(request, losses)
    tools, choice, parallel = _tools(request, losses)
    system, messages = order_history(_history(request, losses), MESSAGES)
    return Conversation(
        model=request.require("model"),
        stream=bool(request.flag("stream")),
        system=system,
        messages=messages,
        tools=tools,
        choice=choice,
        parallel=parallel,
        max_tokens=request.whole("max_tokens"),
        temperature=request.number("temperature"),
        top_p=request.number("top_p"),
        stop=request.texts("stop_sequences"),
        effort=effort,
        format=asked,
        user=metadata.text("user_id"),
        # It is always reported here.
        wants_usage=True,
        lost=losses.names,
    )


def _output(request: JsonNode, losses: Losses) -> tuple[str, Format | None]:
    """Read how much to think, by word or by budget, and which form the answer has to take."""
    output = request.inner("output_config")
    losses.note_unknown(output, KNOWN_OUTPUT, "output_config")
    word, budget = effort_word(output, "effort", losses), _budget(request, losses)
    asked = output.node("format")
    return budget if budget == "none" else word or budget, _format(asked) if asked else None


def _format(asked: JsonNode) -> Format:
    if asked.text("type") != "json_schema":
        raise untranslatable(f"A format `{asked.text('type')}`", asked.path)
    return {**read_format(asked), "strict": True}


def _budget(request: JsonNode, losses: Losses) -> str:
    asked = request.inner("thinking")
    losses.note_unknown(asked, KNOWN_THINKING, "thinking")
    budget = asked.whole("budget_tokens")
    if asked.text("type") == "disabled":
        return "none"
    return "" if budget is None else effort_of(budget)


def _history(request: JsonNode, losses: Losses) -> list[Message]:
    read = drop_empty(read_parts(request, "system", INSTRUCTED, leave_out, losses))
    instructions = tuple(part for part in read if not _is_bookkeeping(part))
    if len(instructions) < len(read):
        losses.add(BOOKKEEPING)
    told = [_message(message, losses) for message in request.nodes(MESSAGES)]
    return [Message("system", instructions), *told]


def _is_bookkeeping(part: Part) -> bool:
    """Whether it is a note of Claude Code to Anthropic, which only looks like an instruction."""
    return isinstance(part, Text) and part.text.startswith(f"{BOOKKEEPING}:")


def _message(message: JsonNode, losses: Losses) -> Message:
    losses.note_unknown(message, KNOWN_MESSAGE, MESSAGES)
    return read_message(message, ROLES, "user, assistant or system", losses)


def _check_known(block: JsonNode, losses: Losses, *names: str) -> JsonNode:
    """Return a block of which all is known but what is named as lost."""
    losses.note_unknown(block, frozenset({"type", *names}), block.text("type"))
    return block


def _image(block: JsonNode, losses: Losses) -> Image | None:
    source = _check_known(block, losses, "source").inner("source")
    kind = source.text("type")
    if kind == "base64":
        return Image(media_type=source.text("media_type"), data=source.require("data"))
    return Image(url=source.require("url")) if kind == "url" else None


def _document(block: JsonNode, losses: Losses) -> File | None:
    source = _check_known(block, losses, "source", "title").inner("source")
    read = SOURCES.get(source.text("type"))
    file = read(source) if read is not None else None
    return None if file is None else msgspec.structs.replace(file, name=block.text("title"))


def _search_result(block: JsonNode, losses: Losses) -> Text:
    _check_known(block, losses, "title", "source", "content")
    found = texts(read_parts(block, "content", INSTRUCTED, leave_out, losses))
    return Text("\n".join((block.text("title"), block.text("source"), *found)))


def _thinking(block: JsonNode, losses: Losses) -> Reasoning:
    return thinking(block.text("thinking"), block.text("signature"))


def _read_redacted(block: JsonNode, losses: Losses) -> Reasoning:
    return Reasoning("", encrypted=block.text("data"), redacted=True)


def _tool_use(block: JsonNode, losses: Losses) -> Call:
    _check_known(block, losses, "id", "name", "input")
    given = block.members.get("input")
    arguments = msgspec.json.encode({} if given is None else given).decode()
    return Call(block.require("id"), block.require("name"), arguments)


def _tool_result(block: JsonNode, losses: Losses) -> Result:
    _check_known(block, losses, "tool_use_id", "content", "is_error")
    parts = keep_result_parts(read_result(block, "content", RETURNED, losses))
    return Result(block.require("tool_use_id"), parts, bool(block.flag("is_error")))


def _inner_text(source: JsonNode) -> File | None:
    content = source.content("content")
    if isinstance(content, str):
        return File(text=content)
    if any(block.text("type") != "text" for block in content):
        # Of a document with pictures the words alone would be another one.
        return None
    return File(text="\n\n".join(block.text("text") for block in content))


SOURCES: dict[str, Callable[[JsonNode], File | None]] = {
    "base64": lambda source: File(
        media_type=source.text("media_type"), data=source.require("data")
    ),
    "url": lambda source: File(url=source.require("url")),
    "text": lambda source: File(text=source.require("data")),
    "content": _inner_text,
}
INSTRUCTED: PartReaders = {"text": read_text}
RETURNED: PartReaders = {
    "text": read_text,
    "image": _image,
    "document": _document,
    "search_result": _search_result,
}
SAID: PartReaders = {**RETURNED, "tool_result": _tool_result}
ANSWERED: PartReaders = {
    "text": read_text,
    "thinking": _thinking,
    "redacted_thinking": _read_redacted,
    "tool_use": _tool_use,
}
ROLES: Roles = {
    "system": ("system", INSTRUCTED, leave_out),
    "user": ("user", SAID, refuse),
    "assistant": ("assistant", ANSWERED, leave_out),
}


def _tools(
    request: JsonNode, losses: Losses
) -> tuple[tuple[Tool, ...], Choice | None, bool | None]:
    tools = read_tools(request.nodes("tools"), _tool, losses)
    asked = request.inner("tool_choice")
    # The other dialects say the same in one word, or by naming the tool.
    word = CHOICES.get(asked.text("type")) or request.members.get("tool_choice")
    tools, choice = choose(JsonNode({"tool_choice": word}), "tool_choice", tools)
    alone = asked.flag("disable_parallel_tool_use")
    return tools, choice, None if alone is None else not alone


def _tool(node: JsonNode, losses: Losses) -> Tool | None:
    kind = node.text("type")
    if kind not in ("", "custom"):
        losses.add(f"tools.{kind}")
        return None
    return read_function(node, "input_schema", losses, frozenset({"type"}))
