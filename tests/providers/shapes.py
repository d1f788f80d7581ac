"""Answers in the shapes that providers document: a call of the tool `look`, then a text.

Each provider has two streams. What differs between them is what clients have stumbled over:
chunks without choices, comments, usage in odd places, whole or cut calls, calls without ids, content
that is a list, members of their own. They are written from memory of the providers' documentation
and of answers seen, not recorded by these tests. Of Bedrock nothing is known that differs from
OpenAI but the path and the key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

ARGUMENTS = '{"at":"sea"}'
TEXT = "The sea is calm."
MODEL = "some/model:1"
USAGE = {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27}
DONE = b"data: [DONE]\n\n"
SIGNATURE, CLOCK_SIGNATURE = "c2lnbmVk", "Y2xvY2s="


@dataclass(frozen=True, slots=True)
class Shape:
    """What a provider answers to a question, and to the result of the tool."""

    call: list[bytes]
    text: list[bytes]
    call_id: str = "call_1"
    """The id of the call; empty if it comes without one."""
    thought: str = ""

    @property
    def clock(self) -> list[bytes]:
        """The same call, but of the gateway's clock."""
        other = {'"look"': '"clock"', '\\"at\\"': '\\"action\\"', '\\"sea\\"': '\\"get\\"'}
        other |= {self.call_id: self.clock_id, SIGNATURE: CLOCK_SIGNATURE}
        text = b"".join(self.call).decode()
        for before, after in other.items():
            text = text.replace(before, after) if before else text
        return [f"{frame}\n\n".encode() for frame in text.split("\n\n") if frame]

    @property
    def clock_id(self) -> str:
        """The id of that call, which looks alike."""
        return self.call_id and f"{self.call_id[:-1]}8"


def frame(value: Json) -> bytes:
    """Write an event."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def chunk(delta: Json | None, finish: str | None = None, **more: Any) -> bytes:
    """Write a chunk of a chat stream; without a delta it has no choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    envelope = {"id": "chatcmpl-9", "object": "chat.completion.chunk", "created": 7}
    return frame({**envelope, "model": MODEL, "choices": choices, **more})


def whole_call(call_id: str = "call_1", **more: Any) -> Json:
    """Write a call that comes in one piece."""
    function = {"name": "look", "arguments": ARGUMENTS}
    return {"index": 0, "id": call_id, "type": "function", "function": function, **more}


def judge(chunk: bytes) -> bytes:
    """Add to a choice what Azure's filter thinks of it."""
    told = json.loads(chunk.removeprefix(b"data: "))
    told["choices"][0] |= JUDGED
    return frame(told)


ROLE = chunk({"role": "assistant", "content": ""})
COUNTED = chunk(None, usage=USAGE)
SAID = [chunk({"content": "The sea "}), chunk({"content": "is calm."})]
# OpenAI's own shape, which most repeat: the call in pieces, then the reason, then the usage.
PIECES = [
    chunk({"tool_calls": [{**whole_call(), "function": {"name": "look", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"at":'}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"sea"}'}}]}),
]
USUAL_TEXT = [ROLE, *SAID, chunk({}, "stop"), COUNTED, DONE]
USUAL = Shape([ROLE, *PIECES, chunk({}, "tool_calls"), COUNTED, DONE], USUAL_TEXT)

