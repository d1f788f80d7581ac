"""A gateway to upstreams of all dialects, and an answer of three turns that is held in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from .node import told
from .processes import Running, running
from .speakers import DIALECTS

SCRIPT = "several_turns.mjs"
# Long enough for the turns before it, so that there is something to wait for.
SECONDS = 4
PROMPT = f'<**stopMessage:"Thanks.",1**> remind me in {SECONDS} seconds to drink tea'
SETTINGS = {
    "HOLDGATE_CLOCK__ENABLED": "true",
    "HOLDGATE_CLOCK__NTP__ENABLED": "false",
    "HOLDGATE_CLOCK__DUE_WINDOW_MS": "0",
    "HOLDGATE_SERVER__KEEPALIVE_MS": "500",
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


Hear = Callable[[str, str, str], Heard]
"""Has an answer read: the gateway's address, the model, the session."""


Answers = Mapping[tuple[str, str], Future[Heard]]
"""What each form made of the answer of each upstream."""


def heard_in_node(form: str) -> Hear:
    """Make the way to have an answer read by a client of Node."""

    def hear(url: str, model: str, session: str) -> Heard:
        asked = {"form": form, "url": url, "model": model, "session": session, "prompt": PROMPT}
        return msgspec.json.decode(told(SCRIPT, asked), type=Heard)

    return hear


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
    assert (heard.begun, heard.ended) == (1, 1)
    assert heard.input > 0
    assert heard.output > 0
