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
from gateway.dialects.translate.content_parts import (
    Otherwise,
    Table,
    leave_out,
    read_parts,
    read_returned,
    refuse,
    refused,
    returned,
)
from gateway.dialects.translate.effort import effort_of, effort_word
from gateway.dialects.translate.history import in_order, spoken, texts
from gateway.dialects.translate.json_format import Format, format_of
from gateway.dialects.translate.json_node import Losses, Node, opened
from gateway.dialects.translate.reasoning import thinking
from gateway.dialects.translate.tools import choose

MESSAGES = "messages"
KNOWN = frozenset(
    {
        "model",
        MESSAGES,
        "system",
        "stream",
        "max_tokens",
        "temperature",
        "top_p",
        "stop_sequences",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "metadata",
    }
)
KNOWN_MESSAGE = frozenset({"role", "content"})
KNOWN_METADATA = frozenset({"user_id"})
KNOWN_TOOL = frozenset({"type", "name", "description", "input_schema", "strict"})
KNOWN_THINKING = frozenset({"type", "budget_tokens"})
BOOKKEEPING = "x-anthropic-billing-header"
KNOWN_OUTPUT = frozenset({"effort", "format"})
CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def read_messages(body: bytes) -> Conversation:
    """Read a request; what cannot be carried is named in it, or refused by `BadRequest`."""
    request, losses = opened(body), Losses()
    losses.beside(request, KNOWN)
    metadata = request.node("metadata") or Node({})
    losses.beside(metadata, KNOWN_METADATA, "metadata")
    effort, asked = _output(request, losses)
    tools, choice, parallel = _tools(request, losses)
    system, messages = in_order(_history(request, losses), MESSAGES)
    return Conversation(
        model=request.need("model"),
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


def _output(request: Node, losses: Losses) -> tuple[str, Format | None]:
    """Read how much to think, by word or by budget, and which form the answer has to take."""
    output = request.inner("output_config")
    losses.beside(output, KNOWN_OUTPUT, "output_config")
    word, budget = effort_word(output, "effort", losses), _budget(request, losses)
    asked = output.node("format")
    return budget if budget == "none" else word or budget, _format(asked) if asked else None


def _format(asked: Node) -> Format:
    if asked.text("type") != "json_schema":
        raise refused(f"A format `{asked.text('type')}`", asked.path)
    return {**format_of(asked), "strict": True}


def _budget(request: Node, losses: Losses) -> str:
    asked = request.inner("thinking")
    losses.beside(asked, KNOWN_THINKING, "thinking")
    budget = asked.whole("budget_tokens")
    if asked.text("type") == "disabled":
        return "none"
    return "" if budget is None else effort_of(budget)


def _history(request: Node, losses: Losses) -> list[Message]:
    read = spoken(read_parts(request, "system", INSTRUCTED, leave_out, losses))
    instructions = tuple(part for part in read if not _is_bookkeeping(part))
    if len(instructions) < len(read):
        losses.add(BOOKKEEPING)
    told = [_message(message, losses) for message in request.nodes(MESSAGES)]
    return [Message("system", instructions), *told]


def _is_bookkeeping(part: Part) -> bool:
    """Whether it is a note of Claude Code to Anthropic, which only looks like an instruction."""
    return isinstance(part, Text) and part.text.startswith(f"{BOOKKEEPING}:")


def _message(message: Node, losses: Losses) -> Message:
    role = message.text("role")
    if role not in ROLES:
        raise message.misfit("role", "user, assistant or system")
    losses.beside(message, KNOWN_MESSAGE, MESSAGES)
    parts = read_parts(message, "content", *ROLES[role], losses)
    return Message(role, parts if role == "user" else spoken(parts))


def _known(block: Node, losses: Losses, *names: str) -> Node:
    """Return a block of which all is known but what is named as lost."""
    losses.beside(block, frozenset({"type", *names}), block.text("type"))
    return block


def _text(block: Node, losses: Losses) -> Text:
    return Text(_known(block, losses, "text").text("text"))


def _image(block: Node, losses: Losses) -> Image | None:
    source = _known(block, losses, "source").inner("source")
    kind = source.text("type")
    if kind == "base64":
        return Image(media_type=source.text("media_type"), data=source.need("data"))
    return Image(url=source.need("url")) if kind == "url" else None


def _document(block: Node, losses: Losses) -> File | None:
    source = _known(block, losses, "source", "title").inner("source")
    read = SOURCES.get(source.text("type"))
    file = read(source) if read is not None else None
    return None if file is None else msgspec.structs.replace(file, name=block.text("title"))


def _search_result(block: Node, losses: Losses) -> Text:
    _known(block, losses, "title", "source", "content")
    found = texts(read_parts(block, "content", INSTRUCTED, leave_out, losses))
    return Text("\n".join((block.text("title"), block.text("source"), *found)))


def _thinking(block: Node, losses: Losses) -> Reasoning:
    return thinking(block.text("thinking"), block.text("signature"))


def _redacted(block: Node, losses: Losses) -> Reasoning:
    return Reasoning("", encrypted=block.text("data"), redacted=True)


def _tool_use(block: Node, losses: Losses) -> Call:
    _known(block, losses, "id", "name", "input")
    given = block.members.get("input")
    arguments = msgspec.json.encode({} if given is None else given).decode()
    return Call(block.need("id"), block.need("name"), arguments)


def _tool_result(block: Node, losses: Losses) -> Result:
    _known(block, losses, "tool_use_id", "content", "is_error")
    parts = returned(read_returned(block, "content", RETURNED, losses))
    return Result(block.need("tool_use_id"), parts, bool(block.flag("is_error")))


def _inner_text(source: Node) -> File | None:
    content = source.content("content")
    if isinstance(content, str):
        return File(text=content)
    if any(block.text("type") != "text" for block in content):
        # Of a document with pictures the words alone would be another one.
        return None
    return File(text="\n\n".join(block.text("text") for block in content))


SOURCES: dict[str, Callable[[Node], File | None]] = {
    "base64": lambda source: File(media_type=source.text("media_type"), data=source.need("data")),
    "url": lambda source: File(url=source.need("url")),
    "text": lambda source: File(text=source.need("data")),
    "content": _inner_text,
}
INSTRUCTED: Table = {"text": _text}
RETURNED: Table = {
    "text": _text,
    "image": _image,
    "document": _document,
    "search_result": _search_result,
}
SAID: Table = {**RETURNED, "tool_result": _tool_result}
ANSWERED: Table = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _tool_use,
}
ROLES: dict[str, tuple[Table, Otherwise]] = {
    "system": (INSTRUCTED, leave_out),
    "user": (SAID, refuse),
    "assistant": (ANSWERED, leave_out),
}


def _tools(request: Node, losses: Losses) -> tuple[tuple[Tool, ...], Choice | None, bool | None]:
    declared = [_tool(node, losses) for node in request.nodes("tools")]
    tools = tuple(tool for tool in declared if tool is not None)
    asked = request.inner("tool_choice")
    # The other dialects say the same in one word, or by naming the tool.
    word = CHOICES.get(asked.text("type")) or request.members.get("tool_choice")
    tools, choice = choose(Node({"tool_choice": word}), "tool_choice", tools)
    alone = asked.flag("disable_parallel_tool_use")
    return tools, choice, None if alone is None else not alone


def _tool(node: Node, losses: Losses) -> Tool | None:
    kind = node.text("type")
    if kind not in ("", "custom"):
        losses.add(f"tools.{kind}")
        return None
    losses.beside(node, KNOWN_TOOL, "tools")
    schema = node.node("input_schema") or Node({})
    return Tool(node.need("name"), node.text("description"), schema.members, node.flag("strict"))
