"""What the turns of one exchange carry to its session: claimed, then delivered or given back.

A turn that is to tell the model what is due claims it. With the first frames that say anything it
is delivered; an answer in one piece is delivered as a whole, at its end. Whatever comes to nothing
is given back, and the next request of the session finds it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.outbox.ledger import Claim
from gateway.outbox.queue import OutboxQueue
from gateway.outbox.text import results_text
from gateway.reminders.model import Reminder
from gateway.reminders.service import ReminderService
from gateway.reminders.tool_scope import ToolScope
from gateway.sessions.identity import UNKNOWN
from gateway.stores.rows import OutboxItem


@dataclass(frozen=True, slots=True, eq=False)
class TurnClaim:
    """Reminders that are due, and results that waited; at least one of both."""

    service: ReminderService
    queue: OutboxQueue
    reminders: Claim[Reminder] | None
    results: Claim[OutboxItem] | None

    @property
    def results_text(self) -> str:
        """What the model reads of the results."""
        return "" if self.results is None else results_text(self.results.items)

    async def commit(self) -> None:
        """Note that it is delivered."""
        if self.reminders is not None:
            await self.service.commit(self.reminders)
        if self.results is not None:
            await self.queue.commit(self.results)

    def release(self) -> None:
        """Give it back."""
        if self.reminders is not None:
            self.service.release(self.reminders)
        if self.results is not None:
            self.queue.release(self.results)


class TurnClaims:
    """The claims of one exchange: that of the turn at hand, and those of an answer in one piece."""

    __slots__ = (
        "_quiet_at",
        "_scope",
        "current",
        "owed",
        "queue",
        "reminders",
        "session",
        "with_tools",
    )

    def __init__(
        self, scope: ToolScope, reminders: ReminderService, session: str | None, queue: OutboxQueue
    ) -> None:
        self._scope = scope
        self.reminders = reminders
        self.session = session
        self.queue = queue
        self.current: TurnClaim | None = None
        """What the turn at hand carries that is not delivered yet."""
        self.owed: list[TurnClaim] = []
        """What earlier turns carried of an answer that is handed over in one piece, at its end."""
        self.with_tools: TurnClaim | None = None
        """With which the operator's tools were declared: in later turns they are already."""
        self._quiet_at: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to deliver or to give back."""
        return self.current is None and not self.owed

    def is_side_call(self) -> bool:
        """Judge again whether this is a side call, which takes nothing and sets nothing."""
        asker = self._scope.asker
        return asker is not None and asker.is_auxiliary()

    # Claiming.

    def is_idle_now(self) -> bool:
        """Tell without waiting that nothing is there, as is true of nearly all sessions.

        The fast form of `claim_due`, which then finds nothing: no task switch, no read.
        """
        scope, session = self._scope, self.session
        if session is None or not scope.collects:
            return True
        if scope.clock and not self.reminders.surely_idle(scope.owner, session):
            return False
        # Unless a reminder is scheduled, the end of a turn need not look again.
        self._quiet_at = self.reminders.counts.scheduled
        return self.queue.idle(scope.owner, session)

    def is_unchanged(self) -> bool:
        """Tell without waiting that no reminder was there at the last look, and none came since."""
        return self._quiet_at == self.reminders.counts.scheduled

    async def claim_due(self) -> TurnClaim | None:
        """Claim what is due in the session, if it may be taken."""
        scope, session = self._scope, self.session
        if session is None or not scope.collects:
            return None
        before = self.reminders.counts.scheduled
        has_none = not scope.clock or await self.reminders.idle(scope.owner, session)
        if has_none:
            self._quiet_at = before
            if self.queue.idle(scope.owner, session):
                return None
        return await self.claim(not has_none, with_results=True)

    async def claim(
        self, with_reminders: bool, with_results: bool, by: Callable[[], None] | None = None
    ) -> TurnClaim | None:
        """Claim what is there for the session; who claims unasked is not called back (`by`)."""
        scope, session, asker = self._scope, self.session, self._scope.asker
        if session is None or self.is_side_call():
            return None
        reminders = None
        who = (scope.owner, session, scope.exchange_id, asker.requester() if asker else UNKNOWN)
        if with_reminders and (reminders := await self.reminders.reserve(*who, by)):
            # Whoever leaves while the results are looked for gives it back.
            self.current = TurnClaim(self.reminders, self.queue, reminders, None)
        if with_results and (results := await self.queue.reserve(*who)):
            self.current = TurnClaim(self.reminders, self.queue, reminders, results)
        return self.current

    # Delivering, or giving back.

    async def commit(self) -> None:
        """Take it that the client has seen the turn that carries something."""
        if self.is_side_call():
            self.release()
        claim, self.current = self.current, None
        if claim is not None:
            await claim.commit()

    def keep_for_end(self) -> None:
        """Take it that the turn ended well, and is handed over later."""
        if self.current is not None:
            self.owed.append(self.current)
            self.current = None

    async def commit_all(self) -> None:
        """Take it that the client has got the whole answer."""
        if self.is_side_call():
            self.release_all()
        owed, self.owed = self.owed, []
        for claim in owed:
            await claim.commit()

    def release(self) -> None:
        """Give back what a turn carried that came to nothing."""
        claim, self.current = self.current, None
        if claim is not None:
            claim.release()
            if self.with_tools is claim:
                self.with_tools = None

    def release_all(self) -> None:
        """Give back all that was not delivered."""
        self.release()
        for claim in self.owed:
            claim.release()
        self.owed = []
