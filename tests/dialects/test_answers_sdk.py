"""Whatever upstreams tell in one to three turns, the vendors' own clients hear one answer."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import OpenAI

from gateway.dialects import DIALECTS as SPOKEN
from gateway.dialects.translate.answer_context import AnswerContext
from gateway.dialects.translate.answers import StreamTranslator
from gateway.exchange.model import ModelRequest
from tests.dialects import messages_wire, responses_wire
from tests.dialects.answers_wire import CHAT, DIALECTS, DONE, MESSAGES, RESPONSES, data

Json = dict[str, Any]
Parts = list[tuple[str, str]]
CLOCK = frozenset({"clock"})
ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
KIND = {"content-type": "text/event-stream"}
SENT: list[bytes] = []
"""What the clients are answered."""
OPENAI = OpenAI(
    api_key="k",
    http_client=httpx2.Client(
        transport=httpx2.MockTransport(
            lambda _: httpx2.Response(200, headers=KIND, content=SENT[0])
        )
    ),
)
ANTHROPIC = Anthropic(
    api_key="k",
    http_client=httpx2.Client(
        transport=httpx2.MockTransport(
            lambda _: httpx2.Response(200, headers=KIND, content=SENT[0])
        )
    ),
)
# What an answer ends with: it was cut, or it called tools that the client sees, or neither.
STOPS = {
    CHAT: {"stop": "stop", "length": "length", "calls": "tool_calls"},
    MESSAGES: {"stop": "end_turn", "length": "max_tokens", "calls": "tool_use"},
    RESPONSES: {"stop": "completed", "length": "incomplete", "calls": "completed"},
}


@dataclass(frozen=True)
class Turn:
    """What an upstream tells in one turn: texts, thoughts, calls of ours and of theirs."""

    parts: Parts
    cut: bool = False
    usage: tuple[int, int] = (1, 1)
    odd: frozenset[str] = frozenset()
    """In which ways of its own the upstream tells it."""

    @property
    def calls(self) -> list[str]:
        return [kind for kind, _ in self.parts if kind in ("ours", "theirs")]

    @property
    def stop(self) -> str:
        if self.calls:
            return "calls"
        return "length" if self.cut else "stop"


@dataclass
class Heard:
    """What a client has in its hands at the end."""

    texts: str
    thoughts: str
    calls: list[tuple[str, str, Any]]
    stop: str | None
    usage: tuple[int, int]
    names: set[str] = field(default_factory=set)


ODD = ("prompt first", "usage like content", "no done", "finish rides", "empty finish", "mixed")
TEXTS = st.text('ab \n"\\é🌊{}:', min_size=1, max_size=8)
PARTS = st.lists(
    st.tuples(st.sampled_from(("text", "thought", "ours", "theirs")), TEXTS), max_size=4
)
TURNS = st.builds(
    Turn,
    PARTS,
    st.booleans(),
    st.tuples(st.integers(1, 99), st.integers(1, 99)),
    st.frozensets(st.sampled_from(ODD)),
)


def named(turn: Turn, number: int) -> Iterator[tuple[str, str, str, str]]:
    """Tell each part's kind and words, and of a call its id and name."""
    ordinal = count()
    for kind, words in turn.parts:
        if kind in ("ours", "theirs"):
            name = "clock" if kind == "ours" else "weather"
            yield kind, json.dumps({"q": words}), f"{number}{next(ordinal)}", name
        else:
            yield kind, words, "", ""


