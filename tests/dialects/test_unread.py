"""What is found in requests and answers that are passed on unread: the model, and the tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.unread import (
    MOST_LOOKS,
    TAIL_BYTES,
    WHOLE_BYTES,
    AnswerTail,
    UnreadAnswer,
    UnreadBodyTap,
    UnreadStreamTap,
    find_stream_usage,
    find_usage,
    read_large_unread,
    read_unread,
)
from gateway.errors import BadRequest, UpstreamBroke
from gateway.exchange.model import Stop, Usage
from tests.gateway.wire import DONE, data

TOLD = {"usage": {"prompt_tokens": 8, "total_tokens": 8}}
STREAM = (
    data({"usage": None}) + data({"usage": {"prompt_tokens": 3, "completion_tokens": 2}}) + DONE
)


class TestRequests:
    """Only the model is read."""

    def test_a_body_is_left_as_it_is(self) -> None:
        body = b'{"model" : "m", "input":[1.50]}'
        asked = read_unread(body, 128, "")
        assert asked.model == "m"
        assert asked.body is body

    def test_the_body_of_a_large_one_is_not_sent_back_unless_it_changed(self) -> None:
        assert read_large_unread(b'{"model": "m"}', 128, "").body == b""
        assert read_large_unread(b"{}", 128, "m").body == b'{"model":"m"}'

    @pytest.mark.parametrize("body", [b"{}", b"[]", b"", b'{"model": 1}', b'{"model": ""}'])
    def test_without_a_model_it_is_refused(self, body: bytes) -> None:
        with pytest.raises(BadRequest):
            read_unread(body, 128, "")


class TestTokens:
    """Usage is read at the top level, and nowhere else."""

    @pytest.mark.parametrize(
        ("told", "usage"),
        [
            ({"prompt_tokens": 8, "total_tokens": 8}, Usage(8, 0)),
            ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, Usage(3, 2)),
            ({"input_tokens": 40, "output_tokens": 9, "total_tokens": 49}, Usage(40, 9)),
            ({"prompt_tokens": 3, "total_tokens": 5}, Usage(3, 2)),
            ({"prompt_tokens": 3}, Usage(3, 0)),
            (
                {
                    "prompt_tokens": 9,
                    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
                    "completion_tokens": 7,
                    "completion_tokens_details": {"reasoning_tokens": 5},
                },
                Usage(9, 7, 4, 5),
            ),
            (
                {
                    "input_tokens": 40,
                    "input_tokens_details": {"cached_tokens": 30},
                    "output_tokens": 9,
                    "output_tokens_details": {"reasoning_tokens": 6},
                },
                Usage(40, 9, 30, 6),
            ),
            ({"prompt_tokens": 3, "prompt_tokens_details": None}, Usage(3, 0)),
            ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": None}}, Usage(3, 0)),
            ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": "4"}}, Usage(3, 0)),
            ({"prompt_tokens": 3, "prompt_tokens_details": [4]}, Usage(3, 0)),
            ({"prompt_tokens": 3, "other": {"a": 1}}, Usage(3, 0)),
            ({"prompt_tokens": "many"}, None),
            (None, None),
            (7, None),
        ],
    )
    @pytest.mark.parametrize("is_whole", [True, False])
    def test_forms(self, told: Any, usage: Usage | None, is_whole: bool) -> None:
        answer = json.dumps({"data": [], "usage": told}).encode()
        assert find_usage(answer, is_whole) == usage

    @pytest.mark.parametrize("end", ["", " \n"])
    @pytest.mark.parametrize("after", [{}, {"model": "usage", "more": [{"usage": 1}]}])
    def test_the_end_is_enough(self, after: dict[str, Any], end: str) -> None:
        answer = json.dumps({"data": [0.5] * 100, **TOLD, **after}) + end
        for at in range(200, len(answer) - 100):
            tail = answer[at:].encode()
            wanted = Usage(8, 0) if b'"usage": {' in tail else None
            assert find_usage(tail, False) == wanted

    @pytest.mark.parametrize(
        "answer",
        [
            {"data": [TOLD]},
            {"data": TOLD},
            {"text": 'x"usage":{"prompt_tokens":8}}'},
            {"text": "usage", "x": {"prompt_tokens": 8}},
            [TOLD],
            {"data": ["usage"] * MOST_LOOKS, "x": 1},
        ],
    )
    def test_what_is_not_meant(self, answer: Any) -> None:
        text = json.dumps(answer).encode()
        assert find_usage(text, True) is None
        for at in range(len(text)):
            assert find_usage(text[at:], False) is None

    def test_the_look_is_bounded(self) -> None:
        end = b'"usage":1,' * MOST_LOOKS
        answer = b'{"usage":{"prompt_tokens":8},' + end + b'"x":[}'
        assert find_usage(answer, False) is None

    @pytest.mark.parametrize("answer", [b"", b"{", b"\xff", b'{"usage"', b"[" * 100_000])
    def test_what_is_no_json(self, answer: bytes) -> None:
        assert find_usage(answer, True) is None
        assert find_usage(answer, False) is None

    def test_the_last_frame_that_tells_counts(self) -> None:
        assert find_stream_usage(STREAM) == Usage(3, 2)
        assert find_stream_usage(STREAM + data({"usage": None})) == Usage(3, 2)
        assert find_stream_usage(data({"text": "x"}) + b": hm\n\n" + DONE) is None


class TestTail:
    """Of a long answer only the end is kept."""

    def test_a_short_one_is_kept_whole(self) -> None:
        tail = AnswerTail()
        tail.add(b"a" * WHOLE_BYTES)
        tail.add(b"")
        assert tail.is_whole
        assert len(tail.join()) == WHOLE_BYTES

    @pytest.mark.parametrize("piece", [100, TAIL_BYTES, 3 * TAIL_BYTES])
    def test_of_a_long_one_the_end_is_kept(self, piece: int) -> None:
        tail, sent = AnswerTail(), b""
        for number in range(2 * WHOLE_BYTES // piece):
            data = b"%d" % (number % 10) * piece
            tail.add(data)
            sent += data
        kept = tail.join()
        assert not tail.is_whole
        assert TAIL_BYTES <= len(kept) < TAIL_BYTES + piece
        assert sent.endswith(kept)

    def test_tokens_are_found_in_answers_of_any_length(self) -> None:
        for size in (1, WHOLE_BYTES, 3 * WHOLE_BYTES):
            tap = UnreadBodyTap(b"application/json; charset=utf-8")
            answer = b'{"data":"%b","usage":{"prompt_tokens":9}}' % (b"x" * size)
            pieces = [answer[at : at + 60_000] for at in range(0, len(answer), 60_000)]
            assert b"".join(map(tap.feed, pieces)) + tap.close() == answer
            assert tap.end().usage == Usage(9)


class TestAnswers:
    """Bytes are shown as they come."""

    def test_a_body(self) -> None:
        answer = UnreadAnswer(100)
        tap = answer.tap()
        assert not tap.seen
        assert tap.feed(b'{"a"') == b'{"a"'
        assert tap.seen
        assert not tap.ended
        assert tap.feed(b":1}") == b":1}"
        assert tap.close() == b""
        assert tap.ended
        assert tap.failure is None
        end = tap.end()
        assert (end.stop, end.usage, end.continuable) == (Stop.UNKNOWN, None, False)
        assert (tap.rebuild_turn().message, tap.client_call_ids(), tap.text()) == (None, (), "")

    def test_what_is_no_json_is_not_looked_at(self) -> None:
        tap = UnreadBodyTap(b"text/plain")
        tap.feed(json.dumps(TOLD).encode())
        assert tap.end().usage is None

    @pytest.mark.parametrize("split", range(len(STREAM) + 1))
    def test_a_stream_in_whole_frames(self, split: int) -> None:
        answer = UnreadAnswer(1000)
        answer.content_type = b"Text/Event-Stream; charset=utf-8"
        tap = answer.tap()
        shown = [tap.feed(STREAM[:split]), tap.feed(STREAM[split:])]
        assert all(not one or one.endswith(b"\n\n") for one in shown)
        assert tap.seen
        assert b"".join(shown) + tap.close() == STREAM
        assert tap.ended
        assert tap.end().usage == Usage(3, 2)

    def test_the_last_frame_need_not_end(self) -> None:
        tap = UnreadStreamTap(1000)
        assert tap.feed(b'data: {"usage":{"prompt_tokens":1}}') == b""
        assert not tap.seen
        assert tap.close() == b'data: {"usage":{"prompt_tokens":1}}\n\n'
        assert tap.end().usage == Usage(1)

    def test_a_frame_without_end_is_not_kept_for_ever(self) -> None:
        tap = UnreadStreamTap(100)
        assert tap.feed(b"data: " + b"x" * 90) == b""
        with pytest.raises(UpstreamBroke):
            tap.feed(b"x" * 90)

    def test_one_that_is_all_there_is_kept_for_the_end(self) -> None:
        answer = UnreadAnswer(100)
        tap = answer.tap()
        answer.keep(b"{}")
        answer.take(tap)
        answer.rest()
        assert answer.tail(neutral_finish=False) == b"{}"
        assert answer.heartbeat() == b""
        assert answer.accepts(b"anything")
        answer.forget()
        assert answer.tail(neutral_finish=False) == b""
