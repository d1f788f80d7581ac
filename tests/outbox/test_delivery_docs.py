"""The page about delivery says what the code does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gateway.api.delivery import EVENT_ID, LONGEST_WAIT_MS
from gateway.api.event_stream import HEARTBEAT
from gateway.config import Config
from gateway.outbox.feed import KINDS
from gateway.outbox.inbox import Seen, read_cursor
from gateway.outbox.queue import MOST_CARRIED, MOST_CARRIED_CHARACTERS, MOST_WAITING
from gateway.outbox.text import heading
from gateway.outbox.webhooks import DAY_MS, MOST_UNDER_WAY, Hook, Tries
from gateway.reminders.notifier import KEPT_MS
from gateway.stores.delivery_rows import SessionEvent

ROOT = Path(__file__).parents[2]
PAGE = ROOT.joinpath("docs/delivery.md").read_text()
EVENT = SessionEvent("ann", "s", "run.finished", "r1", 0, b"{}", 18)


def test_every_event_is_described() -> None:
    for kind in KINDS:
        assert f"`{kind}`" in PAGE


def test_every_line_of_the_log_is_described() -> None:
    sources = [*ROOT.joinpath("gateway/outbox").glob("*.py"), ROOT / "gateway/api/delivery.py"]
    named = re.compile(r'[(=]\s*"((?:deliveries|events?|webhook)_[a-z_]+)"')
    lines = {line for path in sources for line in named.findall(path.read_text())}
    assert len(lines) > 10
    assert [line for line in sorted(lines) if f"`{line}`" not in PAGE] == []


def test_numbers_are_those_of_the_code() -> None:
    assert f"at most {MOST_CARRIED} results and about {MOST_CARRIED_CHARACTERS // 1024} KB" in PAGE
    assert f"the newest {MOST_WAITING} results" in PAGE
    limits = Config().limits
    assert f"`limits.inbox_polls_per_owner` ({limits.inbox_polls_per_owner})" in PAGE
    assert f"fewer than {MOST_UNDER_WAY} events" in PAGE
    assert (LONGEST_WAIT_MS, KEPT_MS) == (120_000, 7 * DAY_MS)
    assert HEARTBEAT.decode().strip() in PAGE
    assert f"`{EVENT_ID}`" in PAGE
    assert heading("morning check") in PAGE


def test_delays_are_those_of_the_code() -> None:
    said = "1, 5 and 30 seconds, 2, 5, 15 and 30 minutes, 1, 2, 4 and 8 hours"
    assert said in " ".join(PAGE.split())
    hours = (3600 * number for number in (1, 2, 4, 8))
    assert Tries().delays == (1, 5, 30, *(60 * number for number in (2, 5, 15, 30)), *hours)
    assert len(Tries().delays) + 1 == 12
    assert sum(Tries().delays) < DAY_MS / 1000


def test_the_cursor_in_the_example_is_one() -> None:
    (cursor,) = re.findall(r'"cursor": "([^"]+)"', PAGE)
    assert isinstance(read_cursor(cursor), Seen)


def test_headers_are_those_of_the_code() -> None:
    for name in Hook("ann", "https://example.org/", b"s").headers(EVENT, 1, b"{}"):
        assert name in PAGE or name == "user-agent"


def test_the_check_of_the_signature_works() -> None:
    (code,) = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(code, scope)
    is_ours: Callable[[bytes, Mapping[str, str], bytes], bool] = scope["is_ours"]
    hook, now = Hook("ann", "https://example.org/", b"secret"), int(time.time())
    headers = hook.headers(EVENT, now, b"{}")
    assert is_ours(b"secret", headers, b"{}")
    assert not is_ours(b"another", headers, b"{}")
    assert not is_ours(b"secret", headers, b"{ }")
    assert not is_ours(b"secret", hook.headers(EVENT, now - 301, b"{}"), b"{}")
