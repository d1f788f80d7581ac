"""The defaults are those of the contract, written down here once more."""

from __future__ import annotations

import tomllib
from dataclasses import FrozenInstanceError

import pytest

from gateway.config import Config, UpstreamSection, Url
from gateway.config.schema import keys_of, settings

CONTRACT = """
[server]
host = "127.0.0.1"
port = 8787
session_dir = "~/.holdgate/sessions"
cors_origins = []
hosts = []
keepalive_ms = 10000
drain_ms = 30000
workers = 1
log_format = "text"
log_level = "info"

[clock]
enabled = true
due_window_ms = 60000
retention_ms = 1200000
tick_ms = 60000
hold_max_ms = 60000
hold_non_streaming = true
hold_total_ms = 600000
timezone = ""
time_tag = "always"
standard_tools = []
hold_for_jobs = false
hold_without_session = false
[clock.ntp]
enabled = true
servers = ["time.google.com", "time.cloudflare.com", "pool.ntp.org"]
timeout_ms = 800
stale_after_ms = 21600000
resync_ms = 3600000
max_offset_ms = 600000

[directives]
keep_unknown = false

[stop_message]
enabled = true
default_repeats = 10
max_repeats = 0
files_dir = ""
bd_mode = "auto"
bd_dir = ""
compaction_sentinels = ["context checkpoint compaction", "checkpoint compaction",
  "handoff summary for another llm", "you are performing a context checkpoint compaction",
  "you are a helpful ai assistant tasked with summarizing conversations"]
side_call_sentinels = ["you are a title generator"]

[cron]
enabled = true
max_concurrent_runs = 1
idle_retry_ms = 2000
max_busy_wait_ms = 120000
run_timeout_ms = 300000
misfire_grace_ms = 3600000
min_interval_ms = 1000
max_consecutive_failures = 5
cron_lookahead_days = 3660
lease_ttl_ms = 300000
keep_runs = 100
offer_to_clients = false

[store]
url = ""
listen_url = ""
schema = "holdgate"
lease_ms = 15000
entry_ms = 250
poll_ms = 15000
connections = 6
outage = "relay"

[limits]
body_bytes = 20971520
header_bytes = 65536
json_depth = 128
event_bytes = 8388608
receive_idle_ms = 30000
receive_total_ms = 300000
connections = 0
connections_per_address = 0
slow_reader_ms = 30000
turns = 16
holds_per_session = 1
holds_per_owner = 100
holds = 20000
reminders_per_session = 100
task_bytes = 4096
arguments_bytes = 8192
stop_message_bytes = 4096
jobs_per_owner = 100
subscriptions_per_owner = 20
inbox_polls_per_owner = 100
due_followups = 64
offload_bytes = 131072
offload_processes = 2
offload_ms = 60000
offload_queue_bytes = 268435456

[metrics]
owner_label = false
port = 0
"""

UPSTREAM = {
    "dialect": "openai-chat",
    "profile": "",
    "transport": "fast",
    "api_key": None,
    "api_key_env": "",
    "models": ("*",),
    "headers": (),
    "connect_ms": 10_000,
    "first_byte_ms": 120_000,
    "idle_ms": 120_000,
    "settle_ms": 100,
    "ask_usage": True,
    "max_connections": 1000,
}


def flat(table: dict[str, object], where: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found |= flat(value, f"{where}{name}.")
        else:
            found[where + name] = tuple(value) if isinstance(value, list) else value
    return found


def test_every_default_is_that_of_the_contract() -> None:
    tables = ("upstreams", "models", "keys", "agents", "webhooks")
    defaults = {path: key.default for path, key in settings().items() if path not in tables}
    assert defaults == flat(tomllib.loads(CONTRACT))


def test_an_upstream_needs_an_id_and_a_url_only() -> None:
    upstream = UpstreamSection(id="glm", base_url=Url("https://glm.example/v1"))
    assert {name: getattr(upstream, name) for name in UPSTREAM} == UPSTREAM
    required = [name for name, key in keys_of(UpstreamSection).items() if key.required]
    assert required == ["id", "base_url"]


def test_sections_are_frozen_and_hashable() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().server.port = 1  # type: ignore[misc]
    assert hash(Config()) == hash(Config())
    assert not hasattr(Config(), "__dict__")