def halves(words: str) -> tuple[str, str]:
    return words[: len(words) // 2], words[len(words) // 2 :]


def told_by_chat(turn: Turn, number: int) -> bytes:
    envelope = {"object": "chat.completion.chunk", "created": number, "model": f"m{number}"}
    nothing = "" if "empty finish" in turn.odd else None

    def chunk(delta: Json, finish: str | None = nothing, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return data({"id": f"c{number}", **envelope, "choices": [choice], **more})

    calls: list[Any] = []
    said = [chunk({"role": "assistant"})]
    for kind, words, ident, name in named(turn, number):
        if not ident:
            member = "content" if kind == "text" else "reasoning_content"
            said += [chunk({member: piece}) for piece in halves(words)]
            continue
        at = len(calls)
        begun = {"index": at, "id": f"call_{ident}", "type": "function"}
        pieces = [begun | {"function": {"name": name, "arguments": ""}}]
        pieces += [{"index": at, "function": {"arguments": piece}} for piece in halves(words)]
        calls.append([chunk({"tool_calls": [piece]}) for piece in pieces])
    in_order = zip(*calls, strict=True) if "mixed" in turn.odd else calls
    said += [frame for frames in in_order for frame in frames]
    return _azure(turn) + b"".join(said) + _chat_end(turn, chunk)


def _azure(turn: Turn) -> bytes:
    empty = {"id": "", "object": "", "created": 0, "model": "", "choices": []}
    return data(empty) if "prompt first" in turn.odd else b""


def _chat_end(turn: Turn, chunk: Callable[..., bytes]) -> bytes:
    told, made = turn.usage
    usage = {"prompt_tokens": told, "completion_tokens": made, "total_tokens": told + made}
    reason = STOPS[CHAT][turn.stop]
    done = b"" if "no done" in turn.odd else DONE
    if "finish rides" in turn.odd:
        return chunk({}, reason, usage=usage) + done
    if "usage like content" in turn.odd:
        return chunk({}, reason) + chunk({"content": ""}, usage=usage) + done
    counted = json.loads(chunk({})[6:]) | {"choices": [], "usage": usage}
    return chunk({}, reason) + data(counted) + done


def told_by_messages(turn: Turn, number: int) -> bytes:
    told, made = turn.usage
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m"}
    begun = {"content": [], "usage": {"input_tokens": told, "output_tokens": 1}}
    stream = messages_wire.event("message_start", message=message | begun)
    stream += messages_wire.PING if turn.odd else b""
    for at, (kind, words, ident, name) in enumerate(named(turn, number)):
        if kind == "text":
            stream += messages_wire.say(at, *halves(words))
        elif kind == "thought":
            stream += messages_wire.begin(at, {"type": "thinking", "thinking": "", "signature": ""})
            stream += messages_wire.delta(at, "thinking_delta", thinking=words)
            stream += messages_wire.delta(at, "signature_delta", signature="s")
            stream += messages_wire.stop(at)
        else:
            stream += messages_wire.call(at, name, f"call_{ident}", words)
    return stream + messages_wire.finish(STOPS[MESSAGES][turn.stop], made)


def told_by_responses(turn: Turn, number: int) -> bytes:
    items = []
    for at, (kind, words, ident, name) in enumerate(named(turn, number)):
        if kind == "text":
            items.append(responses_wire.message(f"msg_{at}", words))
        elif kind == "thought":
            items.append(responses_wire.reasoning(f"rs_{at}", words))
        else:
            items.append(responses_wire.call(ident, name, words))
    details = {"reason": "max_output_tokens"} if turn.stop == "length" else None
    more = {"usage": responses_wire.usage(*turn.usage), "incomplete_details": details}
    status = STOPS[RESPONSES][turn.stop]
    return responses_wire.turn(*items, ident=f"resp_{number}", status=status, **more)


TELL: dict[str, Callable[[Turn, int], bytes]] = {
    CHAT: told_by_chat,
    MESSAGES: told_by_messages,
    RESPONSES: told_by_responses,
}


def answered(source: str, target: str, turns: list[Turn], cuts: list[int], crlf: bool) -> bytes:
    """Make one answer of turns, with a heartbeat between any two reads."""
    asked = ModelRequest(model="m", body=b"{}", stream=True, wants_usage=True)
    splice, shown = SPOKEN[target].splice(asked, CLOCK, 10**6), b""
    for number, turn in enumerate(turns):
        stream = TELL[source](turn, number).replace(b"\n", b"\r\n" if crlf else b"\n")
        way = StreamTranslator(source, target, AnswerContext("m", str(number)), 10**6)
        tap = splice.tap()
        points = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
        for piece in (stream[a:b] for a, b in pairwise(points)):
            shown += tap.feed(piece if source == target else way.feed(piece)) + splice.heartbeat()
        if not tap.ended:
            shown += tap.feed(b"" if source == target else way.close())
        if not tap.ended:
            shown += tap.close()
        assert tap.failure is None
        assert tap.end().continuable
        assert len(tap.end().server_calls) == turn.calls.count("ours")
        splice.take(tap)
    return shown + splice.tail(neutral_finish=False)


def heard_by_chat(stream: bytes) -> Heard:
    SENT[:] = [stream]
    names = set()
    with OPENAI.chat.completions.stream(**ASKED) as events:
        for event in events:
            if event.type == "chunk" and event.chunk.id:
                names.add(event.chunk.id)
        completion = events.current_completion_snapshot
    (choice,), usage = completion.choices, completion.usage
    calls = [(c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls or ()]
    assert choice.message.role == "assistant"
    assert usage is not None
    return Heard(
        choice.message.content or "",
        getattr(choice.message, "reasoning_content", ""),
        calls,
        choice.finish_reason,
        (usage.prompt_tokens, usage.completion_tokens),
        names,
    )


def heard_by_messages(stream: bytes) -> Heard:
    messages_wire.read(stream.replace(b": wait\n", b""))
    SENT[:] = [stream]
    with ANTHROPIC.messages.stream(max_tokens=9, **ASKED) as events:
        message = events.get_final_message()
    blocks, usage = message.content, message.usage
    return Heard(
        "".join(block.text for block in blocks if block.type == "text"),
        "".join(block.thinking for block in blocks if block.type == "thinking"),
        [(b.id, b.name, json.dumps(b.input)) for b in blocks if b.type == "tool_use"],
        message.stop_reason,
        (usage.input_tokens + (usage.cache_read_input_tokens or 0), usage.output_tokens),
        {message.id},
    )


def heard_by_responses(stream: bytes) -> Heard:
    responses_wire.heard(stream.replace(b": wait\n", b""))
    SENT[:] = [stream]
    names, done = set(), []
    with OPENAI.responses.stream(model="m", input="Hi") as events:
        for event in events:
            if event.type == "response.output_item.done":
                done.append(event.item.id)
            if response := getattr(event, "response", None):
                names.add(response.id)
    assert response is not None
    output, usage = response.output, response.usage
    assert done == [item.id for item in output]
    parts = [part for item in output if item.type == "message" for part in item.content]
    thoughts = [part for item in output if item.type == "reasoning" for part in item.summary]
    return Heard(
        "".join(part.text for part in parts),
        "".join(part.text for part in thoughts),
        [(c.call_id, c.name, c.arguments) for c in output if c.type == "function_call"],
        response.status,
        (usage.input_tokens, usage.output_tokens),
        names,
    )


HEAR: dict[str, Callable[[bytes], Heard]] = {
    CHAT: heard_by_chat,
    MESSAGES: heard_by_messages,
    RESPONSES: heard_by_responses,
}


def words_of(turns: list[Turn], kind: str) -> str:
    return "".join(words for turn in turns for each, words in turn.parts if each == kind)


def squeezed(text: str) -> str:
    """Leave out line ends: turns and items are set apart by some."""
    return text.replace("\n", "")


def reason_of(last: Turn, target: str) -> str:
    hidden_only = last.calls and "theirs" not in last.calls
    return STOPS[target]["stop" if hidden_only else last.stop]


@pytest.mark.parametrize("source", DIALECTS)
@pytest.mark.parametrize("target", DIALECTS)
@given(
    st.lists(TURNS, min_size=1, max_size=3),
    st.lists(st.integers(0, 3000), max_size=9),
    st.booleans(),
)
@settings(max_examples=60)
def test_the_vendors_clients_hear_one_answer(
    source: str, target: str, turns: list[Turn], cuts: list[int], crlf: bool
) -> None:
    stream = answered(source, target, turns, cuts, crlf)
    assert b"clock" not in stream
    heard = HEAR[target](stream)
    assert squeezed(heard.texts) == squeezed(words_of(turns, "text"))
    assert squeezed(heard.thoughts) == squeezed(words_of(turns, "thought"))
    told = [each for number, turn in enumerate(turns) for each in named(turn, number)]
    theirs = [
        (f"call_{ident}", name, words) for kind, words, ident, name in told if kind == "theirs"
    ]
    assert heard.calls == theirs
    assert heard.stop == reason_of(turns[-1], target)
    inputs = [turn.usage[0] for turn in turns]
    expected = inputs[-1] if target == RESPONSES else sum(inputs)
    assert heard.usage == (expected, sum(turn.usage[1] for turn in turns))
    assert len(heard.names) == 1
