"""openai-python: `create` and the `stream()` helper, sync and async."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import anyio
from openai import APIError, APIStatusError, AsyncOpenAI, OpenAI

from .chat import Notes, body_of
from .reading import Ask, Client, Failure, Form, Read, Reading

NAME = "openai-python"

One = Callable[[OpenAI, Ask, Notes], None]
AsyncOne = Callable[[AsyncOpenAI, Ask, Notes], Awaitable[None]]


def create(client: OpenAI, ask: Ask, notes: Notes) -> None:
    """Read with `create`."""
    if not ask.stream:
        notes.whole(client.chat.completions.create(**body_of(ask)).to_dict())
        return
    with client.chat.completions.create(**body_of(ask)) as stream:
        for chunk in stream:
            notes.chunk(chunk.to_dict())
            if notes.enough:
                return


def helper(client: OpenAI, ask: Ask, notes: Notes) -> None:
    """Read with `stream()`, which puts the message together."""
    with client.chat.completions.stream(**_without_stream(ask)) as stream:
        for event in stream:
            if event.type == "chunk":
                notes.chunk(event.chunk.to_dict())
                if notes.enough:
                    return
        notes.whole(stream.get_final_completion().to_dict())


async def async_create(client: AsyncOpenAI, ask: Ask, notes: Notes) -> None:
    """Read with `create`, async."""
    if not ask.stream:
        notes.whole((await client.chat.completions.create(**body_of(ask))).to_dict())
        return
    async with await client.chat.completions.create(**body_of(ask)) as stream:
        async for chunk in stream:
            notes.chunk(chunk.to_dict())
            if notes.enough:
                return


async def async_helper(client: AsyncOpenAI, ask: Ask, notes: Notes) -> None:
    """Read with `stream()`, async."""
    async with client.chat.completions.stream(**_without_stream(ask)) as stream:
        async for event in stream:
            if event.type == "chunk":
                notes.chunk(event.chunk.to_dict())
                if notes.enough:
                    return
        notes.whole((await stream.get_final_completion()).to_dict())


def reading(one: One) -> Read:
    """Make the sync way to read."""

    def read(url: str, asks: Sequence[Ask]) -> list[Reading]:
        taken = [Notes(ask) for ask in asks]
        with OpenAI(base_url=f"{url}/v1", api_key="none") as client:
            for ask, notes in zip(asks, taken, strict=True):
                with _failures(notes):
                    one(client.with_options(max_retries=ask.retries), ask, notes)
        return [notes.reading() for notes in taken]

    return read


def async_reading(one: AsyncOne) -> Read:
    """Make the async way to read."""

    async def read(url: str, asks: Sequence[Ask]) -> list[Reading]:
        taken = [Notes(ask) for ask in asks]
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
            for ask, notes in zip(asks, taken, strict=True):
                with _failures(notes):
                    await one(client.with_options(max_retries=ask.retries), ask, notes)
        return [notes.reading() for notes in taken]

    return lambda url, asks: anyio.run(read, url, asks)


@contextmanager
def _failures(notes: Notes) -> Iterator[None]:
    try:
        yield
    except APIError as error:
        status = error.status_code if isinstance(error, APIStatusError) else None
        notes.failed(Failure(error.message, status, type(error).__name__))


def _without_stream(ask: Ask) -> dict[str, Any]:
    return {name: value for name, value in body_of(ask).items() if name != "stream"}


CLIENT = Client(
    NAME,
    lambda: version("openai"),
    (
        Form(NAME, "create()", reading(create), reads_whole=True),
        Form(NAME, "stream()", reading(helper)),
        Form(NAME, "async create()", async_reading(async_create), reads_whole=True),
        Form(NAME, "async stream()", async_reading(async_helper)),
    ),
)
