"""The OpenAI Responses dialect of the demo upstream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import msgspec

from gateway.demo.chat import UNREADABLE, write_error
from gateway.demo.dialect import (
    AnswerStamp,
    CompleteAnswer,
    DialogueRequest,
    Fail,
    Json,
    UnreadableRequest,
    decode_request,
    encode_json,
    find_texts,
    merge_turns,
    write_event,
)
from gateway.demo.dialogue import Dialogue, DialogueCall, DialogueMessage

__all__ = ["open_answer", "path", "read", "write_error"]

path = "/v1/responses"

CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")
COMPLETED = ("stop", "tool_calls")
REASONS = {"length": "max_output_tokens"}


class InputItem(msgspec.Struct):
    """One item of the input; without a type it is a message. Other kinds use names otherwise."""

    type: str = "message"
    role: str = ""
    content: Any = None
    call_id: str | None = None
    name: Any = ""
    arguments: Any = ""
    input: Any = ""
    output: Any = None


class ResponsesTool(msgspec.Struct):
    """One tool on offer; hosted ones have no name."""

    type: str
    name: str = ""


class ResponsesInput(msgspec.Struct):
    """The fields of a request that change the demo's answer."""

    model: str
    input: str | list[InputItem] | None = None
    instructions: str | None = None
    stream: bool | None = None
    tools: list[ResponsesTool] | None = None
    tool_choice: Any = None
    max_output_tokens: int | None = None
    previous_response_id: str | None = None
    conversation: Any = None


def read(body: bytes) -> DialogueRequest:
    """Read a request's body, or refuse what the real service refuses."""
    request = decode_request(ResponsesInput, body, UNREADABLE)
    items: Sequence[InputItem]
    if isinstance(request.input, str):
        items = (InputItem(role="user", content=request.input),)
    else:
        items = request.input or ()
    # Where the service remembers the conversation, calls and results may stand apart.
    if not request.previous_response_id and not request.conversation:
        if not items:
            raise UnreadableRequest("There is no input.", "missing_required_parameter", "input")
        check_results(items)
    offered = () if request.tool_choice == "none" else request.tools or ()
    system = (DialogueMessage("system", (request.instructions,)),) if request.instructions else ()
    dialogue = Dialogue(
        messages=(*system, *merge_turns(read_items(items))),
        tools=frozenset(tool.name for tool in offered if tool.name),
        limit=request.max_output_tokens,
    )
    return DialogueRequest(dialogue, request.model, bool(request.stream), usage=True)


def check_results(items: Iterable[InputItem]) -> None:
    """Refuse tool calls without results, and results without calls."""
    waiting: dict[str | None, int] = {}
    for at, item in enumerate(items):
        if item.type in CALLS:
            waiting[item.call_id] = at
        elif item.type in OUTPUTS and waiting.pop(item.call_id, None) is None:
            raise refuse_item(at, f"No tool call found for the output of {item.call_id!r}")
    for call, at in waiting.items():
        raise refuse_item(at, f"No tool output found for the call {call!r}")


def refuse_item(at: int, why: str) -> UnreadableRequest:
    """Make the refusal of an item that lacks its other half."""
    return UnreadableRequest(f"{why}.", param=f"input[{at}]")


def read_items(items: Iterable[InputItem]) -> Iterator[DialogueMessage]:
    """Say what the items hold, free of this dialect; what the demo does not know says nothing."""
    for item in items:
        if item.type == "message":
            yield DialogueMessage(item.role, find_texts(item.content))
        elif item.type in CALLS:
            said = item.arguments if item.type == "function_call" else item.input
            call = DialogueCall(item.call_id or "", str(item.name), str(said))
            yield DialogueMessage("assistant", calls=(call,))
        elif item.type in OUTPUTS:
            yield DialogueMessage("tool", find_texts(item.output), answers=item.call_id or "")


def write_text(text: str) -> Json:
    """Write the content of a message."""
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


