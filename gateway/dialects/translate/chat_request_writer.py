"""Writing the canonical form as a Chat Completions request.

The canonical history is in order (see `history.py`): every call has its result in the user's
message right after it. Here that becomes top-level `tool_calls` of one assistant message, and one
message of the role `tool` for each result, before anything else that the user says: upstreams
refuse a history in which something stands between a call and its results. No content part is ever
of type `tool_use`, `tool_call` or `tool_result`.

Servers of this dialect differ more than those of the others, so all that is particular is asked of
the profile: which member limits the tokens, which members are refused, whether pictures are taken.
What the model or the upstream can do without is left out and named; what the user gave and the
upstream cannot be shown is refused, since the answer would be wrong without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gateway.dialects.canonical import (
    Call,
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
from gateway.dialects.openai_chat.signatures import choose_signatures, write_signature
from gateway.dialects.translate.content_parts import (
    ERROR_MARK,
    UNNAMED,
    file_text,
    file_url,
    image_url,
    note_left_out,
)
from gateway.dialects.translate.history import fit_id, texts
from gateway.dialects.translate.json_format import Format
from gateway.dialects.translate.request_writer import (
    Members,
    OpenAIRequestWriter,
    describe_tool,
    present,
)
from gateway.dialects.translate.tools import as_arguments, as_function, results_first
from gateway.errors import BadRequest

Media = Image | File

# OpenAI refuses longer ones; ids of other dialects may be.
LONGEST_ID = 40
LONGEST_USER = 64
PARAGRAPH = "\n\n"


class ChatRequestWriter(OpenAIRequestWriter):
    """Writes one request."""

    def _members(self) -> Members:
        conversation = self._conversation
        asked, system = self._format()
        # Several system messages are not taken by every server.
        first = [{"role": "system", "content": PARAGRAPH.join(system)}] if system else []
        return {
            "model": conversation.model,
            "messages": [*first, *self._messages()],
            "stream": conversation.stream,
            "stream_options": self._stream_options(),
            **self._tools(),
            self._profile.max_tokens: conversation.max_tokens,
            "temperature": conversation.temperature,
            "top_p": conversation.top_p,
            "stop": list(conversation.stop) or None,
            **self._effort_members(),
            "response_format": asked,
            "user": fit_id(conversation.user, LONGEST_USER) or None,
            "metadata": conversation.metadata or None,
        }

    def _keeps(self, name: str, value: object) -> bool:
        if value is None:
            return False
        if name in self._profile.leaves_out:
            self._losses.add(name)
            return False
        return True

    def _stream_options(self) -> Members | None:
        # Clients of the other dialects are always told the usage, and here it has to be asked for.
        asks = self._conversation.stream and self._conversation.wants_usage
        return {"include_usage": True} if asks and not self._profile.always_reports else None

    def _effort_members(self) -> Members:
        form, effort = self._effort()
        return {form: EFFORT_MEMBERS[form](effort)} if effort else {}

    def _schema(self, asked: Format) -> Members:
        return {"type": "json_schema", "json_schema": asked}

    def _tools(self) -> Members:
        choice = self._conversation.choice
        if self._conversation.tools and choice and choice.kind not in self._profile.choices:
            if choice.kind == "none":
                # Where it cannot be forbidden to call a tool, none is offered.
                return {}
            raise BadRequest(
                "This model's upstream cannot be made to call a tool.", param="tool_choice"
            )
        return super()._tools()

    def _force_tool(self, name: str) -> Members:
        return {"type": "function", "function": {"name": name}}

    def _tool(self, tool: Tool) -> Members:
        # Few servers of this dialect know custom tools, so they are all offered as functions.
        tool = as_function(tool)
        function = describe_tool(tool) | {"parameters": tool.schema}
        if tool.strict is not None and "strict" not in self._profile.leaves_out:
            function["strict"] = tool.strict
        elif tool.strict:
            self._losses.add("strict")
        return {"type": "function", "function": function}

    def _messages(self) -> Iterator[Members]:
        for message in self._conversation.messages:
            if message.role == "system":
                yield {"role": "system", "content": _join_texts(message.parts)}
            elif message.role == "user":
                yield from self._write_user(message)
            else:
                yield from self._write_assistant(message)

    def _write_user(self, message: Message) -> Iterator[Members]:
        results, said = results_first(message.parts)
        shown: list[Part] = []
        for result in results:
            yield self._write_result(result)
            shown += [p for p in result.parts if not isinstance(p, Text) and self._can_show(p)]
        if shown or said:
            # A `tool` message takes text only: the pictures a tool returned are shown by the user,
            # and stand before what the user says about them.
            yield {"role": "user", "content": self._content((*shown, *said))}

    def _write_result(self, result: Result) -> Members:
        content = "\n".join(map(self._describe, result.parts))
        # There is no member that says a tool failed, so the text does.
        content = ERROR_MARK + content if result.is_error else content
        call_id = fit_id(result.call_id, LONGEST_ID)
        return {"role": "tool", "tool_call_id": call_id, "content": content}

    def _describe(self, part: Text | Media) -> str:
        """Return a part of a result as text; for what is shown elsewhere, where to look for it."""
        if isinstance(part, Text):
            return part.text
        kind = type(part).__name__.lower()
        if self._can_show(part):
            return f"[{kind}: see below]"
        if isinstance(part, File) and (text := file_text(part)):
            return text
        # The model can go on without it if it knows that something was there.
        return note_left_out(kind, self._losses).text

    def _can_show(self, part: Media) -> bool:
        if self._profile.text_only:
            return False
        # There is no member for a file's address; a file of plain text is told as text.
        return isinstance(part, Image) or bool((part.data or part.id) and not file_text(part))

    def _content(self, parts: tuple[Part, ...]) -> str | list[Members]:
        shown = [_as_text(part) for part in parts]
        if all(isinstance(part, Text) for part in shown):
            # One text is understood everywhere, a list of parts is not.
            return _join_texts(shown)
        return [self._part(part) for part in shown if part != Text("")]

    def _part(self, part: Part) -> Members:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        assert isinstance(part, Image | File)
        if not self._can_show(part):
            kind = type(part).__name__.lower()
            raise BadRequest(f"This model's upstream cannot be shown the {kind}.")
        return _image(part) if isinstance(part, Image) else _file(part)

    def _write_assistant(self, message: Message) -> Iterator[Members]:
        calls = self._calls([part for part in message.parts if isinstance(part, Call)])
        refusal = PARAGRAPH.join(p.text for p in message.parts if isinstance(p, Refusal))
        text = _join_texts(message.parts)
        thoughts = [part for part in message.parts if isinstance(part, Reasoning)]
        if not (calls or refusal or text):
            # A turn that only thought would be a message without content, which is refused.
            self._losses.add("reasoning")
            return
        written: Members = {"role": "assistant", "content": text or self._profile.empty}
        reasoning = self._reasoning(thoughts, bool(calls))
        yield written | reasoning | present(refusal=refusal, tool_calls=calls)

    def _calls(self, calls: list[Call]) -> list[Members]:
        written = [_call(call) for call in calls]
        placeholder = self._profile.call_signature
        if not placeholder:
            return written
        chosen = choose_signatures([call.signature for call in calls], placeholder)
        return [
            call | write_signature(signature) if signature else call
            for call, signature in zip(written, chosen, strict=True)
        ]

    def _reasoning(self, thoughts: list[Reasoning], calls: bool) -> Members:
        """Return the reasoning of a turn: only some upstreams take it back, by a name of theirs."""
        text = PARAGRAPH.join(part.text for part in thoughts if part.text)
        name, filler = self._profile.reasoning, self._profile.reasoning_filler
        if thoughts and not (name and text):
            self._losses.add("reasoning")
        # Who wants it back with every call gets a filler where another upstream did the thinking.
        text = text or (filler if calls else "")
        return {name: text} if name and text else {}


EFFORT_MEMBERS: dict[str, Any] = {
    "reasoning_effort": lambda effort: effort,
    "reasoning": lambda effort: {"effort": effort},
    "thinking": lambda effort: {"type": "disabled" if effort == "none" else "enabled"},
}


def _join_texts(parts: Iterable[Part]) -> str:
    return PARAGRAPH.join(text for text in texts(parts) if text)


def _as_text(part: Part) -> Part:
    text = file_text(part) if isinstance(part, File) else ""
    return Text(text) if text else part


def _image(image: Image) -> Members:
    inner = {"url": image_url(image)} | present(detail=image.detail)
    return {"type": "image_url", "image_url": inner}


def _file(file: File) -> Members:
    if file.id:
        return {"type": "file", "file": {**present(filename=file.name), "file_id": file.id}}
    # OpenAI takes no bytes without a name.
    inner = {"filename": file.name or UNNAMED, "file_data": file_url(file)}
    return {"type": "file", "file": inner}


def _call(call: Call) -> Members:
    return {
        "id": fit_id(call.id, LONGEST_ID),
        "type": "function",
        "function": {"name": call.name, "arguments": as_arguments(call)},
    }
