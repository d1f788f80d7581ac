"""Writing the canonical form as a Responses request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from gateway.dialects.canonical import (
    Call,
    Conversation,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Result,
    Text,
    Tool,
)
from gateway.dialects.profiles import Profile, form_for
from gateway.dialects.translate.content_parts import (
    ERROR_MARK,
    UNNAMED,
    file_text,
    file_url,
    image_url,
)
from gateway.dialects.translate.effort import nearest
from gateway.dialects.translate.history import fit_id
from gateway.dialects.translate.json_format import describe_format, name_format
from gateway.dialects.translate.json_node import Losses
from gateway.dialects.translate.tools import as_function, custom_calls

Members = dict[str, Any]

LONGEST_ID = 64
LONGEST_USER = 64
LEAST_TOKENS = 16
ENCRYPTED = "reasoning.encrypted_content"


def write_responses(conversation: Conversation, profile: Profile, losses: Losses) -> bytes:
    """Write a request; what cannot be told is named, or refused by `BadRequest`."""
    return msgspec.json.encode(_ResponsesRequestWriter(conversation, profile, losses).request())


class _ResponsesRequestWriter:
    """Writes one request."""

    def __init__(self, conversation: Conversation, profile: Profile, losses: Losses) -> None:
        self._conversation = conversation
        self._profile = profile
        self._losses = losses
        self._custom = custom_calls(conversation)

    def request(self) -> Members:
        """Return the whole of it."""
        said = self._conversation
        asked, system = self._format()
        if said.stop:
            self._losses.add("stop")
        members: Members = {
            "model": said.model,
            "instructions": system[0] if system else None,
            "input": [*map(_instruction, system[1:]), *self._items()],
            # Some servers stream where it is not said.
            "stream": said.stream,
            # The client's dialect has no way to ask for what is stored.
            "store": False,
            **self._tools(),
            "max_output_tokens": self._max_tokens(),
            "temperature": said.temperature,
            "top_p": said.top_p,
            **self._effort(),
            "text": asked,
            "user": fit_id(said.user, LONGEST_USER) or None,
            "metadata": said.metadata or None,
        }
        return {name: value for name, value in members.items() if value is not None}

    def _max_tokens(self) -> int | None:
        most = self._conversation.max_tokens
        return None if most is None else max(most, LEAST_TOKENS)

    def _format(self) -> tuple[Members | None, tuple[str, ...]]:
        """Return the format that is asked for, and the instructions that stand in for the rest."""
        asked, system = self._conversation.format, self._conversation.system
        if asked is None:
            return None, system
        if not asked:
            return {"format": {"type": "json_object"}}, system
        if self._profile.schemas:
            return {"format": {"type": "json_schema", **name_format(asked)}}, system
        self._losses.add("format")
        return {"format": {"type": "json_object"}}, (*system, describe_format(asked))

    def _effort(self) -> Members:
        said, profile = self._conversation, self._profile
        form = form_for(profile.effort, said.model)
        effort = nearest(said.effort, profile.efforts) if said.effort and form else ""
        if effort:
            # Nothing is stored, so the reasoning comes along if it is asked for.
            include = {} if effort == "none" else {"include": [ENCRYPTED]}
            return {"reasoning": {"effort": effort}, **include}
        if said.effort:
            self._losses.add("effort")
        return {}

    def _tools(self) -> Members:
        said = self._conversation
        if not said.tools:
            return {}
        return {
            "tools": [_custom_tool(tool) if tool.custom else _tool(tool) for tool in said.tools],
            "tool_choice": self._choice(),
            "parallel_tool_calls": said.parallel,
        }

    def _choice(self) -> Any:
        choice = self._conversation.choice
        if choice is None or choice.kind != "tool":
            return choice.kind if choice else None
        custom = any(tool.custom for tool in self._conversation.tools if tool.name == choice.name)
        return {"type": "custom" if custom else "function", "name": choice.name}

    def _items(self) -> Iterator[Members]:
        for message in self._conversation.messages:
            if message.role == "system":
                yield _message("developer", map(_input, message.parts))
            elif message.role == "assistant":
                yield from self._answered(message)
            else:
                yield from self._said_by_user(message)

    def _said_by_user(self, message: Message) -> Iterator[Members]:
        content: list[Members] = []
        for part in message.parts:
            if isinstance(part, Result):
                yield self._returned(part)
            else:
                content.append(_input(part))
        if content:
            yield _message("user", content)

    def _answered(self, message: Message) -> Iterator[Members]:
        """Write one item a part, but one message for texts in a row."""
        content: list[Members] = []
        for part in message.parts:
            if isinstance(part, Text | Refusal):
                content.append(_output(part))
                continue
            if content:
                yield _message("assistant", content)
                content = []
            yield from self._made(part)
        if content:
            yield _message("assistant", content)

    def _made(self, part: Part) -> Iterator[Members]:
        if isinstance(part, Call):
            yield _call(part)
        elif isinstance(part, Reasoning) and part.encrypted and not part.redacted:
            yield _reasoning(part)
        else:
            self._losses.add("reasoning")

    def _returned(self, result: Result) -> Members:
        kind = "custom_tool_call_output" if result.call_id in self._custom else OUTPUT
        call_id = fit_id(result.call_id, LONGEST_ID)
        return {"type": kind, "call_id": call_id, "output": self._outcome(result)}

    def _outcome(self, result: Result) -> str | list[Members]:
        parts = _marked(result.parts) if result.is_error else result.parts
        match parts:
            case ():
                return ""
            case (Text(text),):
                return text
        return [_input(part) for part in parts]


OUTPUT = "function_call_output"


def _marked(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    match parts:
        case (Text(text), *rest):
            return (Text(ERROR_MARK + text), *rest)
    return (Text(ERROR_MARK), *parts)


def _message(role: str, content: Iterable[Members]) -> Members:
    return {"type": "message", "role": role, "content": list(content)}


def _instruction(text: str) -> Members:
    return _message("developer", [{"type": "input_text", "text": text}])


def _input(part: Part) -> Members:
    return INPUTS[type(part)](part)


def _text(text: Text) -> Members:
    return {"type": "input_text", "text": text.text}


def _image(image: Image) -> Members:
    detail = image.detail or "auto"
    return {"type": "input_image", "image_url": image_url(image), "detail": detail}


def _file(file: File) -> Members:
    if text := file_text(file):
        return {"type": "input_text", "text": text}
    name = {"filename": file.name} if file.name else {}
    if file.id:
        return {"type": "input_file", **name, "file_id": file.id}
    if file.url:
        return {"type": "input_file", "file_url": file.url}
    return {"type": "input_file", "filename": file.name or UNNAMED, "file_data": file_url(file)}


INPUTS: dict[type[Part], Callable[[Any], Members]] = {Text: _text, Image: _image, File: _file}


def _output(part: Text | Refusal) -> Members:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    return {"type": "output_text", "text": part.text}


def _call(call: Call) -> Members:
    named = {"call_id": fit_id(call.id, LONGEST_ID), "name": call.name}
    if call.custom:
        return {"type": "custom_tool_call", **named, "input": call.arguments}
    return {"type": "function_call", **named, "arguments": call.arguments}


def _reasoning(part: Reasoning) -> Members:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    item = {"type": "reasoning", "summary": summary, "encrypted_content": part.encrypted}
    return {"id": part.id, **item} if part.id else item


def _tool(tool: Tool) -> Members:
    function = as_function(tool)
    written: Members = {"type": "function", "name": tool.name}
    if tool.description:
        written["description"] = tool.description
    # Absent, it would mean: if possible.
    return written | {"parameters": function.schema, "strict": bool(tool.strict)}


def _custom_tool(tool: Tool) -> Members:
    written: Members = {"type": "custom", "name": tool.name}
    if tool.description:
        written["description"] = tool.description
    return written | {"format": {"type": "grammar", **tool.schema}} if tool.schema else written
