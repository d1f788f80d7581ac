"""What a sub-agent scheduled and nobody took: when it passes, and to whom."""

from __future__ import annotations

from msgspec.structs import replace

from gateway.reminders.handover_model import (
    GRACE_MS,
    drop_passed,
    inherit,
    mark_passed,
    next_handover,
)
from gateway.reminders.model import (
    Reminder,
    ReminderList,
    Rules,
    decode_reminders,
    encode_reminders,
)

NOW = 1_000_000_000
OWN = Reminder("own", NOW, 0, 0, "by hand", session="s/agent:a")
TEA = Reminder(
    "tea",
    NOW,
    0,
    0,
    "drink tea",
    not_before_exchange="c",
    session="s/agent:a",
    setter="d",
    main="s",
)
LATER = replace(TEA, id="later", due_ms=NOW + 1)
DONE = replace(TEA, id="done", delivered_ms=NOW)
ALL = ReminderList((OWN, TEA, LATER, DONE))
DUE = NOW + GRACE_MS


def test_the_first_that_was_delegated_and_is_left_passes_next() -> None:
    assert next_handover(ALL) == DUE
    assert next_handover(ReminderList((OWN, DONE))) is None


def test_it_is_marked_a_minute_after_it_was_due_unless_a_turn_carries_it() -> None:
    assert mark_passed(ALL, DUE - 1, ()) == (ALL, ())
    marked, passed = mark_passed(ALL, DUE, ())
    assert [task.id for task in passed] == ["tea"]
    assert [task.id for task in marked.items if task.is_pending] == ["own", "later"]
    assert mark_passed(ALL, DUE, {"tea"}) == (ALL, ())
    # What was marked before the process died is still on its way.
    assert mark_passed(marked, DUE, {"tea"})[1] == passed
    assert next_handover(marked) == DUE


def test_it_becomes_the_main_sessions_own_once() -> None:
    _, passed = mark_passed(ALL, DUE, ())
    tasks, there = inherit(ReminderList(), passed, "s", DUE, Rules())
    own = replace(TEA, session="s", main="", not_before_exchange="", updated_ms=DUE)
    assert (tasks.items, there) == ((own,), frozenset({"tea"}))
    delivered = ReminderList((replace(own, delivered_ms=DUE),))
    assert inherit(delivered, passed, "s", DUE, Rules()) == (delivered, frozenset({"tea"}))


def test_where_there_is_no_room_it_is_left() -> None:
    _, passed = mark_passed(ReminderList((TEA, LATER)), DUE + 1, ())
    tasks, there = inherit(ReminderList((DONE,)), passed, "s", DUE, Rules(most=1))
    assert ([task.id for task in tasks.items], there) == (["done", "tea"], frozenset({"tea"}))


def test_what_arrived_is_removed() -> None:
    marked, _ = mark_passed(ALL, DUE + 1, ())
    left = drop_passed(marked, {"tea", "own"})
    assert [task.id for task in left.items] == ["own", "later", "done"]


def test_it_is_written_and_read() -> None:
    marked, _ = mark_passed(ALL, DUE, ())
    document = {"sessionId": "s/agent:a", **encode_reminders(marked)}
    assert decode_reminders(document) == marked
