"""Writing the canonical form as a Chat Completions request.

Calls are top-level `tool_calls` of one assistant message, and what tools returned are messages of
their own: no content part is ever of type `tool_use`, `tool_call` or `tool_result`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    note_left_out,
)
from gateway.dialects.translate.effort import nearest
from gateway.dialects.translate.history import fit_id, texts
from gateway.dialects.translate.json_format import describe_format, name_format
from gateway.dialects.translate.json_node import Losses
from gateway.dialects.translate.tools import as_arguments, as_function, results_first
from gateway.errors import BadRequest

Members = dict[str, Any]
Media = Image | File

LONGEST_ID = 40
LONGEST_USER = 64


def write_chat(conversation: Conversation, profile: Profile, losses: Losses) -> bytes:
    """Write a request; what cannot be told is named, or refused by `BadRequest`."""
    return msgspec.json.encode(_ChatRequestWriter(conversation, profile, losses).request())


class _ChatRequestWriter:
    """Writes one request."""

    def __init__(self, conversation: Conversation, profile: Profile, losses: Losses) -> None:
        self._conversation = conversation
        self._profile = profile
        self._losses = losses

    def request(self) -> Members:
        """Return the whole of it."""
        said = self._conversation
        asked, system = self._format()
        members: Members = {
            "model": said.model,
            "messages": [*_instructions(system), *self._messages()],
            "stream": said.stream,
            "stream_options": self._stream_options(),
            **self._tools(),
            self._profile.max_tokens: said.max_tokens,
            "temperature": said.temperature,
            "top_p": said.top_p,
            "stop": list(said.stop) or None,
            **self._effort(),
            "response_format": asked,
            "user": fit_id(said.user, LONGEST_USER) or None,
            "metadata": said.metadata or None,
        }
        return {name: value for name, value in members.items() if self._keeps(name, value)}

    def _keeps(self, name: str, value: object) -> bool:
        if value is None:
            return False
        if name in self._profile.leaves_out:
            self._losses.add(name)
            return False
        return True

    def _stream_options(self) -> Members | None:
        asks = self._conversation.stream and self._conversation.wants_usage
        return {"include_usage": True} if asks and not self._profile.always_reports else None

    def _format(self) -> tuple[Members | None, tuple[str, ...]]:
        """Return the format that is asked for, and the instructions that stand in for the rest."""
        asked, system = self._conversation.format, self._conversation.system
        if asked is None:
            return None, system
        if not asked:
            return {"type": "json_object"}, system
        if self._profile.schemas:
            return {"type": "json_schema", "json_schema": name_format(asked)}, system
        self._losses.add("format")
        return {"type": "json_object"}, (*system, describe_format(asked))

    def _effort(self) -> Members:
        said, profile = self._conversation, self._profile
        form = form_for(profile.effort, said.model)
        effort = nearest(said.effort, profile.efforts) if said.effort and form else ""
        if not effort:
            if said.effort:
                self._losses.add("effort")
            return {}
        return {form: EFFORT_MEMBERS[form](effort)}

    def _tools(self) -> Members:
        said, profile = self._conversation, self._profile
        choice = said.choice
        if not said.tools:
            return {}
        if choice and choice.kind not in profile.choices:
            if choice.kind == "none":
                # Where it cannot be forbidden to call a tool, none is offered.
                return {}
            raise BadRequest(
                "This model's upstream cannot be made to call a tool.", param="tool_choice"
            )
        return {
            "tools": [self._tool(as_function(tool)) for tool in said.tools],
            "tool_choice": self._choice(),
            "parallel_tool_calls": said.parallel,
        }

    def _choice(self) -> Any:
        choice = self._conversation.choice
        if choice is None or choice.kind != "tool":
            return choice.kind if choice else None
        return {"type": "function", "function": {"name": choice.name}}

    def _tool(self, tool: Tool) -> Members:
        function: Members = {"name": tool.name}
        if tool.description:
            function["description"] = tool.description
        function["parameters"] = tool.schema
        if tool.strict is not None and "strict" not in self._profile.leaves_out:
            function["strict"] = tool.strict
        elif tool.strict:
            self._losses.add("strict")
        return {"type": "function", "function": function}

    def _messages(self) -> Iterator[Members]:
        for message in self._conversation.messages:
            yield from WRITERS[message.role](self, message)

    def _system(self, message: Message) -> Iterator[Members]:
        yield {"role": "system", "content": _joined(message.parts)}

    def _user(self, message: Message) -> Iterator[Members]:
        results, said = results_first(message.parts)
        shown: list[Part] = []
        for result in results:
            yield self._returned(result)
            shown += self._shown(result)
        if shown or said:
            yield {"role": "user", "content": self._content((*shown, *said))}

    def _returned(self, result: Result) -> Members:
        told = "\n".join(map(self._in_words, result.parts))
        content = ERROR_MARK + told if result.is_error else told
        call_id = fit_id(result.call_id, LONGEST_ID)
        return {"role": "tool", "tool_call_id": call_id, "content": content}

    def _in_words(self, part: Text | Media) -> str:
        if isinstance(part, Text):
            return part.text
        kind = type(part).__name__.lower()
        if self._can_show(part):
            return f"[{kind}: see below]"
        if isinstance(part, File) and (text := file_text(part)):
            return text
        return note_left_out(kind, self._losses).text

    def _shown(self, result: Result) -> list[Part]:
        """Return what a tool returned that only a user can show."""
        return [p for p in result.parts if not isinstance(p, Text) and self._can_show(p)]

    def _can_show(self, part: Media) -> bool:
        if self._profile.text_only:
            return False
        return isinstance(part, Image) or bool((part.data or part.id) and not file_text(part))

    def _content(self, parts: tuple[Part, ...]) -> str | list[Members]:
        told = [_as_text(part) for part in parts]
        if all(isinstance(part, Text) for part in told):
            return _joined(told)
        return [self._part(part) for part in told if part != Text("")]

    def _part(self, part: Part) -> Members:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        assert isinstance(part, Image | File)
        if not self._can_show(part):
            kind = type(part).__name__.lower()
            raise BadRequest(f"This model's upstream cannot be shown the {kind}.")
        return _image(part) if isinstance(part, Image) else _file(part)

    def _assistant(self, message: Message) -> Iterator[Members]:
        calls = [_call(part) for part in message.parts if isinstance(part, Call)]
        refusal = "\n\n".join(p.text for p in message.parts if isinstance(p, Refusal))
        text = _joined(message.parts)
        thought = [part for part in message.parts if isinstance(part, Reasoning)]
        if not (calls or refusal or text):
            self._losses.add("reasoning")
            return
        written: Members = {"role": "assistant", "content": text or self._profile.empty}
        reasoning = self._reasoning(thought, bool(calls))
        yield written | reasoning | _present(refusal=refusal, tool_calls=calls)

    def _reasoning(self, thought: list[Reasoning], calls: bool) -> Members:
        text = "\n\n".join(part.text for part in thought if part.text)
        name, filler = self._profile.reasoning, self._profile.reasoning_filler
        if thought and not (name and text):
            self._losses.add("reasoning")
        text = text or (filler if calls else "")
        return {name: text} if name and text else {}


WRITERS = {
    "system": _ChatRequestWriter._system,
    "user": _ChatRequestWriter._user,
    "assistant": _ChatRequestWriter._assistant,
}

EFFORT_MEMBERS: dict[str, Any] = {
    "reasoning_effort": lambda effort: effort,
    "reasoning": lambda effort: {"effort": effort},
    "thinking": lambda effort: {"type": "disabled" if effort == "none" else "enabled"},
}


def _instructions(system: tuple[str, ...]) -> list[Members]:
    return [{"role": "system", "content": "\n\n".join(system)}] if system else []


def _joined(parts: Iterable[Part]) -> str:
    return "\n\n".join(text for text in texts(parts) if text)


def _present(**members: Any) -> Members:
    return {name: value for name, value in members.items() if value}


def _as_text(part: Part) -> Part:
    text = file_text(part) if isinstance(part, File) else ""
    return Text(text) if text else part


def _image(image: Image) -> Members:
    inner = {"url": image_url(image)} | _present(detail=image.detail)
    return {"type": "image_url", "image_url": inner}


def _file(file: File) -> Members:
    if file.id:
        return {"type": "file", "file": {**_present(filename=file.name), "file_id": file.id}}
    # OpenAI takes no bytes without a name.
    inner = {"filename": file.name or UNNAMED, "file_data": file_url(file)}
    return {"type": "file", "file": inner}


def _call(call: Call) -> Members:
    return {
        "id": fit_id(call.id, LONGEST_ID),
        "type": "function",
        "function": {"name": call.name, "arguments": as_arguments(call)},
    }
