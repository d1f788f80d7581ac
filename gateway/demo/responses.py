"""The OpenAI Responses dialect of the demo upstream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gateway.demo.chat import error, field_in, words_in
from gateway.demo.dialogue import Dialogue, DialogueCall, DialogueMessage
from gateway.demo.play import AnswerStamp, CompleteAnswer, ModelRequest, RequestRefused
from gateway.demo.script import Fail, FinishAnswer

__all__ = ["error", "path", "read", "voice", "whole"]

path = "/v1/responses"

CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")
COMPLETED = ("stop", "tool_calls")
REASONS = {"length": "max_output_tokens"}
encode = msgspec.json.encode
Json = dict[str, Any]


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


class ResponsesRequest(msgspec.Struct):
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


DECODER = msgspec.json.Decoder(ResponsesRequest)


def read(body: bytes) -> ModelRequest:
    """Read a request's body, or refuse it with a sentence."""
    try:
        request = DECODER.decode(body)
    except msgspec.ValidationError as problem:
        raise RequestRefused(Fail(400, f"{problem}.", param=field_in(str(problem)))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RequestRefused(
            Fail(400, "We could not parse the JSON body of your request.")
        ) from None
    items = items_of(request)
    if not request.previous_response_id and not request.conversation:
        check_results(items)
    return ask_of(request, items)


def items_of(request: ResponsesRequest) -> Sequence[InputItem]:
    """Return the input as items; a text is a message of the user."""
    asked = request.input
    if isinstance(asked, str):
        return (InputItem(role="user", content=asked),)
    if not asked and not request.previous_response_id and not request.conversation:
        raise RequestRefused(Fail(400, "There is no input.", "missing_required_parameter", "input"))
    return asked or ()


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


def refuse_item(at: int, why: str) -> RequestRefused:
    """Make the refusal of an item that lacks its other half."""
    return RequestRefused(Fail(400, f"{why}.", param=f"input[{at}]"))


def ask_of(request: ResponsesRequest, items: Iterable[InputItem]) -> ModelRequest:
    """Say what a request asks, free of this dialect."""
    offered = () if request.tool_choice == "none" else request.tools or ()
    told = (DialogueMessage("system", (request.instructions,)),) if request.instructions else ()
    dialogue = Dialogue(
        messages=(*told, *messages_of(items)),
        tools=frozenset(tool.name for tool in offered if tool.name),
        limit=request.max_output_tokens,
    )
    return ModelRequest(dialogue, request.model, bool(request.stream), usage=True)


def messages_of(items: Iterable[InputItem]) -> Sequence[DialogueMessage]:
    """Say what the items hold, free of this dialect: those of one turn are one message."""
    messages: list[DialogueMessage] = []
    for item in items:
        message = message_of(item)
        if message is None:
            continue
        last = messages[-1] if messages else None
        if last is not None and last.role == message.role == "assistant":
            texts, calls = last.texts + message.texts, last.calls + message.calls
            messages[-1] = DialogueMessage("assistant", texts, calls)
        else:
            messages.append(message)
    return messages


def message_of(item: InputItem) -> DialogueMessage | None:
    """Say what one item holds; what the demo does not know says nothing."""
    if item.type == "message":
        return DialogueMessage(item.role, texts_in(item.content))
    if item.type in CALLS:
        said = item.arguments if item.type == "function_call" else item.input
        call = DialogueCall(item.call_id or "", str(item.name), str(said))
        return DialogueMessage("assistant", calls=(call,))
    if item.type in OUTPUTS:
        return DialogueMessage("tool", texts_in(item.output), answers=item.call_id or "")
    return None


def texts_in(content: object) -> tuple[str, ...]:
    """Return the texts of a content that is one text or many parts."""
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, list) else ()
    return tuple(text for text in map(text_in, parts) if text)


def text_in(part: object) -> str:
    """Return the text of a part, if it has one."""
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def usage_of(ask: ModelRequest, pieces: int) -> Json | None:
    """Write the usage block."""
    if not ask.usage:
        return None
    prompt = words_in(ask.dialogue)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
        "output_tokens": pieces,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + pieces,
    }


