"""The gateway's own tools in one exchange, and what it adds to the model's requests.

This decides which tools a model is offered, adds to its requests (declarations, due reminders and
results, the time), and runs calls. `claims` has what turns deliver to the session; `policy` decides
for what the answer is held.
"""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from gateway.clock.protocol import Clock
from gateway.clock.zone import Zone
from gateway.dialects.protocol import Dialect
from gateway.exchange.additions import Addition, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import ModelRequest, ToolCall
from gateway.jobs.tool_calls import NAME as SCHEDULE_TASK
from gateway.outbox.queue import OutboxQueue
from gateway.reminders.clock_calls import DECLARATION, NAME, SIDE_CALL, ToolError
from gateway.reminders.clock_tool import ClockTool, ReminderScope, hold_only, scope_of
from gateway.reminders.holds import HoldPolicy, Holds
from gateway.reminders.service import ReminderService
from gateway.reminders.text import reminder_text, time_tag
from gateway.reminders.tool_scope import Jobs, ServerTool, TimeSettings, ToolScope
from gateway.reminders.turn_claim import TurnClaim, TurnClaims
from gateway.stores.hints import ARRIVED

TOOL_SECONDS = 20.0
CLOCK = frozenset({NAME})
SERVER_TOOLS = frozenset({NAME, SCHEDULE_TASK})
"""The names of all tools that the gateway may offer, beside the operator's own."""
NO_TOOLS: frozenset[str] = frozenset()
ASSISTANT, TOOL = "assistant", "tool"


@dataclass(slots=True)
class ToolServices:
    """The services that the tools of all exchanges use."""

    clock: Clock
    zone: Zone
    reminders: ReminderService
    holds: Holds
    queue: OutboxQueue
    settings: TimeSettings
    unnamed: ReminderService | None = None
    """The reminders of requests without a session, if such requests may set any."""
    jobs: Jobs | None = None

    def end_hold(self, owner: str, session: str) -> None:
        """End the hold of a session to which a request came, here or at another instance."""
        self.holds.end(owner, session)
        reminders = self.reminders
        if not reminders.instance.is_alone and self._may_be_held(owner, session):
            reminders.hints.tell(ARRIVED, (owner, session))

    def _may_be_held(self, owner: str, session: str) -> bool:
        if not self.reminders.surely_idle(owner, session):
            return True
        return self.jobs is not None and self.jobs.expecting(owner, session) is not None


