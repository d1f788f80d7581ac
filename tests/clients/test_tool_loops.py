"""Tools of the client's own, called side by side and in a row, whatever dialect the upstream speaks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from anthropic import Anthropic
from openai import OpenAI

from .catalogue import CHAT_SPEAKERS, tells
from .cli import Event, Outcome, Perform, Scene, Stage, play
from .node import told
from .speakers import (
    AI_SDK_CHAT,
    AI_SDK_MESSAGES,
    AI_SDK_RESPONSES,
    ANTHROPIC_NODE,
    ANTHROPIC_PYTHON,
    CHAT,
    DIALECTS,
    MESSAGES,
    OPENAI_PYTHON,
    RESPONSES,
)

SCRIPT = "tool_loop.mjs"
WEATHER, TIME = "get_weather", "get_time"
TOOLS = [
    {
        "name": name,
        "description": f"To {name}.",
        "parameters": {"type": "object", "properties": {member: {"type": "string"}}},
    }
    for name, member in ((WEATHER, "city"), (TIME, "zone"))
]
# The first turn calls two of the client's tools, and the gateway's between them.
PROMPT = f"""
demo: say="Let me see." tool={WEATHER} args={{"city":"Bern"}} tool=clock args={{"action":"get"}} tool={TIME} args={{"zone":"Zürich"}}
demo: tool={WEATHER} args={{"city":"Rome"}}
demo: say="Sunny at noon."
"""
RAN = [[WEATHER, {"city": "Bern"}], [TIME, {"zone": "Zürich"}], [WEATHER, {"city": "Rome"}]]
RETURNED = [f"{WEATHER} of Bern", "nowMs", f"{TIME} of Zürich", f"{WEATHER} of Rome"]


class Tools:
    """The client's tools, and what was run of them."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, Any]] = []

    def run(self, name: str, given: Any) -> str:
        """Run one."""
        self.ran.append((name, given))
        return f"{name} of {next(iter(given.values()))}"


Loop = Callable[[Stage, Tools], str]
"""Asks, runs tools and asks again, and returns what the model said in the end."""


def openai_chat(stage: Stage, tools: Tools) -> str:
    """Use openai-python's `chat.completions.stream()`."""
    said: list[Any] = [{"role": "user", "content": PROMPT}]
    offered: Any = [{"type": "function", "function": tool} for tool in TOOLS]
    with openai_client(stage) as client:
        while True:
            with client.chat.completions.stream(
                model=stage.scene.model, messages=said, tools=offered
            ) as stream:
                message = stream.get_final_completion().choices[0].message
            if not message.tool_calls:
                return message.content or ""
            said.append(message.to_dict())
            for call in message.tool_calls:
                result = tools.run(call.function.name, json.loads(call.function.arguments))
                said.append({"role": "tool", "tool_call_id": call.id, "content": result})


def openai_responses(stage: Stage, tools: Tools) -> str:
    """Use openai-python's `responses.stream()`."""
    said: list[Any] = [{"role": "user", "content": PROMPT}]
    offered: Any = [{"type": "function", "strict": False, **tool} for tool in TOOLS]
    with openai_client(stage) as client:
        while True:
            with client.responses.stream(
                model=stage.scene.model, input=said, tools=offered
            ) as stream:
                answer = stream.get_final_response()
            calls = [item for item in answer.output if item.type == "function_call"]
            if not calls:
                return answer.output_text
            said += [item.to_dict() for item in answer.output]
            for call in calls:
                result = tools.run(call.name, json.loads(call.arguments))
                said.append(
                    {"type": "function_call_output", "call_id": call.call_id, "output": result}
                )


def anthropic_messages(stage: Stage, tools: Tools) -> str:
    """Use anthropic-py's `messages.stream()`."""
    said: list[Any] = [{"role": "user", "content": PROMPT}]
    members = {"name": "name", "description": "description", "parameters": "input_schema"}
    offered: Any = [{members[name]: tool[name] for name in tool} for tool in TOOLS]
    session = {"x-session-id": stage.scene.model}
    with Anthropic(
        base_url=stage.url, api_key="none", max_retries=0, default_headers=session
    ) as client:
        while True:
            with client.messages.stream(
                model=stage.scene.model, max_tokens=1000, messages=said, tools=offered
            ) as stream:
                content = stream.get_final_message().content
            calls = [block for block in content if block.type == "tool_use"]
            if not calls:
                return "".join(block.text for block in content if block.type == "text")
            results = [
                {"type": "tool_result", "tool_use_id": c.id, "content": tools.run(c.name, c.input)}
                for c in calls
            ]
            said.append({"role": "assistant", "content": content})
            said.append({"role": "user", "content": results})


