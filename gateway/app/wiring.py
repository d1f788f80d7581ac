"""From the sections of the configuration to the values that the parts are given."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import anyio
import msgspec

from gateway.agents.model import Agent
from gateway.api.admission import Admission, Keys, Owner
from gateway.clock.ntp import NtpClock, NtpSettings
from gateway.clock.protocol import Clock
from gateway.clock.shared import SharedClock
from gateway.clock.system import SystemClock
from gateway.config import Config, ModelSection, UpstreamSection, Url
from gateway.config.budgets import read_budget
from gateway.console.sign_in import KeySignIn, TokenSigner
from gateway.dialects import DIALECTS
from gateway.dialects.profiles import Profile, profile_for
from gateway.dialects.translators import Translators, UpstreamDialect
from gateway.errors import Headers
from gateway.exchange.additions import ToolDeclaration
from gateway.exchange.model import Route
from gateway.exchange.ports import Limits, Services
from gateway.exchange.rules import Rule
from gateway.exchange.runner import LiveExchanges
from gateway.jobs.model import JobRules
from gateway.jobs.run_services import RunSettings
from gateway.jobs.tool_calls import NAME as SCHEDULE_TASK
from gateway.offload import Offload, OffloadSettings
from gateway.outbox.webhooks import Hook
from gateway.reminders.clock_calls import NAME as CLOCK
from gateway.reminders.model import Rules as ReminderRules
from gateway.reminders.tool_scope import TimeSettings
from gateway.routing import Health, Models, PublicModel, every_model
from gateway.sessions.model import StopRules
from gateway.sessions.session_request import SessionSettings
from gateway.stores.shared import SharedSettings, is_shared
from gateway.usage.limits_model import Budget, OwnerBounds
from gateway.usage.model import PriceList, make_price
from gateway.wire.heartbeats import Heartbeats
from gateway.wire.http_client.connect import connect
from gateway.wire.http_client.key_command import KeyCommand, KeyedUpstream
from gateway.wire.http_client.upstream import Endpoint, Timeouts, Upstream
from gateway.wire.http_server.limits import ConnectionLimits

DEMO = "demo"
MESSAGES = "anthropic-messages"
USD = "USD"
# What upstreams have beside the path of their dialect, and who of them.
PASS_THROUGH = {
    "/embeddings": ("openai-chat", "openai-responses"),
    "/completions": ("openai-chat", "openai-responses"),
    "/responses/compact": ("openai-responses",),
}
# How long what nobody was held for any more stays in memory, at most.
HOLD_ONLY_KEPT_MS = 60_000
ANTHROPIC_VERSION = (b"anthropic-version", b"2023-06-01")
# The header that carries the key, and what stands before the key in it.
AUTH_HEADERS = {
    "bearer": (b"authorization", b"Bearer "),
    "x-api-key": (b"x-api-key", b""),
    "api-key": (b"api-key", b""),
}


def make_exchanges(config: Config, rules: tuple[Rule, ...]) -> LiveExchanges:
    """Return who runs exchanges; it knows no upstreams yet."""
    limits = config.limits
    heartbeats = Heartbeats(
        config.server.keepalive_ms / 1000, limits.slow_reader_ms / 1000, time.monotonic
    )
    offload = OffloadSettings(
        limits.offload_bytes,
        limits.offload_processes,
        limits.offload_ms / 1000,
        limits.offload_queue_bytes,
    )
    return LiveExchanges(
        Services(
            {},
            heartbeats,
            time.monotonic,
            _translators(config),
            rules=rules,
            follow_up_slots=anyio.Semaphore(limits.due_followups),
            offload=Offload(offload),
        )
    )


def exchange_services(
    config: Config, base: Services, upstreams: Mapping[str, Upstream], health: Health
) -> Services:
    """Return what new exchanges are run with: these upstreams, and all else as before."""
    limits = config.limits
    return replace(
        base,
        upstreams=upstreams,
        translators=_translators(config),
        limits=Limits(limits.event_bytes, limits.body_bytes, limits.turns),
        health=health,
    )


def _translators(config: Config) -> Translators:
    limits = config.limits
    return Translators(_upstream_dialects(config), limits.event_bytes, limits.body_bytes, time.time)


def _upstream_dialects(config: Config) -> dict[str, UpstreamDialect]:
    return {
        section.id: UpstreamDialect(
            section.dialect,
            _profile_of(section),
            (ANTHROPIC_VERSION,) if section.dialect == MESSAGES else (),
        )
        for section in config.upstreams
    } | {DEMO: UpstreamDialect("openai-chat")}


def _profile_of(section: UpstreamSection) -> Profile:
    profile = profile_for(section.profile, urlsplit(section.base_url).hostname or "")
    if section.ask_usage:
        return profile
    return msgspec.structs.replace(profile, always_reports=True)


def clock_of(config: Config) -> Clock:
    """Return the clock that is to tell the time."""
    section = config.clock.ntp
    if not (config.clock.enabled and section.enabled):
        return SystemClock()
    # The section has every setting, under the same name.
    settings = msgspec.convert(section, NtpSettings, from_attributes=True)
    # The offset is the host's, whatever store its sessions are kept in; several processes of a host
    # do not share a file.
    in_memory = config.store.url == "memory:" or is_shared(config.store.url)
    path = None if in_memory else Path(config.server.session_dir) / "clock" / "ntp-state.json"
    return NtpClock(settings, path)


def due_clock_of(config: Config, host: Clock) -> Clock:
    """Return the clock by which everything is due: of the store, if instances share it."""
    return SharedClock(host) if is_shared(config.store.url) else host


def store_settings(config: Config) -> SharedSettings:
    """Return where the store is that many instances share."""
    # The section has every setting, under the same name.
    return msgspec.convert(config.store, SharedSettings, from_attributes=True)


def _declaration(text: str) -> ToolDeclaration:
    """Read a tool declaration as any of the dialects would write it."""
    tool = json.loads(text)
    inner = tool.get("function", tool)
    schema = inner.get("parameters") or inner.get("input_schema") or {"type": "object"}
    description = str(inner.get("description", ""))
    return ToolDeclaration(str(inner["name"]), description, json.dumps(schema), strict=False)


def reminder_rules(config: Config) -> ReminderRules:
    """Return what the operator says about reminders."""
    clock, limits = config.clock, config.limits
    return ReminderRules(
        clock.due_window_ms,
        clock.retention_ms,
        limits.reminders_per_session,
        limits.task_bytes,
        limits.arguments_bytes,
    )


def connect_upstream(
    section: UpstreamSection, key: KeyCommand | None = None, below: str = ""
) -> Upstream:
    """Return an upstream, or what is below it, asked with the key of its command if it has one."""
    endpoint = endpoint_of(section, below)
    if key is None:
        return connect(endpoint)
    upstream = connect(replace(endpoint, secrets=key.secrets))
    return KeyedUpstream(upstream, key, AUTH_HEADERS[section.auth or _usual_auth(section)])


def endpoint_of(section: UpstreamSection, below: str = "") -> Endpoint:
    """Return where an upstream is, and how it is called."""
    path = section.path or DIALECTS[section.dialect].path
    return Endpoint(
        id=section.id,
        url=_url_of(section, path + below),
        headers=_credentials(section) + _constant_headers(section),
        timeouts=Timeouts(
            section.connect_ms / 1000,
            section.first_byte_ms / 1000,
            section.idle_ms / 1000,
            section.settle_ms / 1000,
        ),
        max_connections=section.max_connections,
        transport=section.transport,
        takes_client_key=section.auth == "client",
    )


def _url_of(section: UpstreamSection, path: str) -> str:
    url = section.base_url.rstrip("/") + path
    if not section.query:
        return url
    return url + "?" + urlencode([(name, value.reveal()) for name, value in section.query])


def find_pass_through(
    config: Config, upstreams: Mapping[str, Upstream]
) -> dict[str, dict[str, Upstream]]:
    """Return the upstreams that have each of the paths that are passed through."""
    found: dict[str, dict[str, Upstream]] = {path: {} for path in PASS_THROUGH}
    for section in config.upstreams:
        base = _base_path(section)
        for path, dialects in PASS_THROUGH.items():
            if base is not None and section.dialect in dialects:
                url = _url_of(section, base + path)
                found[path][section.id] = upstreams[section.id].copy_with_url(url)
    return found


def _base_path(section: UpstreamSection) -> str | None:
    """Return what stands before the dialect's path; None if an own path does not end with it."""
    own = DIALECTS[section.dialect].path
    if not section.path:
        return ""
    return section.path.removesuffix(own) if section.path.endswith(own) else None


