"""Tools: which of them is to be called, and custom ones where there are only functions.

A custom tool takes plain text. Where there are only functions it becomes one with a single string,
`input`; its calls in the history are written the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from gateway.dialects.canonical import Call, Choice, Conversation, Result, Tool
from gateway.dialects.events import read_object
from gateway.dialects.raw_json import is_too_deep
from gateway.dialects.translate.json_node import JsonNode, Losses
from gateway.errors import BadRequest

INPUT = "input"
INPUT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {INPUT: {"type": "string"}},
    "required": [INPUT],
    "additionalProperties": False,
}
CHOICES = ("auto", "none", "required")
FORCING = ("required", "tool")
DEEPEST = 128

Tools = tuple[Tool, ...]


def choose(request: JsonNode, name: str, tools: Tools) -> tuple[Tools, Choice | None]:
    """Read which tool is to be called, and return it with the tools that are to be offered.

    Forcing a tool that is not among them raises `BadRequest`.
    """
    asked = request.members.get(name)
    if isinstance(asked, dict) and asked.get("type") == "allowed_tools":
        tools, asked = _keep_allowed(JsonNode(asked, name), tools)
    return tools, _there(_choice(request, name, asked), {tool.name for tool in tools})


def _keep_allowed(choice: JsonNode, tools: Tools) -> tuple[Tools, str]:
    """Keep only what is allowed: the upstream need not know of the rest."""
    allowed = choice.node("allowed_tools") or choice
    names = {_name_in(node) for node in allowed.nodes("tools")}
    return tuple(tool for tool in tools if tool.name in names), allowed.text("mode") or "auto"


def _name_in(tool: JsonNode) -> str:
    """Return the name of a tool that is allowed; hosted ones may have none."""
    return (tool.node("function") or tool.node("custom") or tool).text("name")


def _find_name(choice: Mapping[str, Any]) -> Any:
    """Return the name of a tool, which chat completions put one level deeper."""
    inner = choice.get("function") or choice.get("custom") or choice
    return inner.get("name") if isinstance(inner, dict) else None


def _choice(request: JsonNode, name: str, asked: Any) -> Choice | None:
    if asked is None:
        return None
    if isinstance(asked, str) and asked in CHOICES:
        return Choice(asked)
    if isinstance(asked, dict):
        # A hosted tool is named by its type.
        chosen = _find_name(asked) or asked.get("type")
        if isinstance(chosen, str):
            return Choice("tool", chosen)
    raise request.invalid_member(name, "auto, none, required, or name a tool")


def _there(choice: Choice | None, names: set[str]) -> Choice | None:
    """Return the choice if there is something to choose; refuse to force what is not there."""
    if choice is None or choice.kind not in FORCING:
        return choice if names else None
    if choice.kind == "required" and not names:
        raise _not_there("a tool", "none can")
    if choice.kind == "tool" and choice.name not in names:
        raise _not_there(f"the tool `{choice.name}`", "it cannot")
    return choice


def _not_there(forced: str, it_can: str) -> BadRequest:
    return BadRequest(
        f"`tool_choice` forces {forced}, but {it_can} be offered to this model's upstream.",
        param="tool_choice",
    )


def read_tools(
    nodes: Iterable[JsonNode], read: Callable[[JsonNode, Losses], Tool | None], losses: Losses
) -> Tools:
    """Read the tools that are declared; for hosted ones, which are lost, `read` returns None."""
    declared = (read(node, losses) for node in nodes)
    return tuple(tool for tool in declared if tool is not None)


def read_function(
    node: JsonNode, schema: str, losses: Losses, beside: frozenset[str] = frozenset()
) -> Tool:
    """Read a function whose parameters are in `schema`; `beside` are members that are no loss."""
    losses.note_unknown(node, beside | {"name", "description", schema, "strict"}, "tools")
    parameters = node.inner(schema).members
    return Tool(node.require("name"), node.text("description"), parameters, node.flag("strict"))


def read_custom(node: JsonNode, inner: str = "") -> Tool:
    """Read a tool that takes plain text; Chat Completions put its grammar one level deeper."""
    asked, schema = node.inner("format"), {}
    if asked.text("type") == "grammar":
        grammar = asked.inner(inner) if inner else asked
        schema = {name: grammar.require(name) for name in ("syntax", "definition")}
    return Tool(node.require("name"), node.text("description"), schema, custom=True)


def as_function(tool: Tool) -> Tool:
    """Return a tool as a function with a schema."""
    if tool.custom:
        return Tool(tool.name, _with_grammar(tool), INPUT_SCHEMA)
    # OpenAI refuses an object that does not say what is in it, even if that is nothing.
    schema = {"type": "object", "properties": {}, **tool.schema}
    return Tool(tool.name, tool.description, schema, tool.strict)


def as_arguments(call: Call) -> str:
    """Return a call's arguments as those of a function."""
    if call.custom:
        return msgspec.json.encode({INPUT: call.arguments}).decode()
    return call.arguments


def as_object(call: Call) -> dict[str, Any] | None:
    """Return a call's arguments as an object; None if they are broken or something else."""
    if call.custom:
        return {INPUT: call.arguments}
    written = call.arguments.encode()
    arguments = read_object(written)
    return None if arguments is None or is_too_deep(written, DEEPEST) else arguments


def custom_calls(conversation: Conversation) -> frozenset[str]:
    """Return the ids of the calls of custom tools."""
    parts = (part for message in conversation.messages for part in message.parts)
    return frozenset(part.id for part in parts if isinstance(part, Call) and part.custom)


def results_first(parts: Iterable[Any]) -> tuple[tuple[Result, ...], tuple[Any, ...]]:
    """Part what tools returned from what the user says."""
    said = tuple(parts)
    results = tuple(part for part in said if isinstance(part, Result))
    return results, said[len(results) :]


def _with_grammar(tool: Tool) -> str:
    if not tool.schema:
        return tool.description
    syntax, definition = tool.schema["syntax"], tool.schema["definition"]
    grammar = f"The input must follow this {syntax} grammar:\n{definition}"
    return f"{tool.description}\n\n{grammar}".strip()
