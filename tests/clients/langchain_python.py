"""LangChain: `ChatOpenAI`, streamed and whole, sync and async."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from importlib.metadata import version
from typing import Any

import anyio
import httpx
import msgspec
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_openai import ChatOpenAI
from openai import APIError, APIStatusError
from pydantic import SecretStr

from .chat import Notes, body_of
from .reading import Ask, Client, Failure, Form, Reading

NAME = "LangChain"


class Followed:
    """What LangChain streams: each chunk is noted, and in the end what they add up to."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._sum: AIMessageChunk | None = None

    def add(self, chunk: Any) -> None:
        """Note a chunk."""
        assert isinstance(chunk, AIMessageChunk)
        begins, self._sum = self._sum is None, chunk if self._sum is None else self._sum + chunk
        # The one that ends a stream is LangChain's own.
        if chunk.chunk_position != "last":
            self._notes.chunk(_chunk(chunk, begins))

    def end(self) -> None:
        """Note the message that the chunks are together."""
        assert self._sum is not None
        self._notes.whole(_message(self._sum))


def read(url: str, asks: Sequence[Ask]) -> list[Reading]:
    """Read with `stream`, or with `invoke` what is not to be streamed."""
    taken = [Notes(ask) for ask in asks]
    with httpx.Client() as http:
        for ask, notes in zip(asks, taken, strict=True):
            with _failures(notes):
                _read(_model(url, ask, http_client=http), ask, notes)
    return [notes.reading() for notes in taken]


def _read(model: ChatOpenAI, ask: Ask, notes: Notes) -> None:
    if not ask.stream:
        notes.whole(_message(model.invoke(ask.prompt, **_tools(ask))))
        return
    followed = Followed(notes)
    with closing(model.stream(ask.prompt, **_tools(ask))) as stream:  # type: ignore[type-var]
        for chunk in stream:
            followed.add(chunk)
            if notes.enough:
                return
    followed.end()


async def async_read(url: str, asks: Sequence[Ask]) -> list[Reading]:
    """Read with `astream`, or with `ainvoke`."""
    taken = [Notes(ask) for ask in asks]
    async with httpx.AsyncClient() as http:
        for ask, notes in zip(asks, taken, strict=True):
            with _failures(notes):
                await _async_read(_model(url, ask, http_async_client=http), ask, notes)
    return [notes.reading() for notes in taken]


async def _async_read(model: ChatOpenAI, ask: Ask, notes: Notes) -> None:
    if not ask.stream:
        notes.whole(_message(await model.ainvoke(ask.prompt, **_tools(ask))))
        return
    followed = Followed(notes)
    async with aclosing(model.astream(ask.prompt, **_tools(ask))) as stream:  # type: ignore[type-var]
        async for chunk in stream:
            followed.add(chunk)
            if notes.enough:
                return
    followed.end()


def _model(url: str, ask: Ask, **client: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model=ask.model,
        base_url=f"{url}/v1",
        api_key=SecretStr("none"),
        streaming=ask.stream,
        stream_usage=ask.usage,
        max_retries=ask.retries,
        default_headers={"x-session-id": ask.session} if ask.session else None,
        stream_chunk_timeout=ask.idle,
        **client,
    )


def _tools(ask: Ask) -> dict[str, Any]:
    return {name: value for name, value in body_of(ask).items() if name == "tools"}


def _chunk(chunk: AIMessageChunk, begins: bool) -> dict[str, Any]:
    """Write a chunk as it came: LangChain does not show which one said who speaks."""
    delta = {
        "role": "assistant" if begins else None,
        "content": chunk.content or None,
        "tool_calls": [
            {"index": call["index"], "function": {"name": call["name"], "arguments": call["args"]}}
            for call in chunk.tool_call_chunks
        ],
    }
    choice = {"delta": delta, "finish_reason": chunk.response_metadata.get("finish_reason")}
    only_counts = chunk.usage_metadata is not None and not chunk.content
    return {"id": chunk.id, "choices": [] if only_counts else [choice], "usage": _usage(chunk)}


def _message(message: AIMessage) -> dict[str, Any]:
    calls = [
        {"function": {"name": call["name"], "arguments": _written(call["args"])}}
        for call in message.tool_calls
    ]
    assert not message.invalid_tool_calls
    told = {"role": "assistant", "content": message.content, "tool_calls": calls}
    choice = {"message": told, "finish_reason": message.response_metadata["finish_reason"]}
    return {"id": message.id, "choices": [choice], "usage": _usage(message)}


def _usage(message: AIMessage) -> dict[str, int] | None:
    usage = message.usage_metadata
    return usage and {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
    }


def _written(arguments: dict[str, Any]) -> str:
    return msgspec.json.encode(arguments).decode()


@contextmanager
def _failures(notes: Notes) -> Iterator[None]:
    try:
        yield
    except APIError as error:
        status = error.status_code if isinstance(error, APIStatusError) else None
        notes.failed(Failure(error.message, status, _name(error)))


def _name(error: APIError) -> str:
    """Return what openai-python calls it: some versions of LangChain raise heirs of that class."""
    kinds = type(error).__mro__
    return next(kind.__name__ for kind in kinds if kind.__module__.startswith("openai"))


CLIENT = Client(
    NAME,
    lambda: version("langchain-openai"),
    (
        Form(NAME, "stream()", read, reads_whole=True),
        Form(
            NAME, "astream()", lambda url, asks: anyio.run(async_read, url, asks), reads_whole=True
        ),
    ),
)