# Azure tells first what its filter thinks of the prompt.
FILTERED = frame(
    {
        "choices": [],
        "created": 0,
        "id": "",
        "model": "",
        "object": "",
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
    }
)
# What it thinks of the answer stands in each choice, or comes after it without a delta.
JUDGED = {"content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}
AFTERWARDS = frame(
    {
        "choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}, **JUDGED}],
        "created": 0,
        "id": "",
        "model": "",
        "object": "",
    }
)
AZURE = Shape(
    [FILTERED, *USUAL.call],
    [
        FILTERED,
        ROLE,
        *[judge(said) for said in SAID],
        AFTERWARDS,
        judge(chunk({}, "stop")),
        COUNTED,
        DONE,
    ],
)

WAITING = b": OPENROUTER PROCESSING\n\n"
OPENROUTER = Shape(
    [
        WAITING,
        chunk(
            {
                "role": "assistant",
                "content": "",
                "reasoning": "Let me look.",
                "reasoning_details": [{"type": "reasoning.text", "text": "Let me look."}],
            },
            provider="X",
        ),
        WAITING,
        *PIECES,
        chunk({"role": "assistant", "content": ""}, "tool_calls", native_finish_reason="tool_use"),
        chunk({"role": "assistant", "content": ""}, usage={**USAGE, "cost": 0.1}),
        DONE,
    ],
    [WAITING, chunk({"role": "assistant", "content": ""}, provider="X"), *USUAL_TEXT[1:]],
    thought="Let me look.",
)

SIGNED = {"extra_content": {"google": {"thought_signature": SIGNATURE}}}
GEMINI = Shape(
    [
        chunk(
            {"role": "assistant", "tool_calls": [whole_call("function-call-1", **SIGNED)]},
            "tool_calls",
            usage=USAGE,
        ),
        DONE,
    ],
    [chunk({"role": "assistant", "content": TEXT}, "stop", usage=USAGE), DONE],
    call_id="function-call-1",
)

DEEPSEEK = Shape(
    [
        chunk({"role": "assistant", "content": None, "reasoning_content": ""}),
        chunk({"content": None, "reasoning_content": "Let me "}),
        chunk({"content": None, "reasoning_content": "look."}),
        *PIECES,
        chunk({"content": "", "reasoning_content": None}, "tool_calls", usage=USAGE),
        DONE,
    ],
    [ROLE, *SAID, chunk({"content": ""}, "stop", usage=USAGE), DONE],
    thought="Let me look.",
)

GLM = Shape(
    [
        chunk({"role": "assistant", "reasoning_content": "Let me look."}),
        chunk({"role": "assistant", "tool_calls": [whole_call("call_-8")]}),
        chunk({"role": "assistant", "content": ""}, "tool_calls", usage=USAGE),
        DONE,
    ],
    [
        chunk({"role": "assistant", "content": "The sea "}),
        chunk({"role": "assistant", "content": "is calm."}),
        chunk({"role": "assistant", "content": ""}, "stop", usage=USAGE),
        DONE,
    ],
    call_id="call_-8",
    thought="Let me look.",
)


def kimi_end(finish: str) -> bytes:
    """Write an end with the usage inside of the choice."""
    choice = {"index": 0, "delta": {}, "finish_reason": finish, "usage": USAGE}
    return frame({"id": "chatcmpl-9", "created": 7, "model": MODEL, "choices": [choice]})


KIMI = Shape(
    [
        ROLE,
        chunk({"tool_calls": [{**whole_call("look:0"), "function": {"name": "look"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS}}]}),
        kimi_end("tool_calls"),
        COUNTED,
        DONE,
    ],
    [ROLE, *SAID, kimi_end("stop"), COUNTED, DONE],
    call_id="look:0",
)

QWEN = Shape(
    [
        chunk({"role": "assistant", "content": None}),
        chunk({"tool_calls": [{**whole_call(), "function": {"name": "look", "arguments": ""}}]}),
        chunk({"tool_calls": [{**whole_call(""), "function": {"arguments": ARGUMENTS}}]}),
        chunk({"tool_calls": [{"index": 0, "id": "", "function": {"arguments": None}}]}),
        chunk({"content": ""}, "tool_calls"),
        COUNTED,
        DONE,
    ],
    USUAL_TEXT,
)

# A call in one piece without an index, in the same chunk as the end.
MISTRAL_CALL = {"id": "D681PevKs", "function": {"name": "look", "arguments": ARGUMENTS}}
MISTRAL = Shape(
    [
        ROLE,
        chunk({"content": "", "tool_calls": [MISTRAL_CALL]}, "tool_calls", usage=USAGE),
        DONE,
    ],
    [
        ROLE,
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}),
        chunk({"content": [{"type": "text", "text": "The sea "}]}),
        SAID[1],
        chunk({"content": ""}, "stop", usage=USAGE),
        DONE,
    ],
    call_id="D681PevKs",
)

