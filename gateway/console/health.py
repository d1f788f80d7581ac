"""How the gateway is: upstreams, store, clock, scheduler and the process itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.clock.protocol import Clock
from gateway.console.instances import InstanceLister, InstanceView
from gateway.console.metrics_history import MetricsHistory, UpstreamCounts, show_quantile
from gateway.exchange.runner import LiveExchanges
from gateway.jobs.view import SchedulerStatus
from gateway.outbox.shared_webhooks import SharedWebhooks
from gateway.outbox.wakeup import SubscriberLimit
from gateway.outbox.webhooks import Webhooks
from gateway.reminders.holds import Holds
from gateway.reminders.view import NtpView, show_ntp
from gateway.stores.instance import Instance
from gateway.version import __version__

# A store is not asked more often, however many look.
PROBE_SECONDS = 10.0
NOTHING_ASKED = UpstreamCounts()


class UpstreamHealth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an upstream is, and how it was in the last five minutes."""

    id: str
    state: Literal["ok", "cooling"]
    until: Annotated[int | None, Meta(description="When it has cooled down.")]
    p50: Annotated[float | None, Meta(description="Milliseconds to the first frame.")]
    p95: float | None
    failed: Annotated[float, Meta(description="The share of tries that failed.")]
    busy: Annotated[int, Meta(description="Connections in use.")]
    turns: int


class StoreHealth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the store works, and how long it took to say so."""

    kind: str
    ok: bool
    ms: float
    message: Annotated[str, Meta(description="What is wrong.")] = ""


class LimitUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of a limit is in use."""

    used: int
    max: int


class GatewayHealth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the gateway is; times are UTC milliseconds."""

    upstreams: list[UpstreamHealth]
    store: StoreHealth
    ntp: NtpView
    scheduler: SchedulerStatus
    webhooks: Annotated[int, Meta(description="How many are configured.")]
    holds: LimitUse
    streams: Annotated[
        dict[str, LimitUse],
        Meta(description="Streams and waiting requests of the owner who has most, by kind."),
    ]
    draining: bool
    loop_lag_ms: Annotated[float, Meta(description="The most in the last ten seconds.")]
    rss: int | None
    descriptors: int | None
    started_at: int
    version: str
    skew_ms: Annotated[
        int, Meta(description="How far the host's clock is ahead of the database's, if over 1 s.")
    ]
    instances: Annotated[
        list[InstanceView], Meta(description="All that share the store, if it is shared.")
    ]


class StoreProbe:
    """Asks the store how it is, and measures how long that takes."""

    def __init__(
        self, kind: str, find_trouble: Callable[[], Awaitable[str]], steady: Callable[[], float]
    ) -> None:
        self.kind = kind
        self._find_trouble = find_trouble
        self._steady = steady
        self._asked_at: float | None = None
        self._found = StoreHealth(kind, ok=True, ms=0.0)

    async def look(self) -> StoreHealth:
        """Return how the store is, or was a few seconds ago."""
        now = self._steady()
        if self._asked_at is None or now - self._asked_at >= PROBE_SECONDS:
            # Before it answers: others who look meanwhile get what was found before.
            self._asked_at = now
            trouble = await self._find_trouble()
            ms = round((self._steady() - now) * 1000, 1)
            self._found = StoreHealth(self.kind, not trouble, ms, trouble)
        return self._found


@dataclass(frozen=True, slots=True)
class LimitSources:
    """Who knows how much of each limit is in use."""

    holds: Holds
    streams: Mapping[str, SubscriberLimit]

    def show_holds(self) -> LimitUse:
        """Return how many answers of the process are held."""
        return LimitUse(len(self.holds), self.holds.most)

    def show_streams(self) -> dict[str, LimitUse]:
        """Return how much is used by the owner who uses most."""
        return {name: LimitUse(one.most_taken, one.most) for name, one in self.streams.items()}


@dataclass(frozen=True, slots=True)
class HealthReader:
    """Reads how the gateway is; the console's feed and its page ask the same."""

    exchanges: LiveExchanges
    history: MetricsHistory
    store: StoreProbe
    clock: Clock
    scheduler: Callable[[], SchedulerStatus]
    webhooks: Webhooks | SharedWebhooks
    limits: LimitSources
    started_at: float
    instance: Instance
    instances: InstanceLister

    async def read(self) -> GatewayHealth:
        """Return how the gateway is."""
        latest, asked = self.history.latest, self.history.sum_up_upstreams()
        return GatewayHealth(
            upstreams=[
                self._show_upstream(name, asked.get(name, NOTHING_ASKED))
                for name in self.exchanges.services.upstreams
            ],
            store=await self.store.look(),
            ntp=show_ntp(self.clock.ntp),
            scheduler=self.scheduler(),
            webhooks=len(self.webhooks.hooks),
            holds=self.limits.show_holds(),
            streams=self.limits.show_streams(),
            draining=self.exchanges.draining,
            loop_lag_ms=round(latest.loop_lag_ms, 1),
            rss=latest.rss,
            descriptors=latest.descriptors,
            started_at=round(self.started_at * 1000),
            version=__version__,
            skew_ms=self.instance.notable_skew_ms,
            instances=await self.instances.list_all(),
        )

    def _show_upstream(self, name: str, counts: UpstreamCounts) -> UpstreamHealth:
        services = self.exchanges.services
        cooling = services.health.cooling(name, services.now())
        return UpstreamHealth(
            id=name,
            state="cooling" if cooling else "ok",
            until=self.clock.now_ms() + round(cooling * 1000) if cooling else None,
            p50=show_quantile(counts.first, 0.5),
            p95=show_quantile(counts.first, 0.95),
            failed=round(counts.failed_share, 4),
            busy=services.upstreams[name].busy,
            turns=counts.turns,
        )