def response_of(
    ask: ModelRequest, stamp: AnswerStamp, status: str, output: Sequence[Json] = ()
) -> Json:
    """Write the response itself."""
    return {
        "id": f"resp_demo{stamp.number:08d}",
        "object": "response",
        "created_at": stamp.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": ask.dialogue.limit,
        "metadata": {},
        "model": ask.model,
        "output": output,
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


def end_response(response: Json, reason: str, usage: Json | None) -> Json:
    """Say how a response ended."""
    response |= {"status": "completed", "usage": usage}
    if reason not in COMPLETED:
        why = {"reason": REASONS.get(reason, reason)}
        response |= {"status": "incomplete", "incomplete_details": why}
    return response


def text_part(text: str) -> Json:
    """Write the content of a message."""
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def message_item(stamp: AnswerStamp, at: int, content: Sequence[Json], status: str) -> Json:
    """Write a message."""
    ident = f"msg_demo{stamp.number:08d}_{at}"
    named = {"id": ident, "type": "message", "status": status}
    return {**named, "content": content, "role": "assistant"}


def call_item(stamp: AnswerStamp, at: int, name: str, arguments: str, status: str) -> Json:
    """Write a call of a tool; one of a namespace is named `namespace.tool`."""
    ident = f"demo{stamp.number:08d}_{at}"
    named = {"id": f"fc_{ident}", "type": "function_call", "status": status}
    namespace, _, tool = name.rpartition(".")
    within = {"namespace": namespace} if namespace else {}
    return {**named, "arguments": arguments, "call_id": f"call_{ident}", "name": tool, **within}


class ResponsesFrameWriter:
    """One streamed answer: events that build up the items of a response."""

    def __init__(self, ask: ModelRequest, stamp: AnswerStamp) -> None:
        self._ask = ask
        self._stamp = stamp
        self._sequence = 0
        self._tokens = 0
        self._output: list[Json] = []
        self._call: str | None = None
        self._said: list[str] | None = None
        self._delta = self._delta_end = b""

    def begin(self, speaks: bool) -> bytes:
        """Write the events that open the response."""
        response = response_of(self._ask, self._stamp, "in_progress")
        kinds = ("response.created", "response.in_progress")
        return b"".join(self._event(kind, response=response) for kind in kinds)

    def say(self, token: str) -> bytes:
        """Write one token; the first opens a message."""
        before = b"" if self._said is not None and self._call is None else self._open_message()
        return before + self._piece(token)

    def call(self, name: str) -> bytes:
        """Open a tool call."""
        before = self._close()
        self._call, self._said = name, []
        item = call_item(self._stamp, len(self._output), name, "", "in_progress")
        added = self._event("response.output_item.added", item=item, **self._place())
        self._prepare("response.function_call_arguments.delta", item["id"], {})
        return before + added

    def argue(self, piece: str) -> bytes:
        """Write a piece of the open call's arguments."""
        return self._piece(piece)

    def fail(self, fail: Fail) -> bytes:
        """Write the event that says that the response failed."""
        response = response_of(self._ask, self._stamp, "failed", self._output)
        code = msgspec.json.decode(error(fail))["error"]["code"] or "server_error"
        response["error"] = {"code": code, "message": fail.message}
        return self._event("response.failed", response=response)

    def finish(self, finish: FinishAnswer) -> bytes:
        """Close what is open, and end the response as often as it is wanted."""
        before = self._close()
        response = response_of(self._ask, self._stamp, "completed", self._output)
        end_response(response, finish.reason, usage_of(self._ask, self._tokens))
        kind = f"response.{response['status']}"
        ends = [self._event(kind, response=response) for _ in range(finish.ends)]
        return before + b"".join(ends)

    def _event(self, kind: str, **members: object) -> bytes:
        number, self._sequence = self._sequence, self._sequence + 1
        event = {"type": kind, "sequence_number": number, **members}
        return b"event: " + kind.encode() + b"\ndata: " + encode(event) + b"\n\n"

    def _piece(self, text: str) -> bytes:
        """Write a delta of what is open; of all events these are many, so most is prepared."""
        assert self._said is not None
        self._said.append(text)
        self._tokens += 1
        number, self._sequence = self._sequence, self._sequence + 1
        return self._delta + encode(text) + self._delta_end % number

    def _prepare(self, kind: str, item: str, more: Json) -> None:
        rest = encode({"item_id": item, "output_index": len(self._output), **more})[1:-1]
        named = b"event: " + kind.encode() + b'\ndata: {"type":"' + kind.encode()
        self._delta = named + b'","delta":'
        self._delta_end = b"," + rest.replace(b"%", b"%%") + b',"sequence_number":%d}\n\n'

    def _place(self) -> Json:
        return {"output_index": len(self._output)}

    def _open_message(self) -> bytes:
        before = self._close()
        self._said = []
        item = message_item(self._stamp, len(self._output), [], "in_progress")
        place = {"item_id": item["id"], **self._place(), "content_index": 0}
        added = self._event("response.output_item.added", item=item, **self._place())
        part = self._event("response.content_part.added", part=text_part(""), **place)
        more = {"content_index": 0, "logprobs": []}
        self._prepare("response.output_text.delta", item["id"], more)
        return before + added + part

    def _close(self) -> bytes:
        """Write the end of the item that is open, if one is."""
        if self._said is None:
            return b""
        text, name = "".join(self._said), self._call
        self._said = self._call = None
        if name is None:
            return self._close_message(text)
        item = call_item(self._stamp, len(self._output), name, text, "completed")
        place = {"item_id": item["id"], **self._place()}
        done = self._event("response.function_call_arguments.done", arguments=text, **place)
        return done + self._finish_item(item)

    def _close_message(self, text: str) -> bytes:
        item = message_item(self._stamp, len(self._output), [text_part(text)], "completed")
        place = {"item_id": item["id"], **self._place(), "content_index": 0}
        done = self._event("response.output_text.done", text=text, logprobs=[], **place)
        done += self._event("response.content_part.done", part=text_part(text), **place)
        return done + self._finish_item(item)

    def _finish_item(self, item: Json) -> bytes:
        done = self._event("response.output_item.done", item=item, **self._place())
        self._output.append(item)
        return done


def voice(ask: ModelRequest, stamp: AnswerStamp) -> ResponsesFrameWriter:
    """Lend a voice to one answer."""
    return ResponsesFrameWriter(ask, stamp)


def whole(ask: ModelRequest, told: CompleteAnswer, stamp: AnswerStamp) -> bytes:
    """Write an answer as one document."""
    said = [message_item(stamp, 0, [text_part(told.text)], "completed")] if told.text else []
    calls = [
        call_item(stamp, at, name, arguments, "completed")
        for at, (name, arguments) in enumerate(told.calls, start=len(said))
    ]
    response = response_of(ask, stamp, "completed", said + calls)
    return encode(end_response(response, told.reason, usage_of(ask, told.pieces)))
