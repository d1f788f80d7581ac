"""The section of the configuration that says where state is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from gateway.config.checks import Range, not_empty, postgres_url, schema_name, store_url
from gateway.config.choices import Outage
from gateway.config.secret import Url

SomeMs = Annotated[int, Range(1)]


@dataclass(frozen=True, slots=True)
class StoreSection:
    """Where state is kept."""

    url: Annotated[
        Url,
        store_url,
        "Empty: embedded, below `server.session_dir`; `sqlite:///path`; `postgresql://…` for many "
        "instances; `memory:` for tests.",
    ] = field(default_factory=Url)
    listen_url: Annotated[
        Url,
        postgres_url,
        "PostgreSQL: a direct address, if `url` leads to a pooler; empty: `url`.",
    ] = field(default_factory=Url)
    schema: Annotated[
        str,
        not_empty,
        schema_name,
        "PostgreSQL: the schema that contains the tables; it is created.",
    ] = "holdgate"
    lease_ms: Annotated[
        int,
        Range(3000),
        "PostgreSQL: how long others leave an instance what it holds after it was seen last.",
    ] = 15_000
    entry_ms: Annotated[
        SomeMs, "PostgreSQL: how long a request waits at most for the state of its session."
    ] = 250
    poll_ms: Annotated[
        SomeMs, "PostgreSQL: how often held answers look for changes that no message told."
    ] = 15_000
    connections: Annotated[
        int, Range(1), "PostgreSQL: connections a process, beside three that are always there."
    ] = 6
    outage: Annotated[
        Outage,
        "PostgreSQL: what becomes of a request of a session while the database is away: `relay` it "
        "without state, or `refuse` it.",
    ] = "relay"
