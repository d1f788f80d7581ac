"""eventsource by itself: it comes back at the end of whatever it reads, and says how far it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import msgspec
import pytest

from .catalogue import tells
from .chat import PATH, body_of
from .conftest import TIMED
from .eventsource_node import NAME
from .node import DIRECTORY
from .processes import Running, running, wait
from .reading import Ask

SCRIPT = "eventsource_follow.mjs"
SERVE = ("gateway", "serve", "--port")
# It comes back after three seconds.
AWAY = 2
PLACES = {"begun": "", "not-begun": "?after=0"}
"""Sessions: one has seen an event before the gateway ends, one has not but names a place."""


class Shown(msgspec.Struct):
    """What it showed: an event, or how it fares."""

    name: str
    kind: str
    id: str
    data: str

    @property
    def text(self) -> str:
        """The text of a reminder."""
        said: str = json.loads(self.data)["data"]["text"]
        return said


SHOWN = msgspec.json.Decoder(Shown)


@dataclass(frozen=True, slots=True)
class Following:
    """One that follows several addresses."""

    printed: Path

    def shown(self, name: str, kind: str) -> list[Shown]:
        """Return all that it showed of one kind, of one address."""
        *lines, _unfinished = self.printed.read_bytes().split(b"\n")
        told = [SHOWN.decode(line) for line in lines]
        return [one for one in told if (one.name, one.kind) == (name, kind)]

    def until(self, kind: str, **counts: int) -> None:
        """Wait until so many of one kind were shown of some addresses."""
        wait(
            lambda: all(len(self.shown(name, kind)) >= count for name, count in counts.items()),
            self.printed,
        )


Stories = Mapping[str, Future[Following]]


@contextmanager
def following(place: Path, *addresses: Mapping[str, str]) -> Iterator[Following]:
    """Have it follow these for a while."""
    with (
        (place / "printed").open("wb") as stdout,
        subprocess.Popen(
            ("node", SCRIPT), cwd=DIRECTORY, stdin=subprocess.PIPE, stdout=stdout
        ) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(addresses))
        process.stdin.close()
        try:
            yield Following(place / "printed")
        finally:
            process.terminate()


def remind(url: str, session: str, text: str, seconds: float = 0) -> None:
    """Have something happen in a session."""
    due = datetime.now(UTC) + timedelta(seconds=seconds)
    reminder = {"dueAt": due.isoformat(), "task": text}
    httpx.post(f"{url}/api/sessions/{session}/reminders", json=reminder).raise_for_status()


def followed_over_an_end(ending: signal.Signals, home: Path) -> Following:
    """Have the gateway end, and begin again at the same address, while sessions are followed."""
    settings = {**TIMED, "HOLDGATE_CLOCK__DUE_WINDOW_MS": "0"}
    with ExitStack() as stack:
        with running(*SERVE, "0", home=home, settings=settings) as gate:
            events = [
                {"name": name, "address": f"{gate.url}/api/sessions/{name}/events{place}"}
                for name, place in PLACES.items()
            ]
            followed = stack.enter_context(following(home, *events))
            followed.until("open", **dict.fromkeys(PLACES, 1))
            remind(gate.url, "begun", "before")
            followed.until("reminder.due", begun=1)
            for session in PLACES:
                remind(gate.url, session, "meanwhile", AWAY)
            os.kill(gate.pid, ending)
        port = gate.url.rpartition(":")[2]
        with running(*SERVE, port, home=home, settings=settings) as gate:
            followed.until("open", **dict.fromkeys(PLACES, 2))
            for session in PLACES:
                remind(gate.url, session, "after")
            followed.until("reminder.due", begun=3, **{"not-begun": 2})
    return followed


def left_alone(url: str, place: Path) -> Following:
    """Have it read an answer and a refusal, and close neither."""
    asks = {"refused": Ask("Hello!", model="nobody"), "answered": Ask('demo: say="Again."')}
    bodies = {name: msgspec.json.encode(body_of(ask)).decode() for name, ask in asks.items()}
    posts = [{"name": n, "address": url + PATH, "body": body} for n, body in bodies.items()]
    with following(place, *posts) as followed:
        followed.until("open", answered=2)
    return followed


@pytest.fixture(scope="module")
def stories(node: None, gateway: Running, tmp_path_factory: pytest.TempPathFactory) -> Stories:
    """Play all at once: each waits for it to come back."""
    place = tmp_path_factory.mktemp
    plays: dict[str, Callable[[], Following]] = {
        "ended": lambda: followed_over_an_end(signal.SIGTERM, place("ended")),
        "killed": lambda: followed_over_an_end(signal.SIGKILL, place("killed")),
        "left alone": lambda: left_alone(gateway.url, place("alone")),
    }
    with ThreadPoolExecutor(len(plays)) as threads:
        return {name: threads.submit(play) for name, play in plays.items()}


@tells("events of a session, gone on with when the gateway was restarted or killed", NAME)
@pytest.mark.parametrize(
    "session, texts",
    [("begun", ["before", "meanwhile", "after"]), ("not-begun", ["meanwhile", "after"])],
)
@pytest.mark.parametrize("story", ["ended", "killed"])
def test_it_misses_no_event_and_sees_none_twice(
    story: str, session: str, texts: list[str], stories: Stories
) -> None:
    shown = stories[story].result().shown(session, "reminder.due")
    assert [one.text for one in shown] == texts
    ids = [int(one.id) for one in shown]
    assert ids == sorted(set(ids))


def test_it_asks_again_for_an_answer_that_it_did_not_close(stories: Stories) -> None:
    followed = stories["left alone"].result()
    assert "[DONE]" in [one.data for one in followed.shown("answered", "message")]
    assert len(followed.shown("answered", "error")) == 1


def test_it_does_not_ask_again_when_it_is_refused(stories: Stories) -> None:
    followed = stories["left alone"].result()
    assert len(followed.shown("refused", "error")) == 1
    assert followed.shown("refused", "open") == []
