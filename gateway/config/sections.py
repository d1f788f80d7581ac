"""The sections of the configuration: every key with its type, default, bounds and meaning.

A key is an annotated field: its type, its checks, and one sentence about it. Everything else
(reading, environment names, printing, the tables in docs/configuration.md) is derived from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, NewType

from gateway.config.checks import (
    Each,
    Range,
    budget,
    digest,
    directory,
    header,
    header_variable,
    identifier,
    not_empty,
    origin,
    parameter,
    price,
    printable,
    route,
    time_zone,
    url_path,
    variable,
    web_url,
)
from gateway.config.choices import (
    Auth,
    BdMode,
    Dialect,
    LogFormat,
    LogLevel,
    PresetName,
    Profile,
    TimeTag,
    Transport,
)
from gateway.config.secret import Secret, Url
from gateway.config.store_section import StoreSection

KB = 1024
MB = 1024 * KB

Json = NewType("Json", str)
Texts = tuple[str, ...]
Documents = tuple[Json, ...]
# Names with secret values: headers, parameters of a URL.
Headers = tuple[tuple[str, Secret], ...]
# Names with the environment variables that contain their values.
Variables = tuple[tuple[str, str], ...]
# Names with numbers, exactly as they are written.
Numbers = tuple[tuple[str, Decimal], ...]

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


@dataclass(frozen=True, slots=True)
class ServerSection:
    """Where the gateway listens, and who may connect."""

    host: Annotated[Text, "Address to listen on; all but loopback need `[[keys]]`."] = "127.0.0.1"
    port: Annotated[int, Range(0, 65535), "Port to listen on; 0 picks a free one."] = 8787
    session_dir: Annotated[
        Text, directory, "Directory for all stored data; `~` is the home directory."
    ] = "~/.holdgate/sessions"
    cors_origins: Annotated[Texts, Each(origin), "Web origins that may call; others get 403."] = ()
    hosts: Annotated[
        Texts, "Accepted `Host` names; empty: any if there are keys, else only loopback names."
    ] = ()
    keepalive_ms: Annotated[SomeMs, "Time between heartbeats on an idle stream."] = 10_000
    drain_ms: Annotated[Ms, "How long answers in progress may continue after SIGTERM."] = 30_000
    workers: Annotated[
        SomeCount, "Server processes; more than one needs a store on PostgreSQL."
    ] = 1
    log_format: Annotated[LogFormat, "Format of log lines: `text` or `json`."] = "text"
    log_level: Annotated[
        LogLevel, "Least level of log lines: `debug` (every step), `info`, `warning` or `error`."
    ] = "info"


@dataclass(frozen=True, slots=True)
class UpstreamSection:
    """A model provider: URL, protocol, key, timeouts."""

    id: Annotated[Identifier, "Name of the upstream, the first part of its routes."]
    base_url: Annotated[
        Url,
        web_url,
        "URL the dialect's path is appended to, such as `https://api.example.com/v1`; most presets "
        "have one.",
    ]
    preset: Annotated[
        PresetName, "Provider whose URL, dialect and other keys are filled in; empty: none."
    ] = ""
    dialect: Annotated[
        Dialect, "Wire language: `openai-chat`, `openai-responses` or `anthropic-messages`."
    ] = "openai-chat"
    profile: Annotated[Profile, "Named set of differences from the dialect; empty: none."] = ""
    path: Annotated[
        str,
        url_path,
        "Path below `base_url`; `{model}` stands for the model's name; empty: the dialect's path.",
    ] = ""
    query: Annotated[
        Headers, Each(parameter), "Parameters at the end of every URL; values are secret."
    ] = ()
    auth: Annotated[
        Auth,
        "How the key is sent: `bearer`, `x-api-key`, `api-key`, `none`, or `client` for the "
        "client's own; empty: as the dialect does.",
    ] = ""
    transport: Annotated[
        Transport,
        "HTTP client: `fast`, or `httpx` for unusual networks; `httpx2` must be installed.",
    ] = "fast"
    api_key: Annotated[Hidden, "The key that is sent to the upstream."] = None
    api_key_env: Annotated[Variable, "Environment variable that contains the key instead."] = ""
    api_key_command: Annotated[
        Texts,
        "Command, as a list of words, that prints the key instead, or JSON with `token` and "
        "`expires_at` or `expires_in`.",
    ] = ()
    models: Annotated[Texts, not_empty, "Models that it serves; `*` means any name."] = ("*",)
    headers: Annotated[
        Headers, Each(header), "Extra headers for every request; values are secret."
    ] = ()
    headers_env: Annotated[
        Variables,
        Each(header_variable),
        "Extra headers whose values are in environment variables: names and variables.",
    ] = ()
    connect_ms: Annotated[SomeMs, "Longest time to connect."] = 10_000
    first_byte_ms: Annotated[SomeMs, "Longest wait for the first byte of an answer."] = 120_000
    idle_ms: Annotated[SomeMs, "Longest silence between two bytes of an answer."] = 120_000
    ask_usage: Annotated[
        bool,
        "Whether a Chat Completions upstream is asked for the tokens of streams; false if it "
        "refuses that.",
    ] = True
    settle_ms: Annotated[
        Ms,
        "If a model has several routes: how long first frames without content wait for content or "
        "an error; 0: not at all.",
    ] = 100
    max_connections: Annotated[SomeCount, "Connections to this upstream at the same time."] = 1000
    # Not a key: the headers of `headers_env`, with their values.
    headers_found: Headers = ()


@dataclass(frozen=True, slots=True)
class ModelSection:
    """A public model name and its routes."""

    name: Annotated[Text, "Name that clients use."]
    routes: Annotated[
        Texts,
        not_empty,
        Each(route),
        "List of `<upstream>/<model>`, tried in this order until one answers.",
    ]
    clock: Annotated[bool, "Whether the model has the clock: tool, time, reminders, holds."] = True
    price: Annotated[
        Numbers | None,
        price,
        "USD for a million tokens, such as `{ input = 2.5, cached = 0.25, output = 10 }`; without "
        "`cached`, cached input costs as much as other input.",
    ] = None


@dataclass(frozen=True, slots=True)
class KeySection:
    """A key for clients; give exactly one of `key`, `key_env` and `key_sha256`."""

    owner: Annotated[Text, "Owner of the key; all stored data belongs to an owner."]
    key: Annotated[Hidden, "The key itself; only its hash is kept in memory."] = None
    key_env: Annotated[Variable, "Environment variable that contains the key instead."] = ""
    key_sha256: Annotated[
        Secret | None, digest, "SHA-256 of the key in hex, so that the file contains no key."
    ] = None
    admin: Annotated[bool, "Whether the key may use the admin routes and act for other owners."] = (
        False
    )
    models: Annotated[Texts, "Models that the owner may use, by public name; empty: all."] = ()
    rpm: Annotated[Count, "Requests to models in 60 seconds; 0: no limit."] = 0
    tpm: Annotated[Count, "Tokens in 60 seconds, input and output together; 0: no limit."] = 0
    concurrent: Annotated[
        Count, "Answers at the same time; held ones do not count; 0: no limit."
    ] = 0
    budget: Annotated[
        str,
        budget,
        "What may be spent, such as `20 USD/month` or `2M tokens/day`; empty: no limit.",
    ] = ""

    @property
    def sha256(self) -> str:
        """The hash of the key, in lower-case hex."""
        return self.key_sha256.reveal().lower() if self.key_sha256 else ""


@dataclass(frozen=True, slots=True)
class NtpSection:
    """How time servers correct the clock."""

    enabled: Annotated[bool, "Whether the gateway asks time servers."] = True
    servers: Annotated[Texts, "Time servers; each time all are asked."] = (
        "time.google.com",
        "time.cloudflare.com",
        "pool.ntp.org",
    )
    timeout_ms: Annotated[SomeMs, "Longest wait for one server."] = 800
    stale_after_ms: Annotated[Ms, "Age from which a correction is stale."] = 21_600_000
    resync_ms: Annotated[SomeMs, "Time between two corrections."] = 3_600_000
    max_offset_ms: Annotated[Ms, "Larger corrections are refused."] = 600_000


@dataclass(frozen=True, slots=True)
class ClockSection:
    """Time for models: the `clock` tool, reminders, holds."""

    enabled: Annotated[bool, "Whether models have the clock at all."] = True
    due_window_ms: Annotated[
        Ms, "How long before its time a reminder is due; 0 if no upstream is configured."
    ] = 60_000
    retention_ms: Annotated[Ms, "How long an undelivered reminder is kept after its time."] = (
        1_200_000
    )
    tick_ms: Annotated[SomeMs, "Time between two checks for expired reminders."] = 60_000
    hold_max_ms: Annotated[Ms, "Longest hold for one reminder; 0: no holds."] = 60_000
    hold_non_streaming: Annotated[bool, "Whether answers that do not stream may be held."] = True
    hold_total_ms: Annotated[Ms, "Longest time of all holds of one exchange together."] = 600_000
    timezone: Annotated[str, time_zone, "IANA name; empty: the time zone of the host."] = ""
    time_tag: Annotated[
        TimeTag, "Which requests get the time: `always`, `user_turns` or `off`."
    ] = "always"
    standard_tools: Annotated[
        Documents, "Tool declarations added when a reminder is due: tables, or JSON texts."
    ] = ()
    hold_for_jobs: Annotated[bool, "Whether answers are also held for results of jobs."] = False
    hold_without_session: Annotated[
        bool, "Whether requests without a session id may set reminders for this answer."
    ] = False
    ntp: NtpSection = field(default_factory=NtpSection)


@dataclass(frozen=True, slots=True)
class DirectivesSection:
    """Instructions to the gateway in the text of a message, `<**…**>`."""

    keep_unknown: Annotated[
        bool, "Whether a `<**…**>` that is not a directive stays in the text."
    ] = False


@dataclass(frozen=True, slots=True)
class StopMessageSection:
    """The `stopMessage` directive: text that the gateway sends whenever the model stops."""

    enabled: Annotated[bool, "Whether the directive has an effect."] = True
    default_repeats: Annotated[SomeCount, "Number of repeats if the directive names none."] = 10
    max_repeats: Annotated[
        Count, "Largest number of repeats; larger ones are lowered to it; 0: no limit."
    ] = 0
    files_dir: Annotated[
        str, directory, "Directory of files for the `file://` form; empty: that form is off."
    ] = ""
    bd_mode: Annotated[
        BdMode, "How to decide whether work is left: `auto`, `runtime` or `heuristic`."
    ] = "auto"
    bd_dir: Annotated[
        str, directory, "Directory in which `bd` runs; empty: `auto` means `heuristic`."
    ] = ""
    compaction_sentinels: Annotated[
        Texts,
        "A request whose text begins with one of these compacts a conversation; case is ignored.",
    ] = (
        "context checkpoint compaction",
        "checkpoint compaction",
        "handoff summary for another llm",
        "you are performing a context checkpoint compaction",
        "you are a helpful ai assistant tasked with summarizing conversations",
    )
    side_call_sentinels: Annotated[
        Texts,
        "A request without tools whose text begins with one of these is a side request; case is "
        "ignored.",
    ] = ("you are a title generator",)


@dataclass(frozen=True, slots=True)
class CronSection:
    """Jobs: messages that the gateway sends on a schedule."""

    enabled: Annotated[bool, "Whether jobs run."] = True
    max_concurrent_runs: Annotated[SomeCount, "Runs at the same time."] = 1
    idle_retry_ms: Annotated[SomeMs, "Time between two checks of a busy session."] = 2000
    max_busy_wait_ms: Annotated[
        Ms, "A run that has waited this long for a busy session is skipped."
    ] = 120_000
    run_timeout_ms: Annotated[SomeMs, "Longest time of a run."] = 300_000
    misfire_grace_ms: Annotated[Ms, "How late a missed time may still run."] = 3_600_000
    min_interval_ms: Annotated[SomeMs, "Shortest time between two runs of a job."] = 1000
    max_consecutive_failures: Annotated[
        SomeCount, "A job is disabled after this many failures in a row."
    ] = 5
    cron_lookahead_days: Annotated[
        SomeCount, "A cron expression without a time within so many days is refused."
    ] = 3660
    lease_ttl_ms: Annotated[SomeMs, "How long a run stays claimed after its process died."] = (
        300_000
    )
    keep_runs: Annotated[Count, "Number of runs kept for each job."] = 100
    offer_to_clients: Annotated[
        bool, "Whether relay sessions have the `schedule_task` tool, too."
    ] = False


@dataclass(frozen=True, slots=True)
class AgentSection:
    """A model, a system text and tools under one name; the gateway keeps its conversations."""

    id: Annotated[Identifier, "Name in requests (`agentId`)."]
    model: Annotated[Text, "Public model that answers."]
    name: Annotated[str, "Name that people see; empty: the id."] = ""
    system: Annotated[str, "System text of its conversations."] = ""
    tools: Annotated[Texts, "Server tools that it may call: `clock`, `schedule_task`."] = ()


@dataclass(frozen=True, slots=True)
class WebhookSection:
    """A URL to which the events of an owner are posted."""

    owner: Annotated[Text, "Whose events."]
    url: Annotated[Url, web_url, "URL to which they are posted."]
    secret: Annotated[Hidden, "The secret that signs them."] = None
    secret_env: Annotated[Variable, "Environment variable that contains the secret instead."] = ""


@dataclass(frozen=True, slots=True)
class LimitsSection:
    """Limits for everything that could grow; 1 KB is 1024 bytes, 1 MB is 1024 KB."""

    body_bytes: Annotated[Bytes, "Request body (20 MB), also after decompression."] = 20 * MB
    header_bytes: Annotated[Bytes, "All headers of a request together (64 KB)."] = 64 * KB
    json_depth: Annotated[SomeCount, "Nesting depth of a request's JSON."] = 128
    event_bytes: Annotated[Bytes, "One event of a stream (8 MB)."] = 8 * MB
    receive_idle_ms: Annotated[SomeMs, "Longest pause while a request is received."] = 30_000
    receive_total_ms: Annotated[Ms, "Longest time to receive a whole request; 0: no limit."] = (
        300_000
    )
    connections: Annotated[Count, "Open client connections of the process; 0: no limit."] = 0
    connections_per_address: Annotated[
        Count, "The same for one address, which behind a balancer is everybody; 0: no limit."
    ] = 0
    slow_reader_ms: Annotated[SomeMs, "Longest time in which a client may read nothing."] = 30_000
    turns: Annotated[SomeCount, "Turns of one exchange."] = 16
    holds_per_session: Annotated[Count, "Holds of a session at the same time."] = 1
    holds_per_owner: Annotated[Count, "Holds of an owner at the same time."] = 100
    holds: Annotated[Count, "Holds of the process at the same time."] = 20_000
    reminders_per_session: Annotated[Count, "Reminders of a session."] = 100
    task_bytes: Annotated[Bytes, "Text of a reminder (4 KB)."] = 4 * KB
    arguments_bytes: Annotated[Bytes, "Arguments of a reminder (8 KB)."] = 8 * KB
    stop_message_bytes: Annotated[Bytes, "Text of a stop message (4 KB)."] = 4 * KB
    jobs_per_owner: Annotated[Count, "Jobs of an owner."] = 100
    subscriptions_per_owner: Annotated[Count, "Event streams of an owner at the same time."] = 20
    inbox_polls_per_owner: Annotated[
        Count, "Inbox requests of an owner that wait at the same time."
    ] = 100
    due_followups: Annotated[
        SomeCount, "Follow-ups for due reminders that run at the same time."
    ] = 64
    offload_bytes: Annotated[
        Bytes, "Requests larger than this (128 KB) are read and translated in a helper process."
    ] = 128 * KB
    offload_processes: Annotated[
        Count,
        "Largest number of helper processes; 0: none, then a large request delays all others.",
    ] = 2
    offload_ms: Annotated[SomeMs, "Longest time of a helper process for one step of a request."] = (
        60_000
    )
    offload_queue_bytes: Annotated[
        Bytes,
        "Large requests that wait for a helper, together (256 MB); half of it for each owner.",
    ] = 256 * MB


@dataclass(frozen=True, slots=True)
class MetricsSection:
    """What `GET /metrics` shows."""

    owner_label: Annotated[
        bool, "Whether counters have the label `owner`; each owner has series of their own then."
    ] = False
    port: Annotated[
        int, Range(0, 65535), "Loopback port of the first worker's own `/metrics`; 0: free ones."
    ] = 0


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
    metrics: MetricsSection = field(default_factory=MetricsSection)
    # Not keys: whether the embedded demo upstream is to answer, which file was read, and which
    # source gave each value.
    demo: bool = False
    file: str = field(default="", compare=False)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
