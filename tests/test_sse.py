"""Frames: any split of any stream gives the same ones, and they match an independent reading."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamBroke
from gateway.wire.sse import BOM, Framer, comment, data_of, encode, split, split_events

STREAM = 'data: {"a":"é€😀"}\n\n: note\n\nevent: x\r\ndata: 1\r\ndata: 2\r\n\r\ndata: cr\r\rdata: end\n\n'.encode()


def events(stream: bytes) -> list[tuple[str, str]]:
    """An independent reader, written from the standard's text: (event, data) pairs."""
    text = stream.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found: list[tuple[str, str]] = []
    event, data = "", list[str]()
    for line in text.split("\n"):
        if line == "":
            if data:
                found.append((event, "\n".join(data)))
            event, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            event = value
    return found


def datas(frames: list[bytes]) -> list[str]:
    return [d.decode("utf-8", "surrogateescape") for f in frames if (d := data_of(f)) is not None]


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_any_split_gives_the_same_frames(at: int) -> None:
    whole = Framer().feed(STREAM)
    framer = Framer()
    assert framer.feed(STREAM[:at]) + framer.feed(STREAM[at:]) == whole
    assert datas(whole) == [data for _, data in events(STREAM)]


def test_one_byte_at_a_time() -> None:
    framer = Framer()
    frames = [f for i in range(len(STREAM)) for f in framer.feed(STREAM[i : i + 1])]
    assert frames == Framer().feed(STREAM)


LINES = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data",
        b": c",
        b"event: e",
        b"id: 1",
        b"",
        b"x",
        b"data: \xe2\x82\xac",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=30), st.lists(st.integers(0, 400), max_size=12))
def test_generated_streams_in_generated_pieces(
    lines: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(line + end for line, end in lines) + b"\ndata: z\n\n"
    points = sorted({0, *(c for c in cuts if c < len(stream)), len(stream)})
    framer = Framer()
    pieces = [stream[a:b] for a, b in pairwise(points)]
    frames = [f for piece in pieces for f in framer.feed(piece)]
    assert frames == Framer().feed(stream)
    assert datas(frames) == [data for _, data in events(stream)]


@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda b: b"\r" not in b), max_size=20))
def test_bytes_of_an_lf_stream_pass_unchanged(pieces: list[bytes]) -> None:
    framer = Framer()
    out = b"".join(framer.batch(piece) for piece in pieces)
    whole = b"".join(pieces).removeprefix(BOM)
    assert whole.startswith(out)
    assert b"\n\n" not in whole[len(out) :]


def test_crlf_streams_pass_unchanged() -> None:
    stream = b"data: 1\r\n\r\ndata: 2\r\n\r\n"
    for at in range(len(stream)):
        framer = Framer()
        assert framer.batch(stream[:at]) + framer.batch(stream[at:]) == stream


@pytest.mark.parametrize("cut", range(4))
def test_a_byte_order_mark_is_dropped_at_the_start_only(cut: int) -> None:
    stream = BOM + b"data: 1\n\n" + b"data: " + BOM + b"\n\n"
    framer = Framer()
    assert framer.batch(stream[:cut]) + framer.batch(stream[cut:]) == stream.removeprefix(BOM)


def test_a_frame_that_ends_in_cr_is_not_held_back() -> None:
    framer = Framer()
    assert framer.batch(b"data: 1\r\r") == b"data: 1\r\r"
    assert framer.batch(b"\ndata: 2\r\r") == b"data: 2\r\r"


def test_line_ends_may_change_within_a_stream() -> None:
    pieces = [b"data: 1\r\n\r\n" + b"data: " + b"x" * 50, b"\n\ndata: 2", b"\r\n\r\n"]
    framer = Framer()
    assert b"".join(framer.batch(piece) for piece in pieces) == b"".join(pieces)


def test_an_empty_line_across_two_reads() -> None:
    framer = Framer()
    assert framer.batch(b"data: 1\n") == b""
    assert framer.batch(b"\ndata: 2") == b"data: 1\n\n"
    assert framer.batch(b"\n") == b""
    assert framer.batch(b"\n") == b"data: 2\n\n"


