"""What new requests are answered with: the one place where a configuration becomes that.

It is made at the start, and made anew by a reload. A request that came before goes on with the one
it came to. What keeps something is made once, in `GatewayServices`.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.agents.service import Agents, AgentServices
from gateway.app import wiring
from gateway.app.services import GatewayServices
from gateway.app.upstreams import ConnectedUpstream
from gateway.config import Config
from gateway.exchange.ports import Services
from gateway.exchange.prepare import ExchangePreparer
from gateway.jobs.agent_runs import AgentRuns
from gateway.jobs.relay_runs import RelayRuns
from gateway.jobs.service import JobService
from gateway.jobs.tool import ScheduleTaskOffer
from gateway.routing import Health


class RequestServices:
    """Keys, models, upstreams, agents and limits, as new requests and new runs of jobs use them."""

    def __init__(
        self,
        config: Config,
        connected: Mapping[str, ConnectedUpstream],
        health: Health,
        parts: GatewayServices,
    ) -> None:
        self.config = config
        self.connected = connected
        self.parts = parts
        self.keys = wiring.keys_of(config, parts.token_signer, parts.base.clock.now_ms)
        self.models = wiring.models_of(config)
        bounds = wiring.owner_bounds(config).values()
        self.limits = parts.limits if any(one.is_limited for one in bounds) else None
        """None where nobody has limits, so that nothing is asked or settled."""
        self.counters = {
            name: one.counter for name, one in connected.items() if one.counter is not None
        }
        upstreams = {name: one.upstream for name, one in connected.items()}
        base = parts.base.exchanges.services
        self.exchange_services = wiring.exchange_services(config, base, upstreams, health)
        self.preparer = self._make_preparer(self.exchange_services)
        self.jobs = self._make_jobs()
        self.offer = ScheduleTaskOffer(self.jobs, config.cron.offer_to_clients)
        self.agents = self._make_agents()
        self.agent_runs = AgentRuns(self.agents, parts.locks)
        self.relay_runs = RelayRuns(
            parts.base.exchanges,
            self.preparer,
            parts.snapshots,
            self.offer.for_run,
            config.limits.json_depth,
        )

    def _make_preparer(self, services: Services) -> ExchangePreparer:
        config, parts = self.config, self.parts
        return ExchangePreparer(
            self.models,
            parts.sessions,
            parts.tool_services,
            services,
            config.clock.enabled,
            parts.snapshots if config.cron.enabled else None,
            wiring.find_client_key_upstreams(config),
            self.limits,
        )

    def _make_jobs(self) -> JobService:
        base, parts = self.parts.base, self.parts
        return JobService(
            parts.rows.jobs,
            base.clock,
            wiring.job_rules(self.config, base.zone.name),
            parts.job_index,
            parts.snapshots,
            base.note,
            dict.fromkeys(agent.id for agent in wiring.agents_of(self.config)),
            self.models,
        )

    def _make_agents(self) -> Agents:
        base, conversations = self.parts.base, self.parts.conversations
        services = AgentServices(
            base.exchanges, self.preparer, conversations, base.note, self.offer.for_agent
        )
        return Agents(wiring.agents_of(self.config), services)