def openai_client(stage: Stage) -> OpenAI:
    """Make a client that names its session."""
    session = {"x-session-id": stage.scene.model}
    return OpenAI(
        base_url=f"{stage.url}/v1", api_key="none", max_retries=0, default_headers=session
    )


def here(loop: Loop) -> Perform:
    """Have a loop performed in this process."""

    def perform(stage: Stage) -> tuple[Event, ...]:
        tools = Tools()
        said = loop(stage, tools)
        return ({"said": said, "ran": [list(one) for one in tools.ran]},)

    return perform


def in_node(form: str) -> Perform:
    """Have a loop performed by a client of Node."""

    def perform(stage: Stage) -> tuple[Event, ...]:
        asked = {"form": form, "url": stage.url, "model": stage.scene.model}
        return (msgspec.json.decode(told(SCRIPT, asked | {"prompt": PROMPT, "tools": TOOLS})),)

    return perform


LOOPS: Mapping[str, Perform] = {
    "openai-python-chat": here(openai_chat),
    "openai-python-responses": here(openai_responses),
    "anthropic-py": here(anthropic_messages),
    **{
        form: in_node(form)
        for form in ("openai-node", "anthropic-ts", "ai-chat", "ai-responses", "ai-messages")
    },
}
SHOWN = (
    *(speaker for speaker in CHAT_SPEAKERS if speaker.name in ("openai-python", "openai-node")),
    *(AI_SDK_CHAT, OPENAI_PYTHON, ANTHROPIC_PYTHON, ANTHROPIC_NODE, AI_SDK_MESSAGES),
)
SCENES = {(name, dialect): Scene(name, dialect, PROMPT) for name in LOOPS for dialect in DIALECTS}

Found = list[tuple[str, str]]
Outcomes = Mapping[Scene, Outcome]


def chat_calls(body: Event) -> tuple[Found, Found]:
    """Find the calls and the results in a request."""
    messages = body["messages"]
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    results = [message for message in messages if message["role"] == "tool"]
    return (
        [(call["id"], call["function"]["name"]) for call in calls],
        [(result["tool_call_id"], result["content"]) for result in results],
    )


def responses_calls(body: Event) -> tuple[Found, Found]:
    """Find the calls and the results in a request."""
    calls = [item for item in body["input"] if item.get("type") == "function_call"]
    results = [item for item in body["input"] if item.get("type") == "function_call_output"]
    return (
        [(call["call_id"], call["name"]) for call in calls],
        [(result["call_id"], result["output"]) for result in results],
    )


def messages_calls(body: Event) -> tuple[Found, Found]:
    """Find the calls and the results in a request."""
    contents = [m["content"] for m in body["messages"] if isinstance(m["content"], list)]
    blocks = [block for content in contents for block in content]
    return (
        [(block["id"], block["name"]) for block in blocks if block["type"] == "tool_use"],
        [
            (block["tool_use_id"], json.dumps(block["content"], ensure_ascii=False))
            for block in blocks
            if block["type"] == "tool_result"
        ],
    )


FIND = {CHAT: chat_calls, RESPONSES: responses_calls, MESSAGES: messages_calls}


@pytest.fixture(scope="module")
def outcomes(node: None, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Play all scenes at once."""
    place = tmp_path_factory.mktemp("tool_loops")
    return play(tuple(SCENES.values()), lambda stage: LOOPS[stage.scene.name](stage), place)


@tells("with `store: false`: its own tools, two side by side and one after them", AI_SDK_RESPONSES)
@tells("its own tools, two side by side and one after them", *SHOWN)
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("name", LOOPS)
def test_it_runs_its_own_tools(name: str, upstream: str, outcomes: Outcomes) -> None:
    (event,) = outcomes[SCENES[name, upstream]].events
    assert event["ran"] == RAN
    assert event["said"] == "Sunny at noon."


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("name", LOOPS)
def test_the_model_finds_its_calls_answered(name: str, upstream: str, outcomes: Outcomes) -> None:
    *_, last = asked = outcomes[SCENES[name, upstream]].asked
    assert len(asked) == 3
    calls, results = FIND[upstream](last)
    assert [called for _, called in calls] == [WEATHER, "clock", TIME, WEATHER]
    assert [ident for ident, _ in results] == [ident for ident, _ in calls]
    for (_, result), expected in zip(results, RETURNED, strict=True):
        assert expected in result
