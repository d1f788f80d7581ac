"""Reservations of reminders in their document: who carries one, and who may end that."""

from __future__ import annotations

import msgspec

from gateway.reminders.model import (
    Reminder,
    ReminderList,
    Reservation,
    decode_reminders,
    deliver,
    encode_reminders,
    list_reserved,
    release,
    reserve,
)

MINE, THEIRS = Reservation("a", "mine"), Reservation("b", "theirs")
BOTH = ReminderList(
    tuple(Reminder(name, due_ms=5, created_ms=1, updated_ms=1, text=name) for name in ("x", "y"))
)


def names(reminders: tuple[Reminder, ...]) -> list[str]:
    return [one.id for one in reminders]


def test_a_reservation_is_of_one_token() -> None:
    held = reserve(BOTH, {"x"}, MINE)
    assert names(list_reserved(held, "mine")) == ["x"]
    assert names(list_reserved(held, "theirs")) == []
    assert names(list_reserved(held, "")) == ["y"]


def test_the_later_reservation_counts() -> None:
    taken = reserve(reserve(BOTH, {"x", "y"}, MINE), {"x"}, THEIRS)
    assert names(list_reserved(taken, "mine")) == ["y"]
    assert names(list_reserved(taken, "theirs")) == ["x"]


def test_only_its_token_releases_it() -> None:
    held = reserve(BOTH, {"x"}, MINE)
    assert release(held, {"theirs"}) is held
    assert release(held, {"mine"}) == BOTH


def test_only_its_token_delivers_it() -> None:
    held = reserve(BOTH, {"x"}, THEIRS)
    assert deliver(held, {"x"}, 9, "mine") is held
    delivered = deliver(held, {"x"}, 9, "theirs").items[0]
    assert (delivered.delivered_ms, delivered.deliveries, delivered.reserved) == (9, 1, None)


def test_it_is_in_the_document() -> None:
    held = reserve(BOTH, {"x"}, MINE)
    written = {"sessionId": "", **encode_reminders(held)}
    document = msgspec.json.decode(msgspec.json.encode(written))
    assert decode_reminders(document) == held
