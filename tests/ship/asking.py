"""What is asked of a gateway that was installed somewhere: a stream, a hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

DATA = "data: "


@contextmanager
def open_stream(url: str, text: str, key: str = "", session: str = "") -> Iterator[Iterator[str]]:
    """Ask the demo model; yield the pieces of its answer as they come."""
    body = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": f"Bearer {key}"} if key else {}
    if session:
        headers["x-session-id"] = session
    with (
        httpx.Client(trust_env=False, timeout=60) as client,
        client.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        yield read_pieces(answer)


def read_pieces(answer: httpx.Response) -> Iterator[str]:
    """Yield the texts of a stream; fail if it has no proper end."""
    last = ""
    for line in answer.iter_lines():
        if line.startswith(DATA):
            last = line.removeprefix(DATA)
            if last != "[DONE]":
                for choice in json.loads(last)["choices"]:
                    if piece := choice["delta"].get("content"):
                        yield piece
    assert last == "[DONE]"
