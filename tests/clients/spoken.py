"""A gateway to upstreams of all dialects, and an answer of three turns that is held in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import anyio
import msgspec
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessageChunk

from .node import told
from .processes import Running, running
from .speakers import DIALECTS

SCRIPT = "several_turns.mjs"
# Long enough for the turns before it, so that there is something to wait for.
SECONDS = 4
# LangChain, read asynchronously, is told to give up after a second and a half without a chunk.
IDLE = 1.5
IMPATIENT = f"the hold outlasts `stream_chunk_timeout={IDLE}`"
# Models of LangChain's that are set alike share connections, which belong to one event loop.
PATIENCE = {dialect: 30.0 + number for number, dialect in enumerate(DIALECTS)}
PROMPT = f'<**stopMessage:"Thanks.",1**> remind me in {SECONDS} seconds to drink tea'
SETTINGS = {
    "HOLDGATE_CLOCK__ENABLED": "true",
    "HOLDGATE_CLOCK__NTP__ENABLED": "false",
    "HOLDGATE_CLOCK__DUE_WINDOW_MS": "0",
    # The turns take up some of the seconds, and on a busy machine most of them.
    "HOLDGATE_SERVER__KEEPALIVE_MS": "200",
}


@dataclass(frozen=True, slots=True)
class Heard:
    """What a client made of an answer."""

    texts: tuple[str, ...]
    """Each block or item of text by itself."""
    stop: str
    id: str
    input: int
    output: int
    beats: int = 0
    """How many heartbeats the client showed."""
    begun: int = 1
    """How often the answer began, where the client shows it."""
    ended: int = 1
    """How often it ended, where the client shows it."""
    turns: int | None = None
    """How many turns the usage speaks of, where it does."""
    calls: int = 0
    """How many tool calls the client saw, or anything else that is no text."""


HEARD = msgspec.json.Decoder(Heard)

Hear = Callable[[str, str, str], Heard]
"""Has an answer read: the gateway's address, the model, the session."""


M = TypeVar("M", bound=BaseChatModel)
Make = Callable[[str, str, str], M]
"""Makes a model of LangChain's out of the same."""

Answers = Mapping[tuple[str, str], Future[Heard]]
"""What each form made of the answer of each upstream."""


def heard_in_node(form: str) -> Hear:
    """Make the way to have an answer read by a client of Node."""

    def hear(url: str, model: str, session: str) -> Heard:
        asked = {"form": form, "url": url, "model": model, "session": session, "prompt": PROMPT}
        return HEARD.decode(told(SCRIPT, asked))

    return hear


def heard_in_chunks(make: Make[M]) -> Hear:
    """Make the way to have an answer read by LangChain's `stream`."""
    return lambda url, model, session: _added_up(make(url, model, session).stream(PROMPT))


def heard_in_chunks_async(
    make: Make[M], client: Callable[[M], AbstractAsyncContextManager[object]]
) -> Hear:
    """Make the way to have an answer read by LangChain's `astream`, whose client is then closed."""

    async def hear(url: str, model: str, session: str) -> Heard:
        made = make(url, model, session)
        async with client(made):
            return _added_up([chunk async for chunk in made.astream(PROMPT)])

    return lambda url, model, session: anyio.run(hear, url, model, session)


def _added_up(chunks: Iterable[BaseMessageChunk]) -> Heard:
    """Say what the chunks that LangChain streams add up to."""
    total: AIMessageChunk | None = None
    for chunk in chunks:
        assert isinstance(chunk, AIMessageChunk)
        total = chunk if total is None else total + chunk
    assert total is not None
    assert total.usage_metadata is not None
    blocks = [total.content] if isinstance(total.content, str) else total.content
    texts = [block if isinstance(block, str) else block.get("text", "") for block in blocks]
    usage, about = total.usage_metadata, total.response_metadata
    return Heard(
        tuple(texts),
        about.get("stop_reason") or about["status"],
        about.get("id") or total.id or "",
        usage["input_tokens"],
        usage["output_tokens"],
        calls=len(total.tool_call_chunks),
    )


@contextmanager
def gateway(home: Path) -> Iterator[Running]:
    """Run the demo upstream, and a gateway that speaks each of its dialects to it."""
    with running(
        "gateway", "demo-upstream", "--port", "0", home=_made(home, "up"), settings={}
    ) as up:
        base = f"{up.url.removesuffix('/v1')}/v1"
        upstreams = [{"id": name, "base_url": base, "dialect": name} for name in DIALECTS]
        models = [{"name": name, "routes": [f"{name}/demo"]} for name in DIALECTS]
        tables = {"HOLDGATE_UPSTREAMS": upstreams, "HOLDGATE_MODELS": models}
        settings = {name: json.dumps(rows) for name, rows in tables.items()} | SETTINGS
        arguments = ("gateway", "serve", "--port", "0")
        with running(*arguments, home=_made(home, "gate"), settings=settings) as started:
            yield started


def _made(home: Path, name: str) -> Path:
    (home / name).mkdir()
    return home / name


def hear_all(url: str, forms: Mapping[str, Hear]) -> Answers:
    """Have every form read the answer of every upstream, all at once: it takes its time."""
    pairs: Sequence[tuple[str, str]] = [(form, model) for form in forms for model in DIALECTS]

    def hear(pair: tuple[str, str]) -> Heard:
        form, model = pair
        return forms[form](url, model, f"{form} {model}")

    with ThreadPoolExecutor(len(pairs)) as threads:
        return {pair: threads.submit(hear, pair) for pair in pairs}


def is_one_answer(heard: Heard) -> None:
    """Check what every client of every upstream must have made of it."""
    assert heard.texts[0].startswith("I set it: drink tea. This answer stays open")
    assert "You are welcome!" in "".join(heard.texts)
    assert heard.texts[-1].endswith("It is time: drink tea.")
    assert heard.stop in ("end_turn", "completed", "stop")
    assert heard.id
    assert (heard.begun, heard.ended, heard.calls) == (1, 1, 0)
    assert heard.input > 0
    assert heard.output > 0


def count_all_turns(running: Running, upstream: str, answers: Answers) -> None:
    """Check that each form was told what all turns of that upstream cost, and told it once."""
    read = [answer.result() for (_, model), answer in answers.items() if model == upstream]
    everyone = {(heard.input, heard.output) for heard in read}
    logged = {(e["tokens_in"], e["tokens_out"]) for e in running.exchanges(model=upstream)}
    assert everyone == logged


def were_held_and_ended_well(running: Running, forms: int) -> None:
    """Check what is logged once so many forms have read the answer of every upstream."""
    running.until(lambda: len(running.exchanges()) == forms * len(DIALECTS))
    ended = running.exchanges()
    assert {(exchange["state"], exchange["status"]) for exchange in ended} == {("done", 200)}
    # The reminder counts from a moment after the request came.
    assert all(exchange["ms"] > (SECONDS - 1) * 1000 for exchange in ended)