def _credentials(section: UpstreamSection) -> Headers:
    if section.api_key is None:
        return ()
    name, scheme = AUTH_HEADERS[section.auth or _usual_auth(section)]
    return ((name, scheme + section.api_key.reveal().encode()),)


def _usual_auth(section: UpstreamSection) -> str:
    return "x-api-key" if section.dialect == MESSAGES else "bearer"


def find_client_key_upstreams(config: Config) -> frozenset[str]:
    """Return the upstreams that are asked with the client's own key."""
    return frozenset(section.id for section in config.upstreams if section.auth == "client")


def _constant_headers(section: UpstreamSection) -> Headers:
    return tuple(
        (name.lower().encode(), value.reveal().encode())
        for name, value in (*section.headers, *section.headers_found)
    )


def models_of(config: Config) -> Models:
    """Return the public names."""
    offers = {section.id: section.models for section in config.upstreams}
    if config.demo:
        offers = {DEMO: (DEMO,), **offers}
    if config.models:
        public = [PublicModel(m.name, _routes_of(m), m.clock) for m in config.models]
        return Models(public, offers=offers, allowed=find_allowed_models(config))
    return every_model(offers, find_allowed_models(config))


def find_allowed_models(config: Config) -> dict[str, frozenset[str]]:
    """Return the models of the owners who may ask only for the routes of certain models."""
    public = frozenset(model.name for model in config.models)
    # A budget in USD can only bound what has a price, which routes of no public model have not.
    budgets = [(key.owner, read_budget(key.budget)) for key in config.keys if key.budget]
    paying = [owner for owner, budget in budgets if budget.unit == USD]
    named = {key.owner: frozenset(key.models) for key in config.keys if key.models}
    return dict.fromkeys(paying, public) | named


