"""An answer that is held for a reminder, as real clients read it: late, and in one piece."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from langchain_openai import StreamChunkTimeoutError

from . import langchain_python
from .catalogue import FORMS, SDK_FORMS, WHOLE_FORMS, shows
from .conftest import TIMED
from .processes import Running, running
from .reading import Ask, Form, Reading
from .spoken import IDLE

SECONDS = 3
ASK = Ask(f"remind me in {SECONDS} seconds to drink tea", idle=IDLE)
SETTINGS = {**TIMED, "HOLDGATE_SERVER__KEEPALIVE_MS": "500"}


@dataclass(frozen=True, slots=True)
class Held:
    """What a client made of an answer, and how long it took."""

    reading: Reading
    seconds: float


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway as anybody starts it, with the clock, and two heartbeats a second."""
    home = tmp_path_factory.mktemp("patient")
    with running("gateway", "serve", "--port", "0", home=home, settings=SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def streamed(patient: Running, node: None, curl: None) -> Mapping[Form, Held]:
    """Have every client read the answer, all at once: it takes its time."""
    return _read_at_once(patient, ASK, FORMS)


@pytest.fixture(scope="module")
def whole(patient: Running, node: None, curl: None) -> Mapping[Form, Held]:
    """Have every client that can read the answer in one piece do so, all at once."""
    return _read_at_once(patient, replace(ASK, stream=False), WHOLE_FORMS)


def _read_at_once(gateway: Running, ask: Ask, forms: tuple[Form, ...]) -> Mapping[Form, Held]:
    def read(form: Form) -> Held:
        begun = time.monotonic()
        session = f"{form} {'streamed' if ask.stream else 'whole'}"
        (reading,) = form.read(gateway.url, [replace(ask, session=session)])
        return Held(reading, time.monotonic() - begun)

    with ThreadPoolExecutor(len(forms)) as threads:
        return dict(zip(forms, threads.map(read, forms), strict=True))


def is_one_message(reading: Reading) -> None:
    """Check what every client must have made of it."""
    assert reading.failure is None
    first, second = reading.text.split("\n\n")
    assert first.startswith("I set it: drink tea. This answer stays open")
    assert second == "It is time: drink tea."
    assert reading.role == "assistant"
    assert reading.finishes == ("stop",)
    assert reading.calls == ()
    assert len(reading.ids) == 1


@shows("a hold of 3 seconds as one message")
def test_a_held_answer_is_one_message(form: Form, streamed: Mapping[Form, Held]) -> None:
    reading = streamed[form].reading
    is_one_message(reading)
    # The first turn is there long before the second.
    assert max(after - before for before, after in pairwise(reading.arrivals)) > SECONDS / 3
    assert reading.beats >= 2
    assert reading.end_marks == (0 if form in SDK_FORMS else 1)


@shows("a hold of 3 seconds as one message", WHOLE_FORMS)
def test_a_held_answer_in_one_piece(form: Form, whole: Mapping[Form, Held]) -> None:
    is_one_message(whole[form].reading)
    assert whole[form].seconds > SECONDS - 0.5


def test_langchain_gives_up_where_no_heartbeat_comes(gateway: Running) -> None:
    _, impatient = langchain_python.CLIENT.forms
    silence = Ask('demo: say="One two" delay_ms=0 quiet_ms=2000@1', idle=0.2)
    with pytest.raises(StreamChunkTimeoutError):
        impatient.read(gateway.url, [silence])
