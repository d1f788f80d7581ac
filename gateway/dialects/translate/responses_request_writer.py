"""Writing the canonical form as a Responses request.

Here a turn is a row of items instead of one message: each call, result and thought is an item of
its own, and only texts in a row make a message. Nothing is stored with the upstream, so the whole
history is sent each time, and reasoning travels with it, encrypted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
from gateway.dialects.profiles import Profile
from gateway.dialects.translate.content_parts import (
    ERROR_MARK,
    UNNAMED,
    file_text,
    file_url,
    image_url,
)
from gateway.dialects.translate.history import fit_id
from gateway.dialects.translate.json_format import Format
from gateway.dialects.translate.json_node import Losses
from gateway.dialects.translate.request_writer import (
    Members,
    OpenAIRequestWriter,
    describe_tool,
    present,
)
from gateway.dialects.translate.tools import as_function, custom_calls

LONGEST_ID = 64
LONGEST_USER = 64
# The upstream refuses less.
LEAST_TOKENS = 16
ENCRYPTED = "reasoning.encrypted_content"


class ResponsesRequestWriter(OpenAIRequestWriter):
    """Writes one request."""

    def __init__(self, conversation: Conversation, profile: Profile, losses: Losses) -> None:
        super().__init__(conversation, profile, losses)
        self._custom_ids = custom_calls(conversation)

    def _members(self) -> Members:
        conversation = self._conversation
        asked, system = self._format()
        more = [_message("developer", [_input(Text(text))]) for text in system[1:]]
        most = conversation.max_tokens
        if conversation.stop:
            # There is no member for it.
            self._losses.add("stop")
        return {
            "model": conversation.model,
            "instructions": system[0] if system else None,
            "input": [*more, *self._items()],
            # Some servers stream where it is not said.
            "stream": conversation.stream,
            # The client's dialect has no way to ask for what is stored.
            "store": False,
            **self._tools(),
            "max_output_tokens": None if most is None else max(most, LEAST_TOKENS),
            "temperature": conversation.temperature,
            "top_p": conversation.top_p,
            **self._effort_members(),
            "text": asked and {"format": asked},
            "user": fit_id(conversation.user, LONGEST_USER) or None,
            "metadata": conversation.metadata or None,
        }

    def _schema(self, asked: Format) -> Members:
        return {"type": "json_schema", **asked}

    def _effort_members(self) -> Members:
        _, effort = self._effort()
        if not effort:
            return {}
        # Nothing is stored, so the reasoning comes along if it is asked for.
        include = {} if effort == "none" else {"include": [ENCRYPTED]}
        return {"reasoning": {"effort": effort}, **include}

    def _tool(self, tool: Tool) -> Members:
        if tool.custom:
            grammar = {"format": {"type": "grammar", **tool.schema}} if tool.schema else {}
            return {"type": "custom", **describe_tool(tool), **grammar}
        # Absent, `strict` would mean: if possible.
        schema = {"parameters": as_function(tool).schema, "strict": bool(tool.strict)}
        return {"type": "function", **describe_tool(tool), **schema}

    def _force_tool(self, name: str) -> Members:
        custom = any(tool.custom for tool in self._conversation.tools if tool.name == name)
        return {"type": "custom" if custom else "function", "name": name}

    def _items(self) -> Iterator[Members]:
        for message in self._conversation.messages:
            if message.role == "system":
                yield _message("developer", map(_input, message.parts))
            elif message.role == "assistant":
                yield from self._write_assistant(message)
            else:
                yield from self._write_user(message)

    def _write_user(self, message: Message) -> Iterator[Members]:
        content: list[Members] = []
        for part in message.parts:
            if isinstance(part, Result):
                yield self._write_result(part)
            else:
                content.append(_input(part))
        if content:
            yield _message("user", content)

    def _write_assistant(self, message: Message) -> Iterator[Members]:
        """Write one item a part, but one message for texts in a row."""
        content: list[Members] = []
        for part in message.parts:
            if isinstance(part, Text | Refusal):
                content.append(_output(part))
                continue
            if content:
                yield _message("assistant", content)
                content = []
            yield from self._write_item(part)
        if content:
            yield _message("assistant", content)

    def _write_item(self, part: Part) -> Iterator[Members]:
        if isinstance(part, Call):
            yield _call(part)
        elif isinstance(part, Reasoning) and part.encrypted and not part.redacted:
            yield _reasoning(part)
        else:
            # Without its proof a thought is refused, and another dialect's proof proves nothing.
            self._losses.add("reasoning")

    def _write_result(self, result: Result) -> Members:
        is_custom = result.call_id in self._custom_ids
        return {
            "type": "custom_tool_call_output" if is_custom else "function_call_output",
            "call_id": fit_id(result.call_id, LONGEST_ID),
            "output": _outcome(result),
        }


def _outcome(result: Result) -> str | list[Members]:
    parts: tuple[Part, ...] = result.parts
    if result.is_error:
        # There is no member that says a tool failed, so the text does.
        match parts:
            case (Text(text), *rest):
                parts = (Text(ERROR_MARK + text), *rest)
            case _:
                parts = (Text(ERROR_MARK), *parts)
    match parts:
        case ():
            return ""
        case (Text(text),):
            return text
    return [_input(part) for part in parts]


def _message(role: str, content: Iterable[Members]) -> Members:
    return {"type": "message", "role": role, "content": list(content)}


def _input(part: Part) -> Members:
    match part:
        case Text(text):
            return {"type": "input_text", "text": text}
        case Image():
            detail = part.detail or "auto"
            return {"type": "input_image", "image_url": image_url(part), "detail": detail}
    assert isinstance(part, File)
    if text := file_text(part):
        return {"type": "input_text", "text": text}
    if part.id:
        return {"type": "input_file", **present(filename=part.name), "file_id": part.id}
    if part.url:
        return {"type": "input_file", "file_url": part.url}
    return {"type": "input_file", "filename": part.name or UNNAMED, "file_data": file_url(part)}


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