GROQ = Shape(
    [
        chunk({"role": "assistant", "content": None}, x_groq={"id": "req_1"}),
        chunk({"reasoning": "Let me look."}),
        chunk({"tool_calls": [whole_call()]}),
        chunk({}, "tool_calls", x_groq={"id": "req_1", "usage": USAGE}),
        COUNTED,
        DONE,
    ],
    USUAL_TEXT,
    thought="Let me look.",
)

# Older versions give a call no id.
OLLAMA_CALL = {name: value for name, value in whole_call().items() if name != "id"}
OLLAMA = Shape(
    [
        chunk({"role": "assistant", "content": "", "reasoning": "Let me look."}),
        chunk({"role": "assistant", "content": "", "tool_calls": [OLLAMA_CALL]}),
        chunk({"role": "assistant", "content": ""}, "tool_calls"),
        COUNTED,
        DONE,
    ],
    [
        chunk({"role": "assistant", "content": "The sea "}),
        chunk({"role": "assistant", "content": "is calm."}),
        chunk({"role": "assistant", "content": ""}, "stop"),
        COUNTED,
        DONE,
    ],
    call_id="",
    thought="Let me look.",
)

LLAMACPP = Shape(
    [
        chunk({"role": "assistant", "content": None}),
        *PIECES,
        chunk({}, "tool_calls"),
        chunk(None, usage=USAGE, timings={"predicted_ms": 9.5}),
        DONE,
    ],
    [*USUAL_TEXT[:-2], chunk(None, usage=USAGE, timings={"predicted_ms": 9.5}), DONE],
)


def event(kind: str, **members: Any) -> bytes:
    """Write an event of Messages."""
    value = {"type": kind, **members}
    return f"event: {kind}\n".encode() + frame(value)


BEGAN = event(
    "message_start",
    message={
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 20, "output_tokens": 1, "cache_read_input_tokens": 0},
    },
)


def block(content: Json, *deltas: Json) -> list[bytes]:
    """Write the one block of an answer."""
    return [
        event("content_block_start", index=0, content_block=content),
        event("ping"),
        *[event("content_block_delta", index=0, delta=delta) for delta in deltas],
        event("content_block_stop", index=0),
    ]


def ended(reason: str) -> list[bytes]:
    """Write the end of an answer."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    usage = {"input_tokens": 20, "cache_read_input_tokens": 0, "output_tokens": 7}
    return [
        event("message_delta", delta=delta, usage=usage),
        event("message_stop"),
    ]


def argue(part: str) -> Json:
    """Write a piece of the arguments."""
    return {"type": "input_json_delta", "partial_json": part}


ANTHROPIC = Shape(
    [
        BEGAN,
        *block(
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
            *(argue(""), argue('{"at":'), argue('"sea"}')),
        ),
        *ended("tool_use"),
    ],
    [
        BEGAN,
        *block({"type": "text", "text": ""}, {"type": "text_delta", "text": TEXT}),
        *ended("end_turn"),
    ],
    call_id="toolu_1",
)

SHAPES = {
    "openai": USUAL,
    "anthropic": ANTHROPIC,
    "azure": AZURE,
    "azure-deployments": AZURE,
    "openrouter": OPENROUTER,
    "gemini": GEMINI,
    "bedrock": USUAL,
    "deepseek": DEEPSEEK,
    "glm": GLM,
    "kimi": KIMI,
    "qwen": QWEN,
    "mistral": MISTRAL,
    "groq": GROQ,
    "ollama": OLLAMA,
    "vllm": Shape(
        [ROLE, chunk({"reasoning": "Let me look."}), *USUAL.call[1:]],
        USUAL_TEXT,
        thought="Let me look.",
    ),
    "llamacpp": LLAMACPP,
}
