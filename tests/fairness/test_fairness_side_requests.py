"""Whatever one client sends, the requests of others are answered meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .measure import Place, gateway
from .shapes import (
    CHAT,
    DIALECTS,
    MB,
    MESSAGES,
    PACKERS,
    PATHS,
    RESPONSES,
    SHAPES,
    TRANSLATED,
    body_of,
    hello,
)

SMALL, LARGE = 3 * MB, 19 * MB
TRIES = 3
Case = tuple[str, str, str]
# Each held the loop for more than 300 ms when all was done on it, most of them for seconds.
SHORT: list[Case] = [
    ("marks", CHAT, CHAT),
    ("marks and quotes", RESPONSES, RESPONSES),
    ("directives in history", MESSAGES, MESSAGES),
    ("empty items", CHAT, CHAT),
    ("nested lists", MESSAGES, MESSAGES),
    ("unique keys", RESPONSES, RESPONSES),
    ("small messages", CHAT, RESPONSES),
    ("tool calls", MESSAGES, CHAT),
    ("tool calls", RESPONSES, MESSAGES),
    ("parts", CHAT, MESSAGES),
    ("tools", RESPONSES, CHAT),
    ("answer id", RESPONSES, RESPONSES),
]
SAME: list[Case] = [(name, dialect, dialect) for name in SHAPES for dialect in DIALECTS]
ACROSS: list[Case] = [
    (name, client, upstream)
    for name in TRANSLATED
    for client in DIALECTS
    for upstream in DIALECTS
    if client != upstream
]
PACKED = [(packer, dialect) for packer in PACKERS for dialect in DIALECTS]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with gateway(Path(tmp_path_factory.mktemp("gateway"))) as running:
        yield running


def expect_no_wait(place: Place, path: str, body: bytes, encoding: str, limit: float) -> None:
    """Expect others not to wait while this is handled.

    The limit is for a quiet machine. On a busy one everything waits, so what an idle process
    takes to answer at the same time is added, and the best of some tries counts.
    """
    over: list[str] = []
    for _ in range(TRIES):
        status, waits = place.measure(path, body, encoding)
        assert status in (200, 400, 404, 413), status
        if waits.worst <= limit + 2 * waits.noise:
            return
        over.append(f"{waits.worst:.3f} s, an idle process {waits.noise:.3f} s")
    pytest.fail(f"others waited: {'; '.join(over)}")


def _limit(size: int) -> float:
    return 0.1 if size <= 10 * MB else 0.2


@pytest.mark.parametrize(("shape", "client", "upstream"), SHORT)
def test_others_are_answered_while_a_hard_request_is_handled(
    place: Place, shape: str, client: str, upstream: str
) -> None:
    body = body_of(SHAPES[shape], client, upstream, SMALL)
    expect_no_wait(place, PATHS[client], body, "", _limit(SMALL))


@pytest.mark.parametrize("packer", ["gzip bomb", "zstd bomb", "empty gzip blocks"])
def test_others_are_answered_while_a_bomb_is_unpacked(place: Place, packer: str) -> None:
    encoding, pack = PACKERS[packer]
    body = pack(body_of(SHAPES["marks"], CHAT, CHAT, SMALL))
    expect_no_wait(place, PATHS[CHAT], body, encoding, _limit(SMALL))


def test_others_are_answered_while_a_model_of_a_long_name_is_looked_for(place: Place) -> None:
    body = b'{"model":"%b",%b}' % (b"openai-chat" * (SMALL // 11), hello(CHAT))
    expect_no_wait(place, PATHS[CHAT], body, "", _limit(SMALL))


def test_others_are_answered_while_tokens_of_a_hard_request_are_counted(place: Place) -> None:
    body = body_of(SHAPES["nested lists"], MESSAGES, CHAT, SMALL)
    expect_no_wait(place, PATHS[MESSAGES] + "/count_tokens", body, "", _limit(SMALL))


def test_a_large_request_is_answered_as_a_small_one_is(place: Place) -> None:
    for dialect in DIALECTS:
        for upstream in DIALECTS:
            body = body_of(SHAPES["small messages"], dialect, upstream, MB // 2)
            assert place.send(PATHS[dialect], body) == 200


@pytest.mark.long
@pytest.mark.parametrize(("shape", "client", "upstream"), SAME + ACROSS)
def test_others_are_answered_while_a_hard_request_of_20_mb_is_handled(
    place: Place, shape: str, client: str, upstream: str
) -> None:
    body = body_of(SHAPES[shape], client, upstream, LARGE)
    expect_no_wait(place, PATHS[client], body, "", _limit(LARGE))


@pytest.mark.long
@pytest.mark.parametrize(("packer", "client"), PACKED)
def test_others_are_answered_while_a_bomb_of_20_mb_is_unpacked(
    place: Place, packer: str, client: str
) -> None:
    encoding, pack = PACKERS[packer]
    body = pack(body_of(SHAPES["marks"], client, client, LARGE))
    expect_no_wait(place, PATHS[client], body, encoding, _limit(LARGE))
