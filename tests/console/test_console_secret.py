"""The secret of sign-ins: kept in one file that only its owner can read, and never replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.console.secret_file import SECRET_BYTES, SecretFileError, load_secret


def draw(size: int) -> bytes:
    return os.urandom(size)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "console" / "sign-in-secret"


def test_it_is_drawn_once(place: Path) -> None:
    secret = load_secret(place, draw)
    assert (len(secret), load_secret(place, draw)) == (SECRET_BYTES, secret)
    assert (place.stat().st_mode & 0o777, place.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_of_two_gateways_both_have_the_one_that_was_kept_first(place: Path) -> None:
    first = b"1" * SECRET_BYTES

    def draw_late(size: int) -> bytes:
        # Another gateway is faster.
        load_secret(place, lambda size: first)
        return b"2" * size

    assert load_secret(place, draw_late) == first
    assert place.read_bytes() == first


def test_what_a_crash_left_is_no_secret(place: Path) -> None:
    place.parent.mkdir(parents=True)
    left = place.with_name(f".{place.name}.{os.getpid()}")
    left.write_bytes(b"half")
    assert len(load_secret(place, draw)) == SECRET_BYTES
    assert not left.exists()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * (SECRET_BYTES + 1)])
def test_another_file_is_left_alone(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    place.chmod(0o600)
    with pytest.raises(SecretFileError, match="regular file of 32 bytes"):
        load_secret(place, draw)
    assert place.read_bytes() == content


def test_one_that_others_can_read_is_refused(place: Path) -> None:
    load_secret(place, draw)
    place.chmod(0o640)
    with pytest.raises(SecretFileError, match="0600"):
        load_secret(place, draw)


def test_a_link_is_not_followed(place: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    load_secret(elsewhere, draw)
    place.parent.mkdir(parents=True)
    place.symlink_to(elsewhere)
    with pytest.raises(OSError):
        load_secret(place, draw)
