"""A chat in the terminal, over the gateway's own HTTP API."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx

from gateway.sse import Framer, data_of

Message = dict[str, str]


class Refused(Exception):
    """The gateway did not answer."""


def chat(url: str, key: str, session: str, model: str) -> int:
    """Talk until the input ends; Ctrl-C leaves an answer, or the chat."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    if session:
        headers["x-session-id"] = session
    with httpx.Client(base_url=url, headers=headers, timeout=None, trust_env=False) as client:
        try:
            model = model or _first_model(client)
            print(f"{model} at {url}; Ctrl-D ends the chat.", file=sys.stderr)
            _talk(client, model)
        except Refused as refused:
            print(f"holdgate: {refused}", file=sys.stderr)
            return 1
        except httpx.TransportError:
            print(
                f"holdgate: nobody answers at {url}; is `holdgate serve` running?", file=sys.stderr
            )
            return 1
    return 0


def _talk(client: httpx.Client, model: str) -> None:
    history: list[Message] = []
    while True:
        try:
            text = input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if text.strip():
            _turn(client, model, history, text)


def _turn(client: httpx.Client, model: str, history: list[Message], text: str) -> None:
    """Ask and show; what was not answered is not part of the conversation."""
    history.append({"role": "user", "content": text})
    try:
        history.append({"role": "assistant", "content": _show(client, model, history)})
    except Refused as refused:
        history.pop()
        print(f"\nholdgate: {refused}", file=sys.stderr)


def _show(client: httpx.Client, model: str, history: list[Message]) -> str:
    said = ""
    try:
        for piece in _pieces(client, model, history):
            said += piece
            print(piece, end="", flush=True)
    except KeyboardInterrupt:
        print(" (left)", end="")
    print()
    return said


def _pieces(client: httpx.Client, model: str, history: list[Message]) -> Iterator[str]:
    body = {"model": model, "stream": True, "messages": history}
    notes = {"x-holdgate-notes": "1"}
    with client.stream("POST", "/v1/chat/completions", json=body, headers=notes) as answer:
        if answer.status_code != 200:
            answer.read()
            raise Refused(_reason(answer))
        framer = Framer()
        for data in answer.iter_bytes():
            for frame in framer.feed(data):
                yield from _text(data_of(frame))


def _text(data: bytes | None) -> Iterator[str]:
    if data is None or data == b"[DONE]":
        return
    chunk: dict[str, Any] = json.loads(data)
    if "error" in chunk:
        raise Refused(chunk["error"].get("message", "the answer broke off"))
    for choice in chunk.get("choices", []):
        yield choice.get("delta", {}).get("content") or ""


def _first_model(client: httpx.Client) -> str:
    answer = client.get("/v1/models")
    if answer.status_code != 200:
        raise Refused(_reason(answer))
    models = answer.json()["data"]
    if not models:
        raise Refused("no model is listed; name one with --model.")
    return str(models[0]["id"])


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the answer was {answer.status_code}."
