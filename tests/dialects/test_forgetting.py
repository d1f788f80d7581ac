"""An answer that is over is gone at once: nothing of it waits for the garbage collector."""

from __future__ import annotations

import gc
import json

import pytest

from gateway.dialects import DIALECTS as SPOKEN
from gateway.exchange.model import ModelRequest
from tests.dialects.answers_wire import DIALECTS, fixture
from tests.dialects.test_translate_answers_whole import BODIES


def answer(dialect: str, stream: bool) -> bytes:
    return fixture(dialect, "tool") if stream else json.dumps(BODIES[dialect]).encode()


def live(dialect: str, stream: bool) -> None:
    """Read a turn to its end, with another one begun, and forget them."""
    asked = ModelRequest(model="m", body=b"{}", stream=stream)
    splice = SPOKEN[dialect].splice(asked, frozenset({"clock"}), 10**6)
    tap = splice.tap()
    tap.feed(answer(dialect, stream))
    tap.close()
    splice.take(tap)
    splice.tail(neutral_finish=False)
    splice.tap()
    splice.forget()


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_nothing_is_left_for_the_collector(dialect: str, stream: bool) -> None:
    gc.collect()
    gc.disable()
    try:
        live(dialect, stream)
        assert gc.collect() == 0
    finally:
        gc.enable()
