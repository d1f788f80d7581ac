"""The sections of the configuration: every key with its type, default, bounds and meaning.

A key is an annotated field: its type, its checks, and one sentence about it. Everything else
(reading, environment names, printing, the tables in docs/configuration.md) is derived from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, NewType

from gateway.config.checks import (
    Each,
    Range,
    digest,
    directory,
    header,
    identifier,
    not_empty,
    origin,
    printable,
    route,
    store_url,
    time_zone,
    variable,
    web_url,
)
from gateway.config.secret import Secret, Url

KB = 1024
MB = 1024 * KB

Json = NewType("Json", str)
Texts = tuple[str, ...]
Documents = tuple[Json, ...]
Headers = tuple[tuple[str, Secret], ...]

Dialect = Literal["openai-chat", "openai-responses", "anthropic-messages"]
Profile = Literal["", "openai", "anthropic", "glm", "deepseek", "openrouter", "vllm", "plain"]
Transport = Literal["fast", "httpx"]
LogFormat = Literal["text", "json"]
TimeTag = Literal["always", "user_turns", "off"]
BdMode = Literal["auto", "runtime", "heuristic"]

# An interval that may be zero, and one that may not (a loop or a timeout of no length).
Ms = Annotated[int, Range(0)]
SomeMs = Annotated[int, Range(1)]
Count = Annotated[int, Range(0)]
SomeCount = Annotated[int, Range(1)]
Bytes = Annotated[int, Range(1)]
Text = Annotated[str, not_empty]
Identifier = Annotated[str, identifier]
Variable = Annotated[str, variable]
Hidden = Annotated[Secret | None, printable]

# Read and checked already; without effect until the version that brings the feature.
LATER = frozenset({"server.workers"})


@dataclass(frozen=True, slots=True)
class ServerSection:
    """Where the gateway listens, and whom it lets in."""

    host: Annotated[Text, "Address to listen on; any but loopback needs `[[keys]]`."] = "127.0.0.1"
    port: Annotated[int, Range(0, 65535), "Port to listen on; 0 picks a free one."] = 8787
    session_dir: Annotated[
        Text, directory, "Directory of all that is kept; `~` is the home directory."
    ] = "~/.holdgate/sessions"
    cors_origins: Annotated[
        Texts, Each(origin), "Web origins that may call; a request from any other is 403."
    ] = ()
    hosts: Annotated[
        Texts, "Accepted `Host` names; empty: any with keys, only loopback names without."
    ] = ()
    keepalive_ms: Annotated[SomeMs, "Heartbeat towards a client whose stream is idle."] = 10_000
    drain_ms: Annotated[Ms, "How long running answers may go on after SIGTERM."] = 30_000
    workers: Annotated[SomeCount, "Processes that serve; more than one needs a shared store."] = 1
    log_format: Annotated[LogFormat, "How log lines are written: `text` or `json`."] = "text"


@dataclass(frozen=True, slots=True)
class UpstreamSection:
    """One who answers: where it is, how it is spoken to, how long it may take."""

    id: Annotated[Identifier, "Name of the upstream, the first part of its routes."]
    base_url: Annotated[
        Url, web_url, "URL the dialect's path is appended to, such as `https://api.example.com/v1`."
    ]
    dialect: Annotated[
        Dialect, "Wire language: `openai-chat`, `openai-responses` or `anthropic-messages`."
    ] = "openai-chat"
    profile: Annotated[Profile, "Named set of quirks; empty: none."] = ""
    transport: Annotated[Transport, "HTTP client: `fast`, or `httpx` for unusual networks."] = (
        "fast"
    )
    api_key: Annotated[Hidden, "Key sent to the upstream, literally."] = None
    api_key_env: Annotated[Variable, "Environment variable that holds the key instead."] = ""
    models: Annotated[Texts, not_empty, "Models it serves; `*` is any name."] = ("*",)
    headers: Annotated[
        Headers, Each(header), "Extra headers of every request; values are kept secret."
    ] = ()
    connect_ms: Annotated[SomeMs, "Longest time to connect."] = 10_000
    first_byte_ms: Annotated[SomeMs, "Longest wait for the first byte of an answer."] = 120_000
    idle_ms: Annotated[SomeMs, "Longest silence between two bytes of an answer."] = 120_000
    settle_ms: Annotated[
        Ms,
        "With several routes: how long first frames without content wait for content or an error; "
        "`0`: not at all.",
    ] = 100
    max_connections: Annotated[SomeCount, "Concurrent calls to this upstream."] = 1000


@dataclass(frozen=True, slots=True)
class ModelSection:
    """A public model name, and where it leads."""

    name: Annotated[Text, "Name clients ask for."]
    routes: Annotated[
        Texts,
        not_empty,
        Each(route),
        "`<upstream>/<model>`, tried in this order until one answers.",
    ]
    clock: Annotated[bool, "Whether the model gets the clock: tool, time, reminders, hold."] = True


@dataclass(frozen=True, slots=True)
class KeySection:
    """A key clients identify themselves with; exactly one of its three forms is given."""

    owner: Annotated[Text, "Whose key it is; all that is kept belongs to an owner."]
    key: Annotated[Hidden, "The key itself, literally; only its hash is kept."] = None
    key_env: Annotated[Variable, "Environment variable that holds the key instead."] = ""
    key_sha256: Annotated[
        Secret | None, digest, "SHA-256 of the key in hex, so that the file holds no key."
    ] = None
    admin: Annotated[bool, "Whether the owner may administer other owners' things."] = False

    @property
    def sha256(self) -> str:
        """The hash of the key, in lower-case hex."""
        return self.key_sha256.reveal().lower() if self.key_sha256 else ""


@dataclass(frozen=True, slots=True)
class NtpSection:
    """How the clock is corrected."""

    enabled: Annotated[bool, "Whether time servers are asked."] = True
    servers: Annotated[Texts, "Time servers, all asked each time."] = (
        "time.google.com",
        "time.cloudflare.com",
        "pool.ntp.org",
    )
    timeout_ms: Annotated[SomeMs, "Longest wait for one server."] = 800
    stale_after_ms: Annotated[Ms, "Age after which a correction counts as stale."] = 21_600_000
    resync_ms: Annotated[SomeMs, "Time between two corrections."] = 3_600_000
    max_offset_ms: Annotated[Ms, "Larger corrections are refused."] = 600_000


@dataclass(frozen=True, slots=True)
class ClockSection:
    """What models know of time: the tool, reminders, holds."""

    enabled: Annotated[bool, "Whether models get the clock at all."] = True
    due_window_ms: Annotated[
        Ms, "How long before its time a reminder is due; 0 while no upstream is configured."
    ] = 60_000
    retention_ms: Annotated[Ms, "How long an undelivered reminder is kept after its time."] = (
        1_200_000
    )
    tick_ms: Annotated[SomeMs, "Time between two looks for expired reminders."] = 60_000
    hold_max_ms: Annotated[Ms, "Longest hold for one reminder; 0: never wait."] = 60_000
    hold_non_streaming: Annotated[bool, "Whether answers that do not stream may hold."] = True
    hold_total_ms: Annotated[Ms, "All holds of one exchange together."] = 600_000
    timezone: Annotated[str, time_zone, "IANA name; empty: the host's."] = ""
    time_tag: Annotated[
        TimeTag, "When a request is told the time: `always`, `user_turns` or `off`."
    ] = "always"
    standard_tools: Annotated[
        Documents, "Tool declarations added when a reminder is due: tables, or JSON texts."
    ] = ()
    hold_for_jobs: Annotated[bool, "Whether results of jobs end a hold as well."] = False
    hold_without_session: Annotated[
        bool, "Whether requests without a session id may set reminders that this answer waits for."
    ] = False
    ntp: NtpSection = field(default_factory=NtpSection)


@dataclass(frozen=True, slots=True)
class DirectivesSection:
    """Instructions to the gateway in the text of a message, `<**…**>`."""

    keep_unknown: Annotated[
        bool, "Whether a `<**…**>` that is no directive stays in the text; else it is removed."
    ] = False


@dataclass(frozen=True, slots=True)
class StopMessageSection:
    """Text a session sends by itself whenever the model stops."""

    enabled: Annotated[bool, "Whether the directive acts."] = True
    default_repeats: Annotated[SomeCount, "Repeats when the directive names none."] = 10
    max_repeats: Annotated[Count, "Larger numbers of repeats are lowered to it; 0: no cap."] = 0
    files_dir: Annotated[
        str, directory, "Directory the `file://` form reads from; empty: that form is off."
    ] = ""
    bd_mode: Annotated[
        BdMode, "How it is judged whether work is left: `auto`, `runtime` or `heuristic`."
    ] = "auto"
    bd_dir: Annotated[
        str, directory, "Directory `bd` runs in; empty: `auto` means `heuristic`."
    ] = ""
    compaction_sentinels: Annotated[
        Texts, "Beginnings of texts that mark a request as compaction, letter case ignored."
    ] = (
        "context checkpoint compaction",
        "checkpoint compaction",
        "handoff summary for another llm",
        "you are performing a context checkpoint compaction",
        "you are a helpful ai assistant tasked with summarizing conversations",
    )
    side_call_sentinels: Annotated[
        Texts,
        "Beginnings of texts that mark a request without tools as a side call of an agent, letter "
        "case ignored.",
    ] = ("you are a title generator",)


@dataclass(frozen=True, slots=True)
class CronSection:
    """Scheduled prompts."""

    enabled: Annotated[bool, "Whether jobs run."] = True
    max_concurrent_runs: Annotated[SomeCount, "Runs at the same time."] = 1
    idle_retry_ms: Annotated[SomeMs, "Time between two looks at a busy session."] = 2000
    max_busy_wait_ms: Annotated[Ms, "A run is skipped after waiting this long."] = 120_000
    run_timeout_ms: Annotated[SomeMs, "Longest run."] = 300_000
    misfire_grace_ms: Annotated[Ms, "How late a missed time may still run after a restart."] = (
        3_600_000
    )
    min_interval_ms: Annotated[SomeMs, "Shortest time between two runs of a job."] = 1000
    max_consecutive_failures: Annotated[
        SomeCount, "A job is disabled after this many failures in a row."
    ] = 5
    cron_lookahead_days: Annotated[
        SomeCount, "An expression without a time within these days is refused."
    ] = 3660
    lease_ttl_ms: Annotated[SomeMs, "How long a dead instance keeps its run."] = 300_000
    keep_runs: Annotated[Count, "Run records kept for each job."] = 100
    offer_to_clients: Annotated[
        bool, "Whether relay sessions get the `schedule_task` tool too."
    ] = False


@dataclass(frozen=True, slots=True)
class StoreSection:
    """Where state is kept."""

    url: Annotated[
        Url,
        store_url,
        "Empty: embedded, below `server.session_dir`; `sqlite:///path`; `memory:` for tests.",
    ] = field(default_factory=Url)


@dataclass(frozen=True, slots=True)
class AgentSection:
    """A named profile whose conversations live in the gateway."""

    id: Annotated[Identifier, "Name in requests."]
    model: Annotated[Text, "Public model that answers."]
    name: Annotated[str, "Name people see; empty: the id."] = ""
    system: Annotated[str, "System text of its conversations."] = ""
    tools: Annotated[Texts, "Server tools it may call."] = ()


@dataclass(frozen=True, slots=True)
class WebhookSection:
    """Where deliveries of an owner are posted."""

    owner: Annotated[Text, "Whose deliveries."]
    url: Annotated[Url, web_url, "Where they are posted."]
    secret: Annotated[Hidden, "Secret they are signed with, literally."] = None
    secret_env: Annotated[Variable, "Environment variable that holds the secret instead."] = ""


@dataclass(frozen=True, slots=True)
class LimitsSection:
    """Bounds of everything that could grow; 1 KB is 1024 bytes, 1 MB is 1024 KB."""

    body_bytes: Annotated[Bytes, "Request body (20 MB), also after decompression."] = 20 * MB
    header_bytes: Annotated[Bytes, "All headers of a request together (64 KB)."] = 64 * KB
    json_depth: Annotated[SomeCount, "Nesting of a request's JSON."] = 128
    event_bytes: Annotated[Bytes, "One event of a stream (8 MB)."] = 8 * MB
    receive_idle_ms: Annotated[SomeMs, "Longest silence while a request is received."] = 30_000
    receive_total_ms: Annotated[
        Ms, "Longest time until a request has come whole; 0: as long as it takes."
    ] = 300_000
    connections: Annotated[Count, "Open client connections of the process; 0: any number."] = 0
    connections_per_address: Annotated[
        Count, "Those from one address; behind a balancer that is everybody. 0: any number."
    ] = 0
    slow_reader_ms: Annotated[SomeMs, "Longest time a client may take nothing it is sent."] = 30_000
    turns: Annotated[SomeCount, "Turns of one exchange."] = 16
    holds_per_session: Annotated[Count, "Holds of a session at a time."] = 1
    holds_per_owner: Annotated[Count, "Holds of an owner at a time."] = 100
    holds: Annotated[Count, "Holds of the process at a time."] = 20_000
    reminders_per_session: Annotated[Count, "Reminders of a session."] = 100
    task_bytes: Annotated[Bytes, "Text of a reminder (4 KB)."] = 4 * KB
    arguments_bytes: Annotated[Bytes, "Arguments of a reminder (8 KB)."] = 8 * KB
    stop_message_bytes: Annotated[Bytes, "Text of a stopMessage (4 KB)."] = 4 * KB
    jobs_per_owner: Annotated[Count, "Jobs of an owner."] = 100
    subscriptions_per_owner: Annotated[Count, "Event subscriptions of an owner."] = 20
    inbox_polls_per_owner: Annotated[
        Count, "Requests of an owner that wait for an inbox at a time."
    ] = 100
    due_followups: Annotated[SomeCount, "Follow-ups that due reminders start at once."] = 64
    offload_bytes: Annotated[
        Bytes, "Larger requests (128 KB) are read and translated in a helper process."
    ] = 128 * KB
    offload_processes: Annotated[
        Count, "Helper processes at most; 0: none, and a large request stops all others meanwhile."
    ] = 2
    offload_ms: Annotated[SomeMs, "Longest time a helper may take for one step of a request."] = (
        60_000
    )
    offload_queue_bytes: Annotated[
        Bytes, "Large requests that wait for a helper, together (256 MB); an owner has half of it."
    ] = 256 * MB


@dataclass(frozen=True, slots=True)
class Config:
    """The whole effective configuration."""

    server: ServerSection = field(default_factory=ServerSection)
    upstreams: tuple[UpstreamSection, ...] = ()
    models: tuple[ModelSection, ...] = ()
    keys: tuple[KeySection, ...] = ()
    clock: ClockSection = field(default_factory=ClockSection)
    directives: DirectivesSection = field(default_factory=DirectivesSection)
    stop_message: StopMessageSection = field(default_factory=StopMessageSection)
    cron: CronSection = field(default_factory=CronSection)
    store: StoreSection = field(default_factory=StoreSection)
    agents: tuple[AgentSection, ...] = ()
    webhooks: tuple[WebhookSection, ...] = ()
    limits: LimitsSection = field(default_factory=LimitsSection)
    # Not keys: whether the embedded demo upstream is to answer, and which source gave each value.
    demo: bool = False
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
