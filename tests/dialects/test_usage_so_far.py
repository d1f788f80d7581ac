"""What an upstream has reported of an answer that breaks off."""

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.protocol import Tap
from gateway.dialects.unread import UnreadBodyTap, UnreadStreamTap
from gateway.exchange.model import ModelRequest, Usage
from tests.dialects.messages_wire import begin, delta, start

TEXT = begin(0, {"type": "text", "text": ""}) + delta(0, "text_delta", text="Hi")


def open_tap(dialect: str, *, stream: bool = True) -> Tap:
    asked = ModelRequest(model="m", body=b"{}", stream=stream)
    return DIALECTS[dialect].splice(asked, frozenset(), 10**6).tap()


def test_messages_reports_the_input_at_the_start() -> None:
    tap = open_tap("anthropic-messages")
    assert tap.usage_so_far() is None
    tap.feed(start(input_tokens=60) + TEXT)
    assert tap.usage_so_far() == Usage(60, 1)


def test_the_zeros_of_a_translated_stream_report_nothing() -> None:
    tap = open_tap("anthropic-messages")
    tap.feed(start(input_tokens=0, output_tokens=0) + TEXT)
    assert tap.usage_so_far() is None


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize("stream", [True, False])
def test_others_report_at_the_end(dialect: str, stream: bool) -> None:
    assert open_tap(dialect, stream=stream).usage_so_far() is None


def test_what_is_not_read_reports_what_its_stream_told() -> None:
    assert UnreadBodyTap(b"application/json").usage_so_far() is None
    tap = UnreadStreamTap(1000)
    assert tap.usage_so_far() is None
    tap.feed(b'data: {"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n')
    assert tap.usage_so_far() == Usage(7, 2)
