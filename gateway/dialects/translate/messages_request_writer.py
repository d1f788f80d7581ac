"""Writing the canonical form as a Messages request.

This dialect is the strictest of the three. Turns of user and assistant alternate, and the user
begins; no text is empty; the results of a turn's calls come first in the next one; a last turn of
the model is gone on from, and may end neither in thinking nor in white space. Thinking is taken
back only with its signature, is not allowed where a tool is forced, and allows no word on sampling.
A request that breaks any of this is refused as a whole, so what does not fit is left out and named:
a client of another dialect cannot know these rules, and its conversation has to go on.

What the user gave (a document that only another upstream has) is never left out, but refused.
"""

from __future__ import annotations

from collections.abc import Iterable

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
from gateway.dialects.profiles import form_for
from gateway.dialects.translate.content_parts import PDF, note_left_out, readable_file
from gateway.dialects.translate.effort import budget_of, nearest
from gateway.dialects.translate.history import fit_id, merge_turns, texts
from gateway.dialects.translate.json_format import describe_format
from gateway.dialects.translate.request_writer import Members, RequestWriter, present
from gateway.dialects.translate.tools import FORCING, as_function, as_object
from gateway.errors import BadRequest

# The member must not be absent here: where the client sets no limit, the answer gets this one.
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


class MessagesRequestWriter(RequestWriter):
    """Writes one request."""

    def _members(self) -> Members:
        conversation = self._conversation
        asked, system = self._format()
        thinking = self._thinking()
        if conversation.metadata:
            self._losses.add("metadata")
        limit = conversation.max_tokens
        members: Members = {
            "model": conversation.model,
            "max_tokens": MAX_TOKENS if limit is None else limit,
            "system": _system(system),
            "messages": [self._message(message) for message in self._turns()],
            "stream": conversation.stream,
            **self._tools(),
            **self._sampling("thinking" in thinking),
            "stop_sequences": list(conversation.stop) or None,
            "metadata": present(user_id=fit_id(conversation.user, LONGEST_USER)) or None,
            # It may bring a limit of its own, so it stands last.
            **thinking,
        }
        if asked:
            members["output_config"] = {**members.get("output_config", {}), "format": asked}
        return members

    def _sampling(self, thinks: bool) -> Members:
        """Say one thing about sampling, and none where there is thinking: more is refused."""
        asked = {"temperature": self._conversation.temperature, "top_p": self._conversation.top_p}
        given = [name for name, value in asked.items() if value is not None]
        takes = form_for(self._profile.sampling, self._conversation.model) and not thinks
        kept = given[:1] if takes else []
        for name in given[len(kept) :]:
            self._losses.add(name)
        # Temperatures go up to 2 elsewhere.
        return {name: min(asked[name] or 0, HOTTEST) for name in kept}

    def _format(self) -> tuple[Members | None, tuple[str, ...]]:
        """Return the format that is asked for, and the instructions that stand in for it."""
        asked, system = self._conversation.format, self._conversation.system
        if asked is None:
            return None, system
        # Every schema is strict here: one that was not meant so might be refused.
        if asked.get("strict") and self._profile.schemas:
            return {"type": "json_schema", "schema": asked["schema"]}, system
        self._losses.add("format")
        return None, (*system, describe_format(asked))

    def _thinking(self) -> Members:
        """Say how much to think, unless the upstream would refuse the request for it."""
        effort, choice = self._conversation.effort, self._conversation.choice
        if effort in ("", "none"):
            return {}
        form = form_for(self._profile.thinking, self._conversation.model)
        written: Members = {}
        if choice is not None and choice.kind in FORCING:
            # A forced call leaves the model no room to think, so the two are refused together.
            pass
        elif form == "adaptive":
            output = {"effort": nearest(effort, EFFORTS)}
            written = {"thinking": {"type": "adaptive"}, "output_config": output}
        elif form == "budget":
            written = self._thinking_budget()
        if not written:
            self._losses.add("effort")
        return written

    def _thinking_budget(self) -> Members:
        limit = self._conversation.max_tokens
        budget = budget_of(self._conversation.effort, limit)
        if not budget or self._goes_on_without_thinking():
            return {}
        written: Members = {"thinking": {"type": "enabled", "budget_tokens": budget}}
        # The answer has room beside the thinking.
        return written if limit else {**written, "max_tokens": MAX_TOKENS + budget}

    def _goes_on_without_thinking(self) -> bool:
        """Whether the turn that waits for its results did not begin with thinking."""
        turns = self._turns()
        if not turns or not isinstance(turns[-1].parts[0], Result):
            return False
        return not _is_proven(turns[-2].parts[0])

    def _tools(self) -> Members:
        conversation, choice = self._conversation, self._conversation.choice
        if not conversation.tools:
            return {}
        written: Members = {"tools": [_tool(tool) for tool in conversation.tools]}
        kind = choice.kind if choice else "auto"
        if choice or conversation.parallel is False:
            # Parallel calls are a member of the choice here; there is none to forbid with `none`.
            written["tool_choice"] = {"type": CHOICES[kind]} | present(name=choice and choice.name)
            if conversation.parallel is not None and kind != "none":
                written["tool_choice"]["disable_parallel_tool_use"] = not conversation.parallel
        return written

    def _turns(self) -> tuple[Message, ...]:
        """Return the conversation as it can be told: begun by the user, and nothing empty."""
        conversation = self._conversation
        written = [Message(_speaker(m), tuple(self._parts(m))) for m in conversation.messages]
        if not (written or conversation.system):
            return ()
        turns = merge_turns(written)
        if not turns or turns[0].role != "user":
            # Some clients begin with the model's greeting, or with instructions alone.
            turns = (Message("user", (DOT,)), *turns)
        return merge_turns((*turns[:-1], self._last(turns[-1])))

    def _last(self, turn: Message) -> Message:
        """Return a last turn; the model cannot go on from thinking, nor from white space."""
        if turn.role != "assistant":
            return turn
        said = [part for part in turn.parts if isinstance(part, Text)]
        if len(said) < len(turn.parts):
            self._losses.add("reasoning")
        trimmed = [Text(part.text.rstrip()) for part in said[-1:]]
        return Message(turn.role, (*said[:-1], *trimmed))

    def _parts(self, message: Message) -> Iterable[Part]:
        if message.role == "system":
            # In a user's turn, the tag tells the model whose words these are.
            return [Text(f"<system>\n{text}\n</system>") for text in texts(message.parts)]
        return [kept for part in message.parts if (kept := self._keep_part(part)) is not None]

    def _keep_part(self, part: Part) -> Part | None:
        """Return what is told of a part: nothing of an empty text, nor of unproven reasoning."""
        if isinstance(part, Text | Refusal):
            return Text(part.text) if part.text.strip() else None
        if isinstance(part, Reasoning) and not _is_proven(part):
            # The signature is checked: a thought of another upstream would be refused.
            self._losses.add("reasoning")
            return None
        return part

    def _message(self, message: Message) -> Members:
        match message.parts:
            case (Text(text),):
                return {"role": message.role, "content": text}
        return {"role": message.role, "content": [self._block(part) for part in message.parts]}

    def _block(self, part: Part) -> Members:
        match part:
            case Text():
                return {"type": "text", "text": part.text}
            case Reasoning():
                return _reasoning(part)
            case Image():
                return self._image(part)
            case File():
                return self._file(part)
            case Call():
                return self._call(part)
        assert isinstance(part, Result)
        return self._result(part)

    def _image(self, part: Image) -> Members:
        if part.detail:
            self._losses.add("image.detail")
        kind = PICTURES.get(part.media_type, part.media_type)
        source = {"type": "base64", "media_type": kind, "data": part.data}
        if part.url:
            source = {"type": "url", "url": part.url}
        return {"type": "image", "source": source}

    def _file(self, part: File) -> Members:
        if part.id:
            raise BadRequest(
                f"This model's upstream does not know the file `{part.id}`; send its content."
            )
        source = _source(readable_file(part))
        return {"type": "document", "source": source} | present(title=part.name)

    def _call(self, part: Call) -> Members:
        given = as_object(part)
        if given is None:
            # The input has to be an object; the model called it wrongly, and sees how that ended.
            self._losses.add("arguments")
        call_id = fit_id(part.id, LONGEST_ID, ID_CHARACTERS)
        return {"type": "tool_use", "id": call_id, "name": part.name, "input": given or {}}

    def _result(self, part: Result) -> Members:
        call_id = fit_id(part.call_id, LONGEST_ID, ID_CHARACTERS)
        block: Members = {"type": "tool_result", "tool_use_id": call_id}
        # What a tool returned is not refused like what the user gave: the model can go on without.
        parts = [
            note_left_out("file", self._losses) if isinstance(inner, File) and inner.id else inner
            for inner in part.parts
        ]
        match parts:
            case [Text(text)]:
                block["content"] = text
            case [_, *_]:
                block["content"] = [self._block(inner) for inner in parts if inner != Text("")]
        return block | {"is_error": True} if part.is_error else block


def _system(system: tuple[str, ...]) -> str | list[Members] | None:
    if len(system) > 1:
        return [{"type": "text", "text": text} for text in system]
    return system[0] if system else None


def _tool(tool: Tool) -> Members:
    tool = as_function(tool)
    written: Members = {"name": tool.name, "input_schema": tool.schema}
    # Not every upstream of this dialect knows `strict`; absent, it means the same as false.
    return written | present(description=tool.description, strict=tool.strict)


def _reasoning(part: Reasoning) -> Members:
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.encrypted}
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


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
