"""Messages as real clients read them: an answer of several turns, held in between, is one message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import anthropic
import anyio
import pytest
from anthropic import Anthropic, AsyncAnthropic
from langchain_anthropic import ChatAnthropic
from pydantic import SecretStr

from .catalogue import tells
from .processes import Running
from .speakers import DIALECTS, LANGCHAIN_MESSAGES, MESSAGES, libraries
from .spoken import (
    PATIENCE,
    PROMPT,
    Answers,
    Hear,
    Heard,
    count_all_turns,
    gateway,
    hear_all,
    heard_in_chunks,
    heard_in_chunks_async,
    heard_in_node,
    is_one_answer,
    were_held_and_ended_well,
)

TURNS = 4
"""Schedules, says so, goes on once, and is reminded; a model that asks for the time takes one more."""


def asked(model: str, session: str) -> dict[str, Any]:
    """Return the arguments of a request."""
    return {
        "model": model,
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": PROMPT}],
        "extra_headers": {"x-session-id": session},
    }


def heard_of(message: anthropic.types.Message, events: Sequence[str] = ()) -> Heard:
    """Say what the SDK's message comes to."""
    counted = message.usage.to_dict().get("iterations")
    seen = events or ["message_start", "message_stop"]
    texts = tuple(block.text for block in message.content if block.type == "text")
    return Heard(
        texts,
        message.stop_reason or "",
        message.id,
        message.usage.input_tokens,
        message.usage.output_tokens,
        begun=seen.count("message_start"),
        ended=seen.count("message_stop"),
        # The helper that puts the message together keeps no list of the turns.
        turns=len(counted) if isinstance(counted, list) else None,
        calls=len(message.content) - len(texts),
    )


def create(url: str, model: str, session: str) -> Heard:
    """Read with `create`, in one piece."""
    with Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        return heard_of(client.messages.create(**asked(model, session)))


def create_stream(url: str, model: str, session: str) -> Heard:
    """Read with `create`, event by event, and trust nothing that was not said."""
    texts: list[str] = []
    kinds: list[str] = []
    with Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        for event in client.messages.create(**asked(model, session), stream=True):
            kinds.append(event.type)
            if event.type == "message_start":
                begun = event.message
            elif event.type == "content_block_start":
                assert event.index == len(texts)
                texts.append("")
            elif event.type == "content_block_delta":
                assert event.index == len(texts) - 1
                assert event.delta.type == "text_delta"
                texts[-1] += event.delta.text
            elif event.type == "message_delta":
                ended = event
    usage = ended.usage
    assert usage.input_tokens is not None
    count = kinds.count
    return Heard(
        tuple(texts),
        ended.delta.stop_reason or "",
        begun.id,
        usage.input_tokens,
        usage.output_tokens,
        begun=count("message_start"),
        ended=count("message_stop"),
    )


def helper(url: str, model: str, session: str) -> Heard:
    """Read with `stream()`, which puts the message together."""
    with Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        with client.messages.stream(**asked(model, session)) as stream:
            kinds = [event.type for event in stream]
            return heard_of(stream.get_final_message(), kinds)


def async_helper(url: str, model: str, session: str) -> Heard:
    """Read with `stream()`, async."""

    async def read() -> Heard:
        async with AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
            async with client.messages.stream(**asked(model, session)) as stream:
                kinds = [event.type async for event in stream]
                return heard_of(await stream.get_final_message(), kinds)

    return anyio.run(read)


def langchain(url: str, model: str, session: str) -> ChatAnthropic:
    """Make LangChain's model."""
    return ChatAnthropic(
        model_name=model,
        base_url=url,
        api_key=SecretStr("none"),
        max_tokens_to_sample=1000,
        max_retries=0,
        timeout=PATIENCE[model],
        stop=None,
        default_headers={"x-session-id": session},
    )


FORMS: Mapping[str, Hear] = {
    "anthropic-py create()": create,
    "anthropic-py create(stream=True)": create_stream,
    "anthropic-py stream()": helper,
    "anthropic-py async stream()": async_helper,
    "anthropic-ts stream()": heard_in_node("anthropic-ts"),
    "LangChain ChatAnthropic.stream()": heard_in_chunks(langchain),
    "LangChain ChatAnthropic.astream()": heard_in_chunks_async(
        langchain, lambda chat: chat._async_client
    ),
    "Vercel AI SDK streamText()": heard_in_node("ai-messages"),
}
SHOWN = libraries(MESSAGES)
JOINED = LANGCHAIN_MESSAGES.uses
"""These show one text, whatever blocks it came in."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("messages")) as started:
        yield started


@pytest.fixture(scope="module")
def answers(running: Running, node: None) -> Answers:
    """What each client read of each upstream."""
    return hear_all(running.url, FORMS)


def test_the_table_names_every_form() -> None:
    assert list(FORMS) == [use for speaker in SHOWN for use in speaker.uses]


@tells("a tool of the gateway, a stop message and a hold of 4 seconds, as one message", *SHOWN)
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("form", FORMS)
def test_several_turns_are_one_message(form: str, upstream: str, answers: Answers) -> None:
    heard = answers[form, upstream].result()
    is_one_answer(heard)
    assert heard.stop in ("end_turn", "stop")
    if form not in JOINED:
        assert len(heard.texts) == 3
    if heard.turns is not None:
        assert heard.turns in (TURNS, TURNS + 1)


@tells("usage of all turns", *SHOWN)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_usage_is_that_of_all_turns(upstream: str, running: Running, answers: Answers) -> None:
    count_all_turns(running, upstream, answers)


@pytest.mark.usefixtures("answers")
def test_every_answer_was_held_and_ended_well(running: Running) -> None:
    were_held_and_ended_well(running, len(FORMS))
