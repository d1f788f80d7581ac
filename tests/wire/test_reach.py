"""Whether an upstream can be reached, and why not."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from gateway.wire.http_client.reach import find_obstacle
from tests.docs.running import free_port


@pytest.fixture
def silent() -> Iterator[int]:
    """A port whose owner accepts connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_who_accepts_a_connection_can_be_reached(silent: int) -> None:
    assert find_obstacle(f"http://127.0.0.1:{silent}/v1", 10) == ""


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:{free}/v1", "The upstream refused the connection."),
        ("https://127.0.0.1:{free}/v1", "The upstream refused the connection."),
        ("https://127.0.0.1:{silent}", "The upstream did not accept a connection within 0.2 s."),
        (f"http://{'a' * 70}.example/v1", "The upstream could not be reached."),
    ],
)
def test_the_obstacle_is_named_without_an_address(url: str, why: str, silent: int) -> None:
    assert find_obstacle(url.format(free=free_port(), silent=silent), 0.2) == why
