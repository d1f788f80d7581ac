"""Reminders of a session: what is kept, when each is due, and the document."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.errors import InvalidInput
from gateway.reminders.model import (
    Reminder,
    ReminderList,
    ReminderOrigin,
    ReminderRequest,
    Rules,
    cancel,
    clear,
    decode_reminders,
    deliver,
    due,
    earliest_due,
    encode_reminders,
    expire,
    next_ready,
    schedule,
)

NOW = 1_770_067_358_229  # 2026-02-02T21:22:38.229Z
RULES = Rules()
TEA = ReminderRequest(NOW + 600_000, "drink tea")
HERE = ReminderOrigin("s", "chain-1")
NONE = ReminderList()


def numbered(start: int = 1) -> Callable[[], str]:
    numbers = count(start)
    return lambda: f"id-{next(numbers)}"


def added(
    *wanted: ReminderRequest, tasks: ReminderList = NONE, origin: ReminderOrigin = HERE
) -> ReminderList:
    new_id = numbered(len(tasks.items) + 1)
    return schedule(tasks, wanted, origin, NOW, RULES, new_id)[0]


def test_what_is_scheduled() -> None:
    soon = ReminderRequest(NOW + 60_000, "look", "eye", '{"at":"sky"}')
    tasks, scheduled = schedule(ReminderList(), (TEA, soon), HERE, NOW, RULES, numbered())
    assert tasks.items == scheduled
    assert scheduled == (
        Reminder("id-1", TEA.due_ms, NOW, NOW, "drink tea", session="s"),
        Reminder(
            "id-2",
            NOW + 60_000,
            NOW,
            NOW,
            "look",
            "eye",
            '{"at":"sky"}',
            not_before_exchange="chain-1",
            session="s",
        ),
    )


def test_an_equal_one_is_not_added_again() -> None:
    tasks = added(TEA)
    later, scheduled = schedule(tasks, (TEA, TEA), HERE, NOW + 5, RULES, numbered())
    assert later is tasks
    assert scheduled == (tasks.items[0], tasks.items[0])


@pytest.mark.parametrize(
    "other",
    [
        ReminderRequest(TEA.due_ms + 1, TEA.text),
        ReminderRequest(TEA.due_ms, "drink coffee"),
        ReminderRequest(TEA.due_ms, TEA.text, "kettle"),
        ReminderRequest(TEA.due_ms, TEA.text, "", '{"sugar":1}'),
    ],
)
def test_one_that_differs_is_added(other: ReminderRequest) -> None:
    assert [task.id for task in added(TEA, other).items] == ["id-1", "id-2"]


def test_one_equal_to_a_delivered_one_is_added() -> None:
    tasks = added(TEA, tasks=deliver(added(TEA), {"id-1"}, NOW))
    assert [task.delivered_ms for task in tasks.items] == [NOW, None]


def test_asked_for_again_by_another_exchange_it_keeps_out_of_that_one() -> None:
    soon = ReminderRequest(NOW + 1, "x")
    tasks = added(soon)
    by_hand, _ = schedule(tasks, (soon,), ReminderOrigin("s"), NOW + 2, RULES, numbered())
    assert by_hand is tasks
    again, scheduled = schedule(
        tasks, (soon,), ReminderOrigin("s", "chain-2"), NOW + 2, RULES, numbered()
    )
    assert again.items == scheduled
    assert scheduled == (
        replace(tasks.items[0], not_before_exchange="chain-2", updated_ms=NOW + 2),
    )


def test_too_many() -> None:
    full = added(*(replace(TEA, text=f"{n}") for n in range(99)))
    two = (replace(TEA, text="99"), replace(TEA, text="100"))
    with pytest.raises(
        InvalidInput, match=r"at most 100 reminders, and this would make 101; cancel some"
    ):
        schedule(full, two, HERE, NOW, RULES, iter("ab").__next__)
    assert len(added(two[0], tasks=full).items) == 100


def test_delivered_ones_give_way_the_oldest_first() -> None:
    few = Rules(most=3)
    tasks = added(*(ReminderRequest(TEA.due_ms - n, f"{n}") for n in range(3)))
    tasks = deliver(tasks, {"id-1", "id-2"}, NOW)
    new_id = iter("abc").__next__
    one_more, _ = schedule(tasks, (TEA,), HERE, NOW, few, new_id)
    assert [task.id for task in one_more.items] == ["id-1", "id-3", "a"]
    wanted = (TEA, replace(TEA, text="x"), replace(TEA, text="y"))
    with pytest.raises(InvalidInput, match=r"at most 3 reminders, and this would make 4"):
        schedule(tasks, wanted, HERE, NOW, few, iter("abc").__next__)


# What becomes of a task


def test_cancelling_and_clearing() -> None:
    tasks = added(TEA, replace(TEA, text="x"))
    assert cancel(tasks, "id-9") == (tasks, None)
    left, gone = cancel(tasks, "id-1")
    assert (left.items, gone) == (tasks.items[1:], tasks.items[0])
    assert cancel(left, "id-2")[0] == ReminderList()
    assert clear(tasks) == (ReminderList(), 2)
    assert clear(ReminderList()) == (ReminderList(), 0)


READY = TEA.due_ms - RULES.due_window_ms
LAST = TEA.due_ms + RULES.retention_ms


@pytest.mark.parametrize(
    "now, is_due, ready",
    [
        (READY - 1, False, READY),
        (READY, True, READY),
        (TEA.due_ms, True, READY),
        (LAST, True, READY),
        (LAST + 1, False, None),
    ],
)
def test_when_it_is_due(now: int, is_due: bool, ready: int | None) -> None:
    tasks = added(TEA)
    assert bool(due(tasks, "c", now, RULES, ())) is is_due
    assert next_ready(tasks, "c", now, RULES, ()) == ready


def test_when_it_is_not_due_though_it_is_time() -> None:
    soon = ReminderRequest(NOW, "x")
    tasks = added(soon)

    def seen(tasks: ReminderList, chain: str = "c", taken: frozenset[str] = frozenset()) -> object:
        ready = next_ready(tasks, chain, NOW, RULES, taken)
        return bool(due(tasks, chain, NOW, RULES, taken)), ready

    assert seen(tasks) == (True, NOW - RULES.due_window_ms)
    assert seen(tasks, "chain-1") == (False, None)
    assert seen(tasks, taken=frozenset({"id-1"})) == (False, None)
    assert seen(deliver(tasks, {"id-1"}, NOW)) == (False, None)
    assert seen(added(soon, origin=ReminderOrigin("s")), "") == (True, NOW - RULES.due_window_ms)


def test_due_ones_come_by_their_time() -> None:
    tasks = added(*(ReminderRequest(NOW - n % 3, f"{n}") for n in range(6)))
    found = due(tasks, "c", NOW, RULES, ())
    assert [task.text for task in found] == ["2", "5", "1", "4", "0", "3"]


def test_delivering() -> None:
    tasks = added(TEA, replace(TEA, text="x"))
    once = deliver(tasks, {"id-2", "id-9"}, NOW + 7)
    assert once.items[0] == tasks.items[0]
    assert once.items[1] == replace(
        tasks.items[1], delivered_ms=NOW + 7, deliveries=1, updated_ms=NOW + 7
    )
    assert deliver(once, {"id-2"}, NOW + 8) is once


def test_expiring() -> None:
    tasks = added(TEA, replace(TEA, text="x"), replace(TEA, due_ms=TEA.due_ms + 1))
    tasks = deliver(tasks, {"id-2"}, NOW)
    assert expire(tasks, LAST, RULES) == (tasks, ())
    left, lost = expire(tasks, LAST + 1, RULES)
    assert (left.items, lost) == (tasks.items[2:], tasks.items[:1])
    assert expire(tasks, LAST + 1, RULES, {"id-1"}) == (
        ReminderList((tasks.items[0], tasks.items[2])),
        (),
    )


def test_the_earliest_of_all() -> None:
    assert earliest_due(ReminderList()) is None
    tasks = added(TEA, ReminderRequest(NOW + 5, "x"))
    assert earliest_due(tasks) == NOW + 5
    assert earliest_due(deliver(tasks, {"id-2"}, NOW)) == NOW + 5


# The document


def written(tasks: ReminderList, session: str = "s") -> dict[str, Any]:
    document = {"version": 1, "sessionId": session, **encode_reminders(tasks), "updatedAtMs": NOW}
    return msgspec.json.decode(msgspec.json.encode(document), type=dict[str, Any])


def test_the_document_of_a_session() -> None:
    full = Reminder("u", 5, 1, 2, "tea", "kettle", '{"sugar":1}', 6, 1, "chain", "s")
    assert written(ReminderList((full,)))["tasks"] == [
        {
            "taskId": "u",
            "sessionId": "s",
            "dueAtMs": 5,
            "createdAtMs": 1,
            "updatedAtMs": 2,
            "task": "tea",
            "tool": "kettle",
            "arguments": {"sugar": 1},
            "deliveredAtMs": 6,
            "deliveryCount": 1,
            "notBeforeRequestId": "chain",
        }
    ]
    bare = Reminder("u", 5, 1, 2, "tea", session="s")
    assert written(ReminderList((bare,)))["tasks"] == [
        {
            "taskId": "u",
            "sessionId": "s",
            "dueAtMs": 5,
            "createdAtMs": 1,
            "updatedAtMs": 2,
            "task": "tea",
            "deliveryCount": 0,
        }
    ]


def test_a_document_by_hand() -> None:
    rows: list[dict[str, object]] = [
        {"taskId": "a", "dueAtMs": 5, "task": "tea", "sessionId": "another", "colour": "green"},
        {
            "taskId": "b",
            "dueAtMs": 5,
            "task": "",
            "tool": None,
            "arguments": {"b": 1, "a": {}},
            "deliveredAtMs": None,
            "notBeforeRequestId": None,
        },
    ]
    assert decode_reminders({"sessionId": "s", "tasks": rows}).items == (
        Reminder("a", 5, 0, 0, "tea", session="s"),
        Reminder("b", 5, 0, 0, "", arguments='{"a":{},"b":1}', session="s"),
    )


ROW: dict[str, object] = {"taskId": "u", "dueAtMs": 5, "task": "tea"}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"sessionId": "s"},
        {"tasks": []},
        {"sessionId": "s", "tasks": None},
        {"sessionId": "s", "tasks": {"u": ROW}},
        {"sessionId": "s", "tasks": [1]},
        *(
            {"sessionId": "s", "tasks": [{**ROW, name: wrong}]}
            for name, wrong in (
                ("taskId", 5),
                ("taskId", ""),
                ("dueAtMs", "5"),
                ("dueAtMs", True),
                ("dueAtMs", 10**16),
                ("task", None),
                ("arguments", 1),
                ("arguments", []),
                ("deliveryCount", -1),
                ("deliveredAtMs", "now"),
                ("notBeforeRequestId", 1),
            )
        ),
        *(
            {"sessionId": "s", "tasks": [{k: v for k, v in ROW.items() if k != name}]}
            for name in ROW
        ),
    ],
)
def test_what_is_no_document(document: dict[str, Any]) -> None:
    with pytest.raises((msgspec.ValidationError, LookupError)):
        decode_reminders(document)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


INSTANTS = st.integers(0, 2**47)
TASKS = st.builds(
    Reminder,
    id=st.text(min_size=1),
    due_ms=INSTANTS,
    created_ms=INSTANTS,
    updated_ms=INSTANTS,
    text=st.text(),
    tool=st.text(),
    arguments=(st.dictionaries(st.text(), JSON, max_size=3) | st.text()).map(
        lambda value: msgspec.json.encode(value, order="sorted").decode() if value else ""
    ),
    delivered_ms=st.none() | INSTANTS,
    deliveries=st.integers(0, 3),
    not_before_exchange=st.text(),
    session=st.just("s"),
)


@given(st.lists(TASKS, max_size=4).map(lambda items: ReminderList(tuple(items))))
def test_there_and_back(tasks: ReminderList) -> None:
    assert decode_reminders(written(tasks)) == tasks


def test_asked_for_again_by_another_kind_of_request_it_keeps_the_tools() -> None:
    """A title request may ask first, and the conversation for the same."""
    first, (tea,) = schedule(ReminderList(), (TEA,), ReminderOrigin("s"), NOW, RULES, lambda: "1")
    again, (same,) = schedule(
        first, (TEA,), ReminderOrigin("s", "", "digest"), NOW, RULES, lambda: "2"
    )
    assert (tea.setter, same.setter, same.id) == ("", "digest", "1")
    assert schedule(again, (TEA,), ReminderOrigin("s"), NOW, RULES, lambda: "3")[0] is again
