"""httpx-sse: plain events, sync and async."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import anyio
import httpx
from httpx_sse import aconnect_sse, connect_sse

from .chat import PATH, Notes, body_of
from .reading import Ask, Client, Form, Reading

NAME = "httpx-sse"


def read(url: str, asks: Sequence[Ask]) -> list[Reading]:
    """Read with `connect_sse`."""
    taken = [Notes(ask) for ask in asks]
    with httpx.Client(base_url=url) as client:
        for ask, notes in zip(asks, taken, strict=True):
            _read(client, ask, notes)
    return [notes.reading() for notes in taken]


def _read(client: httpx.Client, ask: Ask, notes: Notes) -> None:
    with connect_sse(client, "POST", PATH, json=body_of(ask)) as source:
        if source.response.is_error:
            notes.refused(source.response.status_code, source.response.read())
            return
        for event in source.iter_sse():
            notes.event(event.data)
            if notes.enough:
                return


async def async_read(url: str, asks: Sequence[Ask]) -> list[Reading]:
    """Read with `aconnect_sse`."""
    taken = [Notes(ask) for ask in asks]
    async with httpx.AsyncClient(base_url=url) as client:
        for ask, notes in zip(asks, taken, strict=True):
            await _async_read(client, ask, notes)
    return [notes.reading() for notes in taken]


async def _async_read(client: httpx.AsyncClient, ask: Ask, notes: Notes) -> None:
    async with aconnect_sse(client, "POST", PATH, json=body_of(ask)) as source:
        if source.response.is_error:
            notes.refused(source.response.status_code, await source.response.aread())
            return
        async for event in source.aiter_sse():
            notes.event(event.data)
            if notes.enough:
                return


CLIENT = Client(
    NAME,
    lambda: version("httpx-sse"),
    (
        Form(NAME, "connect_sse", read),
        Form(NAME, "aconnect_sse", lambda url, asks: anyio.run(async_read, url, asks)),
    ),
    is_sdk=False,
)