def owner_bounds(config: Config) -> dict[str, OwnerBounds]:
    """Return what bounds owners; the keys of an owner agree about it."""
    found: dict[str, OwnerBounds] = {}
    for key in config.keys:
        known = found.get(key.owner, OwnerBounds())
        found[key.owner] = OwnerBounds(
            key.rpm or known.rpm,
            key.tpm or known.tpm,
            key.concurrent or known.concurrent,
            Budget(*read_budget(key.budget)) if key.budget else known.budget,
        )
    return found


def prices_of(config: Config) -> PriceList:
    """Return what the tokens of public models cost."""
    return PriceList(
        (m.name, _routes_of(m), None if m.price is None else make_price(dict(m.price)))
        for m in config.models
    )


def _routes_of(section: ModelSection) -> tuple[Route, ...]:
    pairs = (route.partition("/") for route in section.routes)
    return tuple(Route(upstream, model) for upstream, _, model in pairs)


def keys_of(config: Config, signer: TokenSigner | None, now_ms: Callable[[], int]) -> Keys:
    """Return whose key is whose; without a signer nobody can sign in."""
    owners = {key.sha256: Owner(key.owner, key.admin) for key in config.keys}
    return Keys(owners, None if signer is None else KeySignIn(signer, owners, now_ms))


