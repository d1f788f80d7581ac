"""However the last frames of a stream are damaged, the client sees one end: normal, or an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects import DIALECTS
from gateway.errors import UpstreamError
from gateway.exchange.model import ModelRequest
from gateway.wire.sse import split

HERE = Path(__file__).parents[1] / "fixtures"
NAMES = {"chat": "openai-chat", "messages": "anthropic-messages", "responses": "openai-responses"}
STREAMS = {
    f"{name}_{kind}": HERE.joinpath(f"answers/{name}_{kind}.sse").read_bytes()
    for name in NAMES
    for kind in ("text", "tool", "error")
}
CLOCK, NO_TOOLS = frozenset({"clock"}), frozenset[str]()
ENDS = ("response.completed", "response.incomplete", "message_stop")
FAILURES = ("response.failed", "error")


def put(inserted: bytes) -> Any:
    """Put bytes into the first text of a frame's data."""
    return lambda frame: frame.replace(b'":"', b'":"' + inserted, 1)


def typed(value: bytes) -> Any:
    """Give an event another type than it has."""

    def damage(frame: bytes) -> bytes:
        before, found, after = frame.partition(b'"type":"')
        return before + b'"type":' + value + after[after.find(b'"') + 1 :] if found else frame

    return damage


def unnamed(frame: bytes) -> bytes:
    return b"".join(line for line in frame.splitlines(True) if not line.startswith(b"event:"))


DAMAGES: dict[str, Any] = {
    "a raw NUL": put(b"\0"),
    "a raw control character": put(b"\x1f"),
    "invalid UTF-8": put(b"\xff\xc3"),
    "a lone surrogate": put(rb"\ud800 and so on"),
    "no number": lambda frame: frame.replace(b"{", b'{"x":NaN,', 1),
    "cut off": lambda frame: frame[: len(frame) // 2].rstrip() + b"\n\n",
    "garbage": lambda frame: frame[: frame.find(b"data:") + 6] + b"}{\xff\n\n",
    "a space at the end": lambda frame: frame[:-2] + b" \n\n",
    "gone": lambda frame: b"",
    "twice": lambda frame: frame + frame,
    "nameless": unnamed,
    "nameless and a number": lambda frame: unnamed(typed(b"5")(frame)),
    "another finish": lambda frame: frame.replace(b'"stop"', b"5").replace(b'"end_turn"', b"[1]"),
    **{f"type {value.decode()}": typed(value) for value in (b"5", b"null", b"[]", b"{}", b"true")},
}


def passed(name: str, pieces: list[bytes], tools: frozenset[str], turns: int = 1) -> bytes:
    """Pass a stream as the driver does, as the last of some turns; return what the client gets."""
    dialect = DIALECTS[NAMES[name.partition("_")[0]]]
    asked = ModelRequest(model="m", body=b"{}", stream=True, wants_usage=True)
    splice = dialect.splice(asked, tools, 10**6)
    whole = STREAMS[name.replace("error", "text")]
    shown = b""
    for number in range(1, turns + 1):
        tap = splice.tap()
        try:
            for piece in pieces if number == turns else [whole]:
                shown += tap.feed(piece)
                if tap.ended:
                    break
            if not tap.ended:
                shown += tap.close()
            if tap.failure is not None:
                raise tap.failure
            splice.take(tap)
            assert tap.end()
            tap.rebuild_turn(), tap.text(), tap.client_call_ids(), splice.heartbeat()
        except UpstreamError as error:
            return shown + dialect.error_frame(error, splice)
    return shown + splice.tail(neutral_finish=False)


def ends_in(shown: bytes) -> tuple[int, int]:
    """Read a stream as the most patient client does; count its normal ends, and its errors."""
    normal = errors = 0
    for frame in shown.decode(errors="replace").split("\n\n"):
        lines = frame.splitlines()
        name = "".join(line[6:].strip() for line in lines if line.startswith("event:"))
        data = "\n".join(line[5:].strip() for line in lines if line.startswith("data:"))
        normal += data == "[DONE]"
        try:
            event = json.loads(data, strict=False)
        except ValueError:
            event = {}
        event = event if isinstance(event, dict) else {}
        kind = event.get("type") if isinstance(event.get("type"), str) else name
        normal += kind in ENDS
        errors += kind in FAILURES or (not kind and bool(event.get("error")))
    return normal, errors


def check(name: str, pieces: list[bytes], tools: frozenset[str], turns: int) -> None:
    shown = passed(name, pieces, tools, turns)
    normal, errors = ends_in(shown)
    # Some upstreams leave out the mark at the end, and say only why it ended.
    finished = b'"finish_reason":"' in shown or b'"stop_reason":"' in shown
    assert errors + normal <= 1, shown[-600:]
    assert not (errors and finished), shown[-600:]
    assert errors or normal or finished, shown[-600:]


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("tools", [NO_TOOLS, CLOCK], ids=["", "clock"])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", STREAMS)
def test_a_damaged_end_is_one_end(
    name: str, damage: str, tools: frozenset[str], turns: int
) -> None:
    frames = split(STREAMS[name])
    for at in range(1, min(5, len(frames))):
        damaged = [*frames[:-at], DAMAGES[damage](frames[-at]), *frames[len(frames) - at + 1 :]]
        check(name, damaged, tools, turns)
        check(name, [b"".join(damaged)], tools, turns)


@given(st.sampled_from(sorted(STREAMS)), st.data())
@settings(deadline=None, max_examples=300)
def test_any_damage_to_the_last_frame_is_one_end(name: str, data: st.DataObject) -> None:
    frames = split(STREAMS[name])
    last = bytearray(frames[-1])
    at = data.draw(st.integers(0, len(last) - 1))
    last[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    turns = data.draw(st.sampled_from([1, 2]))
    check(name, [*frames[:-1], bytes(last)], data.draw(st.sampled_from([NO_TOOLS, CLOCK])), turns)
