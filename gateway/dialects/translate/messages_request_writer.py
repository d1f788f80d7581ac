"""Writing the canonical form as a Messages request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from gateway.dialects.translate.content_parts import PDF, note_left_out, readable_file
from gateway.dialects.translate.effort import budget_of, nearest
from gateway.dialects.translate.history import fit_id, merge_turns, texts
from gateway.dialects.translate.json_format import describe_format
from gateway.dialects.translate.json_node import Losses
from gateway.dialects.translate.tools import FORCING, as_function, as_object
from gateway.errors import BadRequest

Members = dict[str, Any]

MAX_TOKENS = 8192
HOTTEST = 1.0
LONGEST_ID = 128
LONGEST_USER = 256
ID_CHARACTERS = "_-"
EFFORTS = ("low", "medium", "high")
CHOICES = {"auto": "auto", "none": "none", "required": "any", "tool": "tool"}
DOT = Text(".")
# What is written in data URLs, and what it is called here.
PICTURES = {"image/jpg": "image/jpeg"}


def write_messages(conversation: Conversation, profile: Profile, losses: Losses) -> bytes:
    """Write a request; what cannot be told is named, or refused by `BadRequest`."""
    return msgspec.json.encode(_MessagesRequestWriter(conversation, profile, losses).request())


class _MessagesRequestWriter:
    """Writes one request."""

    def __init__(self, conversation: Conversation, profile: Profile, losses: Losses) -> None:
        self._conversation = conversation
        self._profile = profile
        self._losses = losses

    def request(self) -> Members:
        """Return the whole of it."""
        said = self._conversation
        asked, system = self._format()
        thinking = self._thinking()
        if said.metadata:
            self._losses.add("metadata")
        members: Members = {
            "model": said.model,
            "max_tokens": MAX_TOKENS if said.max_tokens is None else said.max_tokens,
            "system": _system(system),
            "messages": [self._message(message) for message in self._turns()],
            "stream": said.stream,
            **self._tools(),
            **self._sampling("thinking" in thinking),
            "stop_sequences": list(said.stop) or None,
            "metadata": {"user_id": fit_id(said.user, LONGEST_USER)} if said.user else None,
            **thinking,
        }
        if asked:
            members["output_config"] = {**members.get("output_config", {}), "format": asked}
        return {name: value for name, value in members.items() if value is not None}

    def _sampling(self, thinks: bool) -> Members:
        """Say one thing about sampling, and none where there is thinking: more is refused."""
        asked = {"temperature": self._conversation.temperature, "top_p": self._conversation.top_p}
        present = [name for name, value in asked.items() if value is not None]
        takes = form_for(self._profile.sampling, self._conversation.model) and not thinks
        told = present[:1] if takes else []
        for name in present[len(told) :]:
            self._losses.add(name)
        # Temperatures go up to 2 elsewhere.
        return {name: min(asked[name] or 0, HOTTEST) for name in told}

    def _format(self) -> tuple[Members | None, tuple[str, ...]]:
        """Return the format that is asked for, and the instructions that stand in for it."""
        asked, system = self._conversation.format, self._conversation.system
        if asked is None:
            return None, system
        if asked.get("strict") and self._profile.schemas:
            return {"type": "json_schema", "schema": asked["schema"]}, system
        self._losses.add("format")
        return None, (*system, describe_format(asked))

    def _thinking(self) -> Members:
        """Say how much to think, unless the upstream would refuse the request for it."""
        said = self._conversation
        if said.effort in ("", "none"):
            return {}
        form = form_for(self._profile.thinking, said.model)
        forced = said.choice is not None and said.choice.kind in FORCING
        written = {} if forced else FORMS[form](self)
        if not written:
            self._losses.add("effort")
        return written

    def _adaptive(self) -> Members:
        effort = nearest(self._conversation.effort, EFFORTS)
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}

    def _budgeted(self) -> Members:
        said = self._conversation
        budget = budget_of(said.effort, said.max_tokens)
        if not budget or self._goes_on_without_thinking():
            return {}
        written: Members = {"thinking": {"type": "enabled", "budget_tokens": budget}}
        # The answer has room beside the thinking.
        return written if said.max_tokens else {**written, "max_tokens": MAX_TOKENS + budget}

    def _goes_on_without_thinking(self) -> bool:
        """Whether the turn that waits for its results did not begin with thinking."""
        turns = self._turns()
        if not turns or not isinstance(turns[-1].parts[0], Result):
            return False
        return not _is_proven(turns[-2].parts[0])

    def _unthinking(self) -> Members:
        return {}

    def _tools(self) -> Members:
        said = self._conversation
        if not said.tools:
            return {}
        written: Members = {"tools": [_tool(as_function(tool)) for tool in said.tools]}
        choice = said.choice
        if choice or said.parallel is False:
            written["tool_choice"] = {"type": CHOICES[choice.kind if choice else "auto"]}
        if choice and choice.kind == "tool":
            written["tool_choice"]["name"] = choice.name
        if said.parallel is not None and "tool_choice" in written and not _forbids(said):
            written["tool_choice"]["disable_parallel_tool_use"] = not said.parallel
        return written

    def _turns(self) -> tuple[Message, ...]:
        """Return the conversation as it can be told: begun by the user, and nothing empty."""
        told = [Message(_speaker(m), tuple(self._parts(m))) for m in self._conversation.messages]
        if not (told or self._conversation.system):
            return ()
        turns = merge_turns(told)
        if not turns or turns[0].role != "user":
            turns = (Message("user", (DOT,)), *turns)
        return merge_turns((*turns[:-1], self._last(turns[-1])))

    def _last(self, turn: Message) -> Message:
        """Return a last turn; the model cannot go on from thinking, nor from white space."""
        if turn.role != "assistant":
            return turn
        said = [part for part in turn.parts if isinstance(part, Text)]
        if len(said) < len(turn.parts):
            self._losses.add("reasoning")
        ended = [Text(part.text.rstrip()) for part in said[-1:]]
        return Message(turn.role, (*said[:-1], *ended))

    def _parts(self, message: Message) -> Iterable[Part]:
        if message.role == "system":
            return [Text(f"<system>\n{text}\n</system>") for text in texts(message.parts)]
        kept = [self._kept(part) for part in message.parts]
        return [part for part in kept if part is not None]

    def _kept(self, part: Part) -> Part | None:
        """Return what is told of a part: nothing of an empty text, nor of unproven reasoning."""
        if isinstance(part, Text | Refusal):
            return Text(part.text) if part.text.strip() else None
        if isinstance(part, Reasoning) and not _is_proven(part):
            self._losses.add("reasoning")
            return None
        return part

    def _message(self, message: Message) -> Members:
        match message.parts:
            case (Text(text),):
                return {"role": message.role, "content": text}
        return {"role": message.role, "content": [self._block(part) for part in message.parts]}

    def _block(self, part: Part) -> Members:
        return BLOCKS[type(part)](self, part)

    def _text(self, part: Text) -> Members:
        return {"type": "text", "text": part.text}

    def _reasoning(self, part: Reasoning) -> Members:
        if part.redacted:
            return {"type": "redacted_thinking", "data": part.encrypted}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}

    def _image(self, part: Image) -> Members:
        if part.detail:
            self._losses.add("image.detail")
        if part.url:
            return {"type": "image", "source": {"type": "url", "url": part.url}}
        kind = PICTURES.get(part.media_type, part.media_type)
        source = {"type": "base64", "media_type": kind, "data": part.data}
        return {"type": "image", "source": source}

    def _file(self, part: File) -> Members:
        if part.id:
            raise BadRequest(
                f"This model's upstream does not know the file `{part.id}`; send its content."
            )
        block: Members = {"type": "document", "source": _source(readable_file(part))}
        return block | {"title": part.name} if part.name else block

    def _call(self, part: Call) -> Members:
        given = as_object(part)
        if given is None:
            self._losses.add("arguments")
        call_id = fit_id(part.id, LONGEST_ID, ID_CHARACTERS)
        return {"type": "tool_use", "id": call_id, "name": part.name, "input": given or {}}

    def _returned(self, part: Part) -> Part:
        return note_left_out("file", self._losses) if isinstance(part, File) and part.id else part

    def _result(self, part: Result) -> Members:
        call_id = fit_id(part.call_id, LONGEST_ID, ID_CHARACTERS)
        block: Members = {"type": "tool_result", "tool_use_id": call_id}
        parts = [self._returned(inner) for inner in part.parts]
        match parts:
            case [Text(text)]:
                block["content"] = text
            case [_, *_]:
                block["content"] = [self._block(inner) for inner in parts if inner != Text("")]
        return block | {"is_error": True} if part.is_error else block


FORMS: dict[str, Callable[[_MessagesRequestWriter], Members]] = {
    "": _MessagesRequestWriter._unthinking,
    "adaptive": _MessagesRequestWriter._adaptive,
    "budget": _MessagesRequestWriter._budgeted,
}
BLOCKS: dict[type[Part], Callable[[_MessagesRequestWriter, Any], Members]] = {
    Text: _MessagesRequestWriter._text,
    Reasoning: _MessagesRequestWriter._reasoning,
    Image: _MessagesRequestWriter._image,
    File: _MessagesRequestWriter._file,
    Call: _MessagesRequestWriter._call,
    Result: _MessagesRequestWriter._result,
}


def _system(system: tuple[str, ...]) -> Any:
    if len(system) > 1:
        return [{"type": "text", "text": text} for text in system]
    return system[0] if system else None


def _tool(tool: Tool) -> Members:
    written: Members = {"name": tool.name, "input_schema": tool.schema}
    if tool.description:
        written["description"] = tool.description
    # Not every upstream of this dialect knows the member; absent, it means the same as false.
    return written | {"strict": True} if tool.strict else written


def _forbids(said: Conversation) -> bool:
    return said.choice is not None and said.choice.kind == "none"


def _speaker(message: Message) -> str:
    # Not every model takes instructions in the middle; in the user's turn they keep their place.
    return "assistant" if message.role == "assistant" else "user"


def _is_proven(part: Part) -> bool:
    return isinstance(part, Reasoning) and bool(part.signature or part.redacted)


def _source(file: File) -> Members:
    if file.text:
        return {"type": "text", "media_type": "text/plain", "data": file.text}
    if file.url:
        return {"type": "url", "url": file.url}
    return {"type": "base64", "media_type": file.media_type or PDF, "data": file.data}
