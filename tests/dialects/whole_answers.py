"""Answers of one piece, as the tests of all dialects have them read."""

from __future__ import annotations

from gateway.dialects.protocol import Splice, Tap


def run(answer: Splice, data: bytes) -> Tap:
    """Have one turn read, in two pieces: nothing of it is shown before it is whole."""
    tap = answer.tap()
    assert tap.feed(data[:5]) == tap.feed(data[5:]) == b""
    assert not tap.seen
    tap.close()
    assert tap.seen
    assert tap.ended
    answer.take(tap)
    return tap