def test_a_line_feed_after_two_carriage_returns_belongs_to_them() -> None:
    assert Framer().batch(b"data: 1\r\r\ndata: 2\r\r") == b"data: 1\r\rdata: 2\r\r"


def test_u2028_is_text_not_a_line_end() -> None:
    frame = 'data: {"t":"a\u2028b\u0085c"}\n\n'.encode()
    assert split(frame) == [frame]
    assert data_of(frame) == frame[6:-2]


def test_an_event_larger_than_the_limit_is_refused() -> None:
    framer = Framer(limit=100)
    framer.batch(b"data: " + b"x" * 90)
    with pytest.raises(UpstreamBroke, match="more than 100 bytes"):
        framer.batch(b"x" * 20)


def test_the_last_frame_may_lack_its_empty_line() -> None:
    framer = Framer()
    assert framer.batch(b"data: 1\n\ndata: [DONE]\n") == b"data: 1\n\n"
    assert framer.flush() == b"data: [DONE]\n\n"
    assert framer.flush() == b""


@pytest.mark.parametrize(
    "frame, data",
    [
        (b"data: a\n\n", b"a"),
        (b"data:a\n\n", b"a"),
        (b"data:  a\n\n", b" a"),
        (b"data: a\r\n\r\n", b"a"),
        (b"data: a\ndata: b\n\n", b"a\nb"),
        (b"data\n\n", b""),
        (b"event: x\ndata: a\n\n", b"a"),
        (b": comment\n\n", None),
        (b"datax: a\n\n", None),
        (b"event: x\n\n", None),
    ],
)
def test_data_of(frame: bytes, data: bytes | None) -> None:
    assert data_of(frame) == data


def test_frames_come_with_their_data() -> None:
    batch = b"data: 1\n\n\n\n: wait\n\ndata: a\ndata: b\n\n"
    assert split_events(batch) == [(frame, data_of(frame)) for frame in split(batch)]
    assert [data for _, data in split_events(batch)] == [b"1", None, b"a\nb"]


def test_encode_and_comment() -> None:
    assert encode(b"{}") == b"data: {}\n\n"
    assert encode(b"{}", "ping") == b"event: ping\ndata: {}\n\n"
    assert comment("a\nb\rc") == b": a b c\n\n"
    assert split(b"") == []
    assert split_events(b"") == []


# Fast twins: what has only LF as line end goes a shorter way, and comes to the same.

LF_LINES = st.lists(LINES, max_size=20).map(lambda lines: b"\n".join(lines) + b"\n\n")


@given(LF_LINES)
def test_frames_are_split_alike_whatever_ends_their_lines(batch: bytes) -> None:
    mixed = split(batch.replace(b"\n", b"\r\n"))
    assert [frame.replace(b"\r\n", b"\n") for frame in mixed] == split(batch)


@given(st.binary(max_size=12), st.sampled_from([b"data: ", b"data:", b"data", b": ", b"event: "]))
def test_the_data_of_one_line_is_that_of_a_line_among_others(text: bytes, field: bytes) -> None:
    frame = field + text.replace(b"\r", b"").replace(b"\n", b"") + b"\n\n"
    assert data_of(frame) == data_of(b": another line\n" + frame)


@given(st.lists(st.sampled_from([b"data: a", b"\n", b"\n\n", b"b", b""]), max_size=12))
def test_lf_streams_are_cut_alike_by_both_ways(pieces: list[bytes]) -> None:
    fast, general = Framer(), Framer()
    for piece in pieces:
        # Of empty lines between frames, which mean nothing, one more or less may come with a frame.
        assert split(fast._cut_lf(piece)) == split(general._cut_mixed(piece))
    assert fast.flush() == general.flush()


@given(st.lists(st.sampled_from([b"data: a", b"\n", b"\n\n", b"\r", b"\r\n", b""]), max_size=12))
def test_a_read_that_ends_with_a_frame_is_passed_on_as_it_would_be_cut(pieces: list[bytes]) -> None:
    fast, general = Framer(), Framer()
    # Only then there is a choice: the byte order mark is behind them.
    fast.batch(b"data: 1\n\n")
    general.batch(b"data: 1\n\n")
    for piece in pieces:
        assert fast.batch(piece) == general._cut(piece)