class ServerTools:
    """The gateway's tools in one exchange, and what it adds to the requests."""

    __slots__ = (
        "_extras",
        "_offers_clock",
        "_scope",
        "_services",
        "_standard_tools",
        "claims",
        "names",
        "policy",
    )

    def __init__(
        self,
        services: ToolServices,
        scope: ToolScope,
        asked: ModelRequest,
        dialect: Dialect,
        extras: tuple[ServerTool, ...] = (),
    ) -> None:
        self._services = services
        self._scope = scope
        reminders, session = services.reminders, scope.session
        if session is None and services.unnamed is not None and scope.may_hold:
            # Reminders that are set there end with this exchange.
            reminders, session = services.unnamed, f"exchange:{scope.exchange_id}"
        self.claims = TurnClaims(scope, reminders, session, services.queue)
        self.policy = HoldPolicy(
            services.holds, services.settings, services.jobs, scope, self.claims
        )
        takes, offered, declares = asked.takes_tools, asked.tools, dialect.declares
        # If the client has a tool of the same name, the client's tool counts.
        self._offers_clock = (
            takes and scope.clock and not (bool(offered) and declares(offered, NAME))
        )
        self.names = CLOCK if self._offers_clock else NO_TOOLS
        self._extras: dict[str, ServerTool] = {}
        if extras and takes:
            for tool in extras:
                name = tool.declaration.name
                if not declares(offered, name):
                    self._extras[name] = tool
            self.names |= self._extras.keys()
        self._standard_tools: tuple[ToolDeclaration, ...] = ()
        if services.settings.standard_tools and takes:
            self._standard_tools = tuple(
                tool
                for tool in services.settings.standard_tools
                if not declares(offered, tool.name)
            )

    def now_ms(self) -> int:
        """Return the time."""
        return self._services.clock.now_ms()

    # What is added to requests.

    def begin_now(self) -> tuple[Addition, ...] | None:
        """Return what is added to the client's request if nothing can be due; else None.

        The fast form of `begin`: nearly no session has anything due, and that is known without I/O.
        """
        if not self.claims.is_idle_now():
            return None
        self._end_look()
        return self._begin([])

    async def begin(self) -> tuple[Addition, ...]:
        """Return what is added to the client's request: the tools, what is due, the time."""
        claim = None if self._scope.last_role == ASSISTANT else await self.claims.claim_due()
        self._end_look()
        return self._begin([] if claim is None else self._describe(claim))

    def _end_look(self) -> None:
        """Have everything read anew from now on: the request goes out."""
        entries = self._services.reminders.store.entries
        if entries is not None:
            entries.end()

    def _begin(self, due: list[Addition]) -> tuple[Addition, ...]:
        additions: list[Addition] = [DECLARATION] if self._offers_clock else []
        if self._extras:
            additions += [tool.declaration for tool in self._extras.values()]
        # A prefilled answer must stay the last message.
        if self._scope.last_role != ASSISTANT:
            additions += due
            if self._tells_time():
                additions.append(self._write_time())
        return tuple(additions)

    def _tells_time(self) -> bool:
        rule, scope = self._services.settings.time_tag, self._scope
        if rule == "off" or not scope.clock:
            return False
        if (rule == "always" and scope.tags_results) or self.claims.current is not None:
            return True
        return scope.last_role != TOOL

    def _write_time(self) -> UserText:
        clock, zone = self._services.clock, self._services.zone
        text = time_tag(clock.now_ms(), zone.tz, zone.name, clock.offset_ms)
        return UserText(text, fleeting=True)

    async def follow_up(self) -> tuple[Addition, ...]:
        """Return what is due by now, for a follow-up that is sent in any case."""
        if self.policy.is_quiet():
            return ()
        claim = await self.claims.claim_due()
        return () if claim is None else tuple(self._describe(claim))

    def wake_up(self) -> tuple[Addition, ...]:
        """Return what the follow-up after a hold carries: what is due, and the time."""
        claim = self.claims.current
        assert claim is not None
        additions = self._describe(claim)
        if self._services.settings.time_tag != "off":
            additions.append(self._write_time())
        return tuple(additions)

    def _describe(self, claim: TurnClaim) -> list[Addition]:
        texts: list[Addition] = [UserText(claim.results_text)] if claim.results is not None else []
        if claim.reminders is None:
            return texts
        tools, claims = self._standard_tools, self.claims
        texts.append(UserText(reminder_text(claim.reminders.items, bool(tools))))
        if claims.with_tools is not None:
            return texts
        claims.with_tools = claim
        return [*tools, *texts]

    # The tools.

    async def run(self, call: ToolCall, is_last: bool = False) -> ToolResult:
        """Run a server tool and return its result; after the last call the answer ends."""
        error = ToolError("", f"The {call.name} tool did not answer in time; try again.")
        try:
            with anyio.move_on_after(TOOL_SECONDS):
                return ToolResult(call.id, await self._run(call, is_last))
        except ToolError as raised:
            error = raised
        return ToolResult(call.id, error.render(), error.sentence)

    async def _run(self, call: ToolCall, is_last: bool) -> str:
        if (extra := self._extras.get(call.name)) is not None:
            if self.claims.is_side_call():
                raise ToolError("", SIDE_CALL.format(action=call.name))
            return await extra.run(call.arguments)
        services, policy = self._services, self.policy
        scope, reminders = self._find_scope(is_last), self.claims.reminders
        tool = ClockTool(services.clock, services.zone, reminders, scope, policy.will_hold)
        return await tool.run(call.arguments)

    def _find_scope(self, is_last: bool) -> ReminderScope:
        """Return the scope of the reminders that the model sets now."""
        scope, policy = self._scope, self.policy
        if self.claims.is_side_call():
            return ReminderScope(scope.owner, None, refusal=SIDE_CALL)
        if scope.session is not None:
            return scope_of(scope)
        most_ms = policy.most_ms if policy.may_hold() and not is_last else 0
        return hold_only(scope.owner, self.claims.session, most_ms)
