"""The correction outlives the process; a bad file or disk does no harm."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.clock import Host, NtpClock, NtpSettings, NtpState, state_file

from .sntp import never, serving, well

SETTINGS = NtpSettings((), timeout_ms=5000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clock" / "ntp-state.json"


@pytest.fixture
def there(path: Path) -> Path:
    path.parent.mkdir(mode=0o700)
    return path


def now_ms() -> int:
    return int(time.time() * 1000)


async def restored(path: Path) -> NtpClock:
    clock = NtpClock(SETTINGS, path)
    await clock.restore()
    return clock


async def synced(path: Path, off_s: float = 5) -> NtpClock:
    with serving(well(off_s=off_s)) as (server,):
        clock = NtpClock(replace(SETTINGS, servers=(server.name,)), path)
        await clock.sync()
    return clock


async def test_a_new_clock_goes_on_where_the_old_one_was(path: Path) -> None:
    old = await synced(path)
    new = await restored(path)
    assert new.ntp == old.ntp
    assert new.ntp.status == "synced"
    assert abs(new.now_ms() - old.now_ms()) < 1000


async def test_the_file_says_what_the_tool_says(path: Path) -> None:
    clock = await synced(path)
    assert json.loads(path.read_bytes()) == {
        "status": "synced",
        "offsetMs": clock.offset_ms,
        "server": clock.ntp.server,
        "rttMs": clock.ntp.rtt_ms,
        "lastSyncMs": clock.ntp.last_sync_ms,
        "lastError": "",
    }


async def test_only_the_owner_can_look(path: Path) -> None:
    await synced(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(path.parent.iterdir()) == [path]


async def test_a_failure_is_kept_too(path: Path) -> None:
    with serving(never) as (server,):
        clock = NtpClock(replace(SETTINGS, servers=(server.name,), timeout_ms=20), path)
        await clock.sync()
    assert (await restored(path)).ntp == clock.ntp
    assert clock.ntp.status == "error"


async def test_an_old_correction_is_stale_but_in_force(there: Path) -> None:
    state_file.write(there, NtpState("synced", 4000, "a", 5, now_ms() - 22_000_000))
    clock = await restored(there)
    assert (clock.ntp.status, clock.offset_ms) == ("stale", 4000)


async def test_it_is_restored_once(there: Path) -> None:
    clock = await restored(there)
    state_file.write(there, NtpState("synced", 4000, "a", 5, now_ms()))
    await clock.restore()
    assert clock.ntp == NtpState("stale")


async def test_without_a_path_nothing_is_read_or_written(tmp_path: Path) -> None:
    with serving(well()) as (server,):
        clock = NtpClock(replace(SETTINGS, servers=(server.name,)))
        await clock.restore()
        assert (await clock.sync()).status == "synced"
    assert list(tmp_path.iterdir()) == []


GOOD: dict[str, Any] = {
    "status": "synced",
    "offsetMs": 4000,
    "server": "a",
    "rttMs": 5,
    "lastSyncMs": 1_770_038_558_229,
    "lastError": "",
}


def like(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


CORRUPT: dict[str, bytes] = {
    "empty": b"",
    "truncated": like()[:30],
    "garbage": b"\xff\xfe\0garbage",
    "not UTF-8": like().replace(b'"a"', b'"\xff"'),
    "not an object": b"[]",
    "no status": b"{}",
    "unknown status": like(status="fine"),
    "disabled": like(status="disabled"),
    "text for a number": like(offsetMs="4000"),
    "fraction": like(offsetMs=1.5),
    "not a number": like().replace(b"4000", b"NaN"),
    "more than is ever corrected": like(offsetMs=600_001),
    "less than is ever corrected": like(offsetMs=-600_001),
    "a number without end": like().replace(b"4000", b"9" * 5000),
    "a correction from nowhere": like(lastSyncMs=None),
    "deep": b'{"x":' + b"[" * 30_000,
    "deep and whole": b'{"x":' + b"[" * 30_000 + b"]" * 30_000 + b',"status":"error"}',
    "huge": like(lastError="x" * 100_000),
}


@pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT)
async def test_a_corrupt_file_is_ignored_and_replaced(
    there: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    there.write_bytes(content)
    clock = await restored(there)
    assert (clock.ntp, clock.offset_ms) == (NtpState("stale"), 0)
    assert len(caplog.records) == 1
    good = await synced(there)
    assert (await restored(there)).ntp == good.ntp


def lead_away(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    elsewhere.write_bytes(like())
    path.symlink_to(elsewhere)


def block(path: Path) -> None:
    os.mkfifo(path)


ODD: dict[str, Callable[[Path], None]] = {"link": lead_away, "pipe": block, "directory": Path.mkdir}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
async def test_what_is_no_plain_file_is_not_read(there: Path, make: Callable[[Path], None]) -> None:
    make(there)
    with anyio.fail_after(4):
        assert (await restored(there)).ntp == NtpState("stale")
    # A directory stays in the way; that is a line in the log, and no more.
    assert (await synced(there)).ntp.status == "synced"


async def test_what_a_crash_left_is_in_nobodys_way(there: Path) -> None:
    there.with_name(".ntp-state.json.new").write_bytes(b"half a st")
    await synced(there)
    assert list(there.parent.iterdir()) == [there]


async def test_a_state_that_cannot_be_kept_is_in_force_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = await synced(tmp_path / "no" / "such" / "directory.json", off_s=0.5)
    assert clock.ntp.status == "synced"
    assert "not kept over a restart" in caplog.text


async def test_the_old_state_stays_whole_when_the_new_one_cannot_be_written(path: Path) -> None:
    await synced(path)
    before = path.read_bytes()
    in_the_way = path.with_name(".ntp-state.json.new")
    in_the_way.mkdir()
    with pytest.raises(OSError):
        state_file.write(path, NtpState("error"))
    assert path.read_bytes() == before


async def test_a_clock_that_was_behind_says_when_it_was_corrected(path: Path) -> None:
    host = Host(wall=lambda: time.time() - 300)
    with serving(well(), well()) as servers:
        names = tuple(server.name for server in servers)
        clock = NtpClock(replace(SETTINGS, servers=names), path, host)
        await clock.sync()
    assert abs(json.loads(path.read_bytes())["lastSyncMs"] - now_ms()) < 2000


@given(
    st.binary(max_size=200)
    | st.dictionaries(
        st.sampled_from(list(GOOD)),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=5)
        | st.sampled_from(["synced", "error"]),
    ).map(lambda changes: like(**changes))
)
def test_no_content_does_harm(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ntp-state.json"
        path.write_bytes(content)
        with suppress(state_file.StateFileError):
            state = state_file.read(path, 600_000)
            assert state is not None
            assert abs(state.offset_ms) <= 600_000
