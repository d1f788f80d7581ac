"""Any course of events in a session's reminders, against records that do the same slowly."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.errors import InvalidInput
from gateway.reminders.model import (
    ReminderList,
    ReminderOrigin,
    ReminderRequest,
    Rules,
    cancel,
    clear,
    deliver,
    due,
    earliest_due,
    expire,
    next_ready,
    schedule,
)

FEW = Rules(due_window_ms=10, retention_ms=40, most=8)


class AgainstAModel(RuleBasedStateMachine):
    """Any course of events, against a dictionary of plain records that does the same slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks = ReminderList()
        self.now = 1_000
        self.numbers = count(1)
        self.model: dict[str, dict[str, Any]] = {}

    def new_id(self) -> str:
        return f"id-{next(self.numbers)}"

    def pick(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from([*self.model, "id-0"]))

    @rule(
        wishes=st.lists(st.tuples(st.integers(-40, 60), st.sampled_from("abc")), max_size=4),
        chain=st.sampled_from(["", "c1", "c2"]),
    )
    def schedule(self, wishes: list[tuple[int, str]], chain: str) -> None:
        wanted = tuple(ReminderRequest(self.now + ahead, text) for ahead, text in wishes)
        before = self.tasks
        try:
            self.tasks, scheduled = schedule(
                before, wanted, ReminderOrigin("s", chain), self.now, FEW, self.new_id
            )
        except InvalidInput:
            undelivered = {
                (r["due"], r["text"]) for r in self.model.values() if r["delivered"] is None
            }
            assert len(undelivered | {(w.due_ms, w.text) for w in wanted}) > FEW.most
            return
        for wish, task in zip(wanted, scheduled, strict=True):
            record = self.model.setdefault(
                task.id, {"due": wish.due_ms, "text": wish.text, "delivered": None, "guard": ""}
            )
            assert (record["due"], record["text"]) == (wish.due_ms, wish.text)
            assert record["delivered"] is None
            if chain and wish.due_ms <= self.now + FEW.due_window_ms:
                record["guard"] = chain
        self.make_room()

    def make_room(self) -> None:
        while len(self.model) > FEW.most:
            done = [id_ for id_, record in self.model.items() if record["delivered"] is not None]
            del self.model[min(done, key=lambda id_: self.model[id_]["due"])]

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        id_ = self.pick(data)
        self.tasks, gone = cancel(self.tasks, id_)
        assert (gone is not None) == (self.model.pop(id_, None) is not None)

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        ids = {self.pick(data), self.pick(data)}
        self.tasks = deliver(self.tasks, ids, self.now)
        for id_ in ids & set(self.model):
            if self.model[id_]["delivered"] is None:
                self.model[id_]["delivered"] = self.now

    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        taken = {self.pick(data)}
        self.tasks, lost = expire(self.tasks, self.now, FEW, taken)
        old = {id_ for id_, record in self.model.items() if self.now - record["due"] > 40} - taken
        assert {t.id for t in lost} == {i for i in old if self.model[i]["delivered"] is None}
        for id_ in old:
            del self.model[id_]

    @rule()
    def clear(self) -> None:
        self.tasks, removed = clear(self.tasks)
        assert removed == len(self.model)
        self.model.clear()

    @rule(ms=st.integers(-20, 50))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @invariant()
    def the_same_tasks(self) -> None:
        assert {
            t.id: {
                "due": t.due_ms,
                "text": t.text,
                "delivered": t.delivered_ms,
                "guard": t.not_before_exchange,
            }
            for t in self.tasks.items
        } == self.model
        assert all((t.deliveries == 1) == (t.delivered_ms is not None) for t in self.tasks.items)
        assert earliest_due(self.tasks) == min(
            (r["due"] for r in self.model.values()), default=None
        )

    @invariant()
    def the_same_are_due(self) -> None:
        for chain in ("", "c1"):
            waiting = [
                (record["due"], id_)
                for id_, record in self.model.items()
                if record["delivered"] is None
                and not (chain and record["guard"] == chain)
                and self.now - record["due"] <= 40
            ]
            found = due(self.tasks, chain, self.now, FEW, ())
            assert {t.id for t in found} == {i for at, i in waiting if at - 10 <= self.now}
            assert [t.due_ms for t in found] == sorted(t.due_ms for t in found)
            first = min((at - 10 for at, _ in waiting), default=None)
            assert next_ready(self.tasks, chain, self.now, FEW, ()) == first


TestAnyCourseOfEvents = AgainstAModel.TestCase
TestAnyCourseOfEvents.settings = settings(stateful_step_count=25)
