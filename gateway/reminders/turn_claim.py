"""What the turns of one exchange deliver to its session: claimed, then committed or released.

A turn that carries due reminders or results to the model claims them. The claim is committed with
the first frames that have content; for an answer in one piece, at its end. If the turn fails, the
claim is released, and the next request of the session gets the items.
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
from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.hints import REMINDERS


@dataclass(frozen=True, slots=True, eq=False)
class TurnClaim:
    """A claim of due reminders, of waiting results, or of both."""

    service: ReminderService
    queue: OutboxQueue
    reminders: Claim[Reminder] | None
    results: Claim[OutboxItem] | None
    holder: str
    """The id of this instance when it claimed."""

    @property
    def results_text(self) -> str:
        """The message with the results, for the model."""
        return "" if self.results is None else results_text(self.results.items)

    @property
    def is_certain(self) -> bool:
        """Whether it is certain, without a look, that no other instance took its items over."""
        instance = self.service.instance
        return instance.is_alone or (instance.is_trusted and instance.id == self.holder)

    async def is_held(self) -> bool:
        """Return by a look whether it still holds its items."""
        if self.reminders is not None and not await self.service.is_held(self.reminders):
            return False
        return self.results is None or await self.queue.is_held(self.results)

    async def commit(self) -> None:
        """Mark its items as delivered."""
        if self.reminders is not None:
            await self.service.commit(self.reminders)
        if self.results is not None:
            await self.queue.commit(self.results)

    def release(self) -> None:
        """Release its items."""
        if self.reminders is not None:
            self.service.release(self.reminders)
        if self.results is not None:
            self.queue.release(self.results)


class TurnClaims:
    """The claims of one exchange: of the current turn, and of an answer in one piece."""

    __slots__ = (
        "_mark",
        "_scope",
        "current",
        "is_unsettled",
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
        """The claim of the current turn that is not delivered yet."""
        self.owed: list[TurnClaim] = []
        """Claims of earlier turns of an answer in one piece, which is sent at its end."""
        self.with_tools: TurnClaim | None = None
        """The claim with which the operator's tools were declared; later turns have them."""
        self.is_unsettled = False
        """Whether something of it may not be in the store yet that instances share."""
        # When no reminder was there: the mark of that look.
        self._mark: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit or release."""
        return self.current is None and not self.owed

    def is_side_call(self) -> bool:
        """Check again whether this is a side call, which claims nothing and sets nothing."""
        asker = self._scope.asker
        return asker is not None and asker.is_auxiliary()

    # Claiming.

    def is_idle_now(self) -> bool:
        """Return without I/O whether nothing waits, as in nearly all sessions.

        The fast form of `claim_due`, which would then find nothing: no task switch, no read.
        """
        scope, session = self._scope, self.session
        if session is None or not scope.collects:
            return True
        if scope.clock and not self.reminders.surely_idle(scope.owner, session):
            return False
        # As long as no reminder is scheduled, the end of a turn need not look again.
        self._mark = self.reminders.find_mark(scope.owner, session)
        return self.queue.idle(scope.owner, session)

    def is_unchanged(self) -> bool:
        """Return without I/O whether no reminder was there at the last look or came since."""
        mark, session = self._mark, self.session
        if mark is None or session is None:
            return False
        return not self.reminders.hints.has_changed(REMINDERS, (self._scope.owner, session), mark)

    async def claim_due(self) -> TurnClaim | None:
        """Claim what is due in the session, if this exchange may deliver it."""
        scope, session = self._scope, self.session
        if session is None or not scope.collects:
            return None
        before = self.reminders.find_mark(scope.owner, session)
        has_none = not scope.clock or await self.reminders.idle(scope.owner, session)
        if has_none:
            self._mark = before
            if self.queue.idle(scope.owner, session):
                return None
        return await self.claim(not has_none, with_results=True)

    async def claim(
        self, with_reminders: bool, with_results: bool, by: Callable[[], None] | None = None
    ) -> TurnClaim | None:
        """Claim what waits for the session; `by` is the caller's own callback and is not called."""
        scope, session, asker = self._scope, self.session, self._scope.asker
        if session is None or self.is_side_call():
            return None
        reminders, holder = None, self.reminders.instance.id
        who = (scope.owner, session, scope.exchange_id, asker.requester() if asker else UNKNOWN)
        if with_reminders and (reminders := await self.reminders.reserve(*who, by)):
            # Set before the results are read: on a cancel the reminders are released.
            self.current = TurnClaim(self.reminders, self.queue, reminders, None, holder)
        if with_results and (results := await self.queue.reserve(*who)):
            self.current = TurnClaim(self.reminders, self.queue, reminders, results, holder)
        return self.current

    # Commit and release.

    async def commit(self) -> None:
        """Commit the claim of the current turn: the client has seen the turn."""
        if self.is_side_call():
            self.release()
        claim, self.current = self.current, None
        if claim is not None:
            self.is_unsettled = True
            await claim.commit()

    def keep_for_end(self) -> None:
        """Keep the claim of the current turn until the answer is sent, at its end."""
        if self.current is not None:
            self.owed.append(self.current)
            self.current = None

    async def commit_all(self) -> None:
        """Commit all kept claims: the client has the whole answer."""
        if self.is_side_call():
            self.release_all()
        owed, self.owed = self.owed, []
        for claim in owed:
            self.is_unsettled = True
            await claim.commit()

    def release(self) -> None:
        """Release the claim of the current turn: the turn failed."""
        claim, self.current = self.current, None
        if claim is not None:
            self.is_unsettled = True
            claim.release()
            if self.with_tools is claim:
                self.with_tools = None

    async def settle(self) -> None:
        """Wait until what was committed and released is in a store that instances share."""
        self.is_unsettled = False
        if self.session is not None and not self.reminders.instance.is_alone:
            await self.reminders.settle(self._scope.owner, self.session)

    def release_all(self) -> None:
        """Release all claims that were not committed."""
        self.release()
        for claim in self.owed:
            self.is_unsettled = True
            claim.release()
        self.owed = []