class ResponsesReplyWriter:
    """One answer; in a stream events build up the items of a response, one after the other."""

    def __init__(self, request: DialogueRequest, stamp: AnswerStamp) -> None:
        self._request = request
        self._stamp = stamp
        self._sequence = count()
        self._pieces = 0
        self._output: list[Json] = []
        self._call: str | None = None
        """The name of the tool whose call is open."""
        self._said: list[str] | None = None
        """The pieces of the item that is open, a call or a message."""

    def begin(self, speaks: bool) -> bytes:
        """Write the events that open the response."""
        response = self._write_response("in_progress")
        kinds = ("response.created", "response.in_progress")
        return b"".join(self._write(kind, response=response) for kind in kinds)

    def say(self, token: str) -> bytes:
        """Write one token; the first opens a message."""
        opening = b"" if self._said is not None and self._call is None else self._open_message()
        return opening + self._write_piece(token)

    def call(self, name: str) -> bytes:
        """Open a tool call."""
        end = self._close_item()
        self._call, self._said = name, []
        return end + self._write_item("added", self._write_call(name, "", "in_progress"))

    def argue(self, piece: str) -> bytes:
        """Write a piece of the open call's arguments."""
        return self._write_piece(piece)

    def fail(self, fail: Fail) -> bytes:
        """Write the event that says that the response failed."""
        response = self._write_response("failed")
        code = msgspec.json.decode(write_error(fail))["error"]["code"] or "server_error"
        response["error"] = {"code": code, "message": fail.message}
        return self._write("response.failed", response=response)

    def finish(self, reason: str, ends: int = 1) -> bytes:
        """Close what is open, and end the response as often as it is wanted."""
        end = self._close_item()
        response = self._write_end(reason)
        kind = f"response.{response['status']}"
        return end + b"".join(self._write(kind, response=response) for _ in range(ends))

    def write_whole(self, answer: CompleteAnswer) -> bytes:
        """Write an answer as one document."""
        self._pieces = answer.pieces
        if answer.text:
            self._output.append(self._write_message([write_text(answer.text)], "completed"))
        for name, arguments in answer.calls:
            self._output.append(self._write_call(name, arguments, "completed"))
        return encode_json(self._write_end(answer.reason))

    # Events of a stream.

    def _write(self, kind: str, **members: object) -> bytes:
        return write_event({"type": kind, "sequence_number": next(self._sequence), **members})

    def _write_item(self, what: str, item: Json) -> bytes:
        kind = f"response.output_item.{what}"
        return self._write(kind, item=item, output_index=len(self._output))

    def _write_piece(self, text: str) -> bytes:
        """Write a delta of the open item."""
        assert self._said is not None
        self._said.append(text)
        self._pieces += 1
        event: Json = {"type": "response.output_text.delta", "delta": text, **self._place}
        if self._call is None:
            event["logprobs"] = []
        else:
            event["type"] = "response.function_call_arguments.delta"
        return write_event({**event, "sequence_number": next(self._sequence)})

    def _open_message(self) -> bytes:
        end = self._close_item()
        self._said = []
        start = self._write_item("added", self._write_message([], "in_progress"))
        part = self._write("response.content_part.added", part=write_text(""), **self._place)
        return end + start + part

    def _close_item(self) -> bytes:
        """Write the end of the item that is open, if one is."""
        if self._said is None:
            return b""
        text, place = "".join(self._said), self._place
        if self._call is None:
            content = write_text(text)
            item = self._write_message([content], "completed")
            end = self._write("response.output_text.done", text=text, logprobs=[], **place)
            end += self._write("response.content_part.done", part=content, **place)
        else:
            item = self._write_call(self._call, text, "completed")
            end = self._write("response.function_call_arguments.done", arguments=text, **place)
        end += self._write_item("done", item)
        self._output.append(item)
        self._said = self._call = None
        return end

    @property
    def _place(self) -> Json:
        """Where the open item stands."""
        at = len(self._output)
        if self._call is not None:
            return {"item_id": f"fc_{self._ident}", "output_index": at}
        return {"item_id": f"msg_{self._ident}", "output_index": at, "content_index": 0}

    # What a response is made of.

    @property
    def _ident(self) -> str:
        """What the ids of the next item have in common."""
        return f"demo{self._stamp.number:08d}_{len(self._output)}"

    def _write_message(self, content: Sequence[Json], status: str) -> Json:
        named = {"id": f"msg_{self._ident}", "type": "message", "status": status}
        return {**named, "content": content, "role": "assistant"}

    def _write_call(self, name: str, arguments: str, status: str) -> Json:
        """Write a call of a tool; one of a namespace is named `namespace.tool`."""
        named = {"id": f"fc_{self._ident}", "type": "function_call", "status": status}
        namespace, _, tool = name.rpartition(".")
        call = {"arguments": arguments, "call_id": f"call_{self._ident}", "name": tool}
        return {**named, **call, **({"namespace": namespace} if namespace else {})}

    def _write_response(self, status: str) -> Json:
        return {
            "id": f"resp_demo{self._stamp.number:08d}",
            "object": "response",
            "created_at": self._stamp.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": self._request.dialogue.limit,
            "metadata": {},
            "model": self._request.model,
            "output": self._output,
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": True,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None,
        }

    def _write_end(self, reason: str) -> Json:
        """Write the response as it ended."""
        response = self._write_response("completed")
        if self._request.usage:
            prompt = self._request.prompt_tokens
            response["usage"] = {
                "input_tokens": prompt,
                "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
                "output_tokens": self._pieces,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": prompt + self._pieces,
            }
        if reason not in COMPLETED:
            why = {"reason": REASONS.get(reason, reason)}
            response |= {"status": "incomplete", "incomplete_details": why}
        return response


open_answer = ResponsesReplyWriter