def find_secret_file(config: Config) -> Path | None:
    """Return where the secret of sign-ins is kept; None: in memory, as all else."""
    is_in_memory = config.store.url == "memory:"
    return None if is_in_memory else Path(config.server.session_dir) / "console" / "sign-in-secret"


def admission_of(config: Config) -> Admission:
    """Return who is let in."""
    return Admission(
        hosts=frozenset(name.lower() for name in config.server.hosts),
        any_host=bool(config.keys),
        origins=frozenset(config.server.cors_origins),
        header_bytes=config.limits.header_bytes,
    )


def connection_limits(config: Config) -> ConnectionLimits:
    """Return what a client's connection may cost."""
    limits = config.limits
    return ConnectionLimits(
        limits.header_bytes,
        limits.receive_idle_ms / 1000,
        limits.receive_total_ms / 1000,
        limits.slow_reader_ms / 1000,
        limits.connections,
        limits.connections_per_address,
    )


def hold_limits(config: Config) -> tuple[int, int]:
    """Return how many answers may be held: of all, and of one owner."""
    limits = config.limits
    return limits.holds, limits.holds_per_owner if limits.holds_per_session else 0


def demo_section(port: int) -> UpstreamSection:
    """Return the demo as an upstream that listens here."""
    return UpstreamSection(DEMO, Url(f"http://127.0.0.1:{port}/v1"))


def time_settings(config: Config) -> TimeSettings:
    """Return what the operator says about the clock."""
    section = config.clock
    return TimeSettings(
        section.time_tag,
        section.hold_max_ms,
        section.hold_total_ms,
        section.hold_non_streaming,
        tuple(map(_declaration, section.standard_tools)),
        section.hold_for_jobs,
        section.hold_without_session,
    )


def hold_only_rules(config: Config) -> ReminderRules:
    """Return the rules of reminders that are only held for: they come at their time, or never."""
    rules = reminder_rules(config)
    return msgspec.structs.replace(rules, due_window_ms=0, retention_ms=HOLD_ONLY_KEPT_MS)


def session_settings(config: Config) -> SessionSettings:
    """Return what the operator says about sessions."""
    section = config.stop_message
    rules = StopRules(
        section.enabled,
        section.default_repeats,
        section.max_repeats,
        config.limits.stop_message_bytes,
    )
    files = Path(section.files_dir) if section.files_dir else None
    # Which tracker would be asked without a directory is a matter of where the gateway was started.
    guesses = section.bd_mode == "auto" and not section.bd_dir
    return SessionSettings(
        rules,
        files,
        "heuristic" if guesses else section.bd_mode,
        section.compaction_sentinels,
        section.side_call_sentinels,
        config.directives.keep_unknown,
    )


def job_rules(config: Config, timezone: str) -> JobRules:
    """Return what the operator says about jobs."""
    section = config.cron
    return JobRules(
        timezone,
        section.min_interval_ms,
        section.misfire_grace_ms,
        section.max_consecutive_failures,
        section.cron_lookahead_days,
        config.limits.jobs_per_owner,
    )


def run_settings(config: Config) -> RunSettings:
    """Return what the operator says about their runs."""
    section = config.cron
    return RunSettings(
        section.max_concurrent_runs,
        section.idle_retry_ms,
        section.max_busy_wait_ms,
        section.run_timeout_ms,
        section.lease_ttl_ms,
        section.keep_runs,
        config.clock.tick_ms,
    )


def agents_of(config: Config) -> list[Agent]:
    """Return the agents, in the order in which they are listed; the demo brings one of its own."""
    if config.demo and not config.agents and not config.models:
        return [Agent(DEMO, "Demo", DEMO, tools=(CLOCK, SCHEDULE_TASK))]
    return [
        Agent(section.id, section.name or section.id, section.model, section.system, section.tools)
        for section in config.agents
    ]


def hooks_of(config: Config) -> list[Hook]:
    """Return where whose deliveries are posted."""
    return [
        Hook(section.owner, str(section.url), section.secret.reveal().encode())
        for section in config.webhooks
        if section.secret is not None
    ]
