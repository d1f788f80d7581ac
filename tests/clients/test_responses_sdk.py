"""Responses as real clients read them: an answer of several turns, held in between, is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import anyio
import pytest
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response, ResponseOutputMessage
from pydantic import SecretStr

from .catalogue import tells
from .processes import Running
from .speakers import DIALECTS, LANGCHAIN_RESPONSES, OPENAI_PYTHON, RESPONSES, libraries
from .spoken import (
    IDLE,
    IMPATIENT,
    PATIENCE,
    PROMPT,
    Answers,
    Hear,
    Heard,
    gateway,
    hear_all,
    heard_in_chunks,
    heard_in_chunks_async,
    heard_in_node,
    is_one_answer,
    were_held_and_ended_well,
)


def asked(model: str, session: str) -> dict[str, Any]:
    """Return the arguments of a request."""
    headers = {"x-session-id": session}
    return {"model": model, "input": PROMPT, "extra_headers": headers}


def heard_of(response: Response, kinds: Sequence[str] = ()) -> Heard:
    """Say what the SDK's response comes to."""
    items = [item for item in response.output if isinstance(item, ResponseOutputMessage)]
    assert len(items) == len(response.output)
    assert len({item.id for item in items}) == len(items)
    assert response.usage is not None
    # The total is that of the last turn: clients take it for the room that the talk takes up.
    assert response.usage.input_tokens < response.usage.total_tokens
    assert response.usage.total_tokens < response.usage.input_tokens + response.usage.output_tokens
    seen = kinds or ["response.created", "response.completed"]
    return Heard(
        tuple(part.text for item in items for part in item.content if part.type == "output_text"),
        response.status or "",
        response.id,
        response.usage.input_tokens,
        response.usage.output_tokens,
        beats=max(seen.count("response.in_progress") - 1, 0),
        begun=seen.count("response.created"),
        ended=seen.count("response.completed"),
    )


def create(url: str, model: str, session: str) -> Heard:
    """Read with `create`, in one piece."""
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        return heard_of(client.responses.create(**asked(model, session)))


def create_stream(url: str, model: str, session: str) -> Heard:
    """Read with `create`, event by event: ids and numbers are in order."""
    kinds: list[str] = []
    numbers: list[int] = []
    ids: set[str] = set()
    places: list[int] = []
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        for event in client.responses.create(**asked(model, session), stream=True):
            kinds.append(event.type)
            numbers.append(event.sequence_number)
            if event.type == "response.output_item.added":
                places.append(event.output_index)
            if hasattr(event, "response"):
                ids.add(event.response.id)
            if event.type == "response.completed":
                final = event.response
    assert numbers == sorted(numbers)
    assert places == list(range(len(final.output)))
    assert ids == {final.id}
    return heard_of(final, kinds)


def helper(url: str, model: str, session: str) -> Heard:
    """Read with `stream()`, which puts the response together."""
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        with client.responses.stream(**asked(model, session)) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
    assert len(final.output_text) > 0
    return heard_of(Response.model_validate(final.to_dict()), kinds)


def async_helper(url: str, model: str, session: str) -> Heard:
    """Read with `stream()`, async."""

    async def read() -> Heard:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            async with client.responses.stream(**asked(model, session)) as stream:
                kinds = [event.type async for event in stream]
                final = await stream.get_final_response()
        return heard_of(Response.model_validate(final.to_dict()), kinds)

    return anyio.run(read)


def langchain(url: str, model: str, session: str) -> ChatOpenAI:
    """Make LangChain's model, which gives up when no chunk comes if it is read async."""
    return ChatOpenAI(
        model=model,
        base_url=f"{url}/v1",
        api_key=SecretStr("none"),
        max_retries=0,
        timeout=PATIENCE[model],
        use_responses_api=True,
        default_headers={"x-session-id": session},
        stream_chunk_timeout=IDLE,
    )


FORMS: Mapping[str, Hear] = {
    "openai-python responses.create()": create,
    "openai-python responses.create(stream=True)": create_stream,
    "openai-python responses.stream()": helper,
    "openai-python async responses.stream()": async_helper,
    "openai-node responses.stream()": heard_in_node("openai-responses"),
    "LangChain use_responses_api=True, stream()": heard_in_chunks(langchain),
    "LangChain use_responses_api=True, astream()": heard_in_chunks_async(
        langchain, lambda chat: chat.root_async_client
    ),
    "Vercel AI SDK streamText()": heard_in_node("ai-responses"),
}
SHOWN = libraries(RESPONSES)
BEATEN = OPENAI_PYTHON.uses[1:]
"""These show heartbeats."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("responses")) as started:
        yield started


@pytest.fixture(scope="module")
def answers(running: Running, node: None) -> Answers:
    """What each client read of each upstream."""
    return hear_all(running.url, FORMS)


def test_the_table_names_every_form() -> None:
    assert list(FORMS) == [use for speaker in SHOWN for use in speaker.uses]


@tells(IMPATIENT, LANGCHAIN_RESPONSES)
@tells("a tool of the gateway, a stop message and a hold of 4 seconds, as one response", *SHOWN)
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("form", FORMS)
def test_several_turns_are_one_response(form: str, upstream: str, answers: Answers) -> None:
    heard = answers[form, upstream].result()
    is_one_answer(heard)
    assert heard.stop in ("completed", "stop")
    assert len(heard.texts) == 3


@tells("heartbeats", OPENAI_PYTHON)
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("form", BEATEN)
def test_heartbeats_are_events(form: str, upstream: str, answers: Answers) -> None:
    assert answers[form, upstream].result().beats >= 2


@tells("usage: the last input, all the output", *SHOWN)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_usage_is_the_last_input_and_all_the_output(
    upstream: str, running: Running, answers: Answers
) -> None:
    read = [answers[form, upstream].result() for form in FORMS]
    everyone = {(heard.input, heard.output) for heard in read}
    assert len(everyone) == 1
    ((given, made),) = everyone
    logged = running.exchanges(model=upstream)
    assert {entry["tokens_out"] for entry in logged} == {made}
    # What was said grows with every turn, so the last input is more than its share of them all.
    assert all(entry["tokens_in"] / entry["turns"] < given < entry["tokens_in"] for entry in logged)


@pytest.mark.usefixtures("answers")
def test_every_answer_was_held_and_ended_well(running: Running) -> None:
    were_held_and_ended_well(running, len(FORMS))
