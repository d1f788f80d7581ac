"""When the directives of a message act, and when they have acted already."""

import pytest

from gateway.sessions.directives.memory import (
    MOST_REMEMBERED,
    MOST_SENT,
    REMEMBERED_MS,
    RETRY_MS,
    Attempt,
    ChosenDirectives,
    NewestMessage,
    choose_new,
)
from gateway.sessions.directives.model import Found, Target
from gateway.sessions.directives.reader import read
from gateway.sessions.directives.routing import Routing
from gateway.sessions.model import (
    DirectiveContext,
    SessionState,
    StopRules,
    apply_directives,
    end_message,
    is_sent,
)

NOW = 1_770_000_000_000
EMPTY = SessionState()
RULES = StopRules()


def found(text: str) -> tuple[Found, ...]:
    return read(text, ("a", "b")).directives


def news(
    items: tuple[Found, ...], ordinal: int, seen: dict[str, int], now: int
) -> ChosenDirectives:
    return choose_new(items, NewestMessage(ordinal, ("text",)), seen, (), now)


FOUND = found("<**#a**> <**@a**> <**#a**> <**b.m**> <**!zz**>")
LASTING, PASSING = FOUND[:3], FOUND[3:]


def test_a_directive_acts_once() -> None:
    first = news(FOUND, 1, {}, NOW)
    assert first.new == FOUND
    assert first.unchanged == ()
    assert len(first.remembered) == 2
    again = news(FOUND, 1, first.remembered, NOW + REMEMBERED_MS - 1)
    assert again.new == PASSING
    assert again.unchanged == LASTING


def test_seen_again_it_is_remembered_longer() -> None:
    remembered = news(LASTING, 1, {}, NOW).remembered
    remembered = news(LASTING, 1, remembered, NOW + REMEMBERED_MS - 1).remembered
    assert news(LASTING, 1, remembered, NOW + REMEMBERED_MS + 1).unchanged == LASTING


def test_after_half_an_hour_it_is_forgotten() -> None:
    remembered = news(LASTING, 1, {}, NOW).remembered
    later = news((), 2, remembered, NOW + REMEMBERED_MS)
    assert later.remembered == {}
    assert news(LASTING, 1, remembered, NOW + REMEMBERED_MS).new == LASTING


def test_in_another_message_it_is_another() -> None:
    remembered = news(LASTING, 1, {}, NOW).remembered
    second = news(LASTING, 2, remembered, NOW + 1)
    assert second.new == LASTING
    assert len(second.remembered) == 4


def test_in_a_message_with_another_text_it_is_another() -> None:
    remembered = news(LASTING, 1, {}, NOW).remembered
    changed = choose_new(LASTING, NewestMessage(1, ("text", "more")), remembered, (), NOW + 1)
    assert changed.new == LASTING


def test_the_memory_has_an_end() -> None:
    full = {f"{n:016x}": NOW + n for n in range(MOST_REMEMBERED)}
    remembered = news(LASTING[:1], 1, full, NOW + 1000).remembered
    assert len(remembered) == MOST_REMEMBERED
    assert f"{0:016x}" not in remembered
    assert NewestMessage(1, ("text",)).fingerprint_of(LASTING[0]) in remembered


def test_a_fingerprint_is_short_and_stays_the_same() -> None:
    assert NewestMessage(3, ("<**clear**>",)).fingerprint == "cd98ffb94bfce990"
    assert NewestMessage(3, ("\ud800",)).fingerprint != NewestMessage(3, ("\ud801",)).fingerprint
    assert NewestMessage(1, ("1 a",)).fingerprint != NewestMessage(11, (" a",)).fingerprint


def sent_alone(
    text: str,
    state: SessionState = EMPTY,
    now: int = NOW,
    attempt: Attempt | None = None,
    ended: bool = True,
) -> tuple[SessionState, str]:
    """Send a message without any history, and have it answered."""
    message = NewestMessage(1, (text,), alone=True, attempt=attempt or Attempt(f"id-{now}"))
    state, told = apply_directives(state, found(text), RULES, DirectiveContext(message, now))
    if ended:
        state = end_message(state, message)
    return state, told.header()


def test_alone_the_same_message_is_a_new_wish_once_the_first_has_ended() -> None:
    state, _ = sent_alone("<**#a**>")
    for wait, effect in ((RETRY_MS - 1, "unchanged"), (RETRY_MS, "set"), (-RETRY_MS, "set")):
        assert sent_alone("<**#a**>", state, NOW + wait)[1] == effect


def test_alone_it_is_a_retry_while_the_first_has_not_ended() -> None:
    state, _ = sent_alone("<**#a**>", ended=False)
    again, effect = sent_alone("<**#a**>", state, NOW + REMEMBERED_MS - 1)
    assert effect == "unchanged"
    assert [sent.ended for sent in again.sent] == [True]
    assert sent_alone("<**#a**>", state, NOW + REMEMBERED_MS)[1] == "set"


def test_alone_another_wish_in_between_makes_it_new() -> None:
    for ended in (True, False):
        state, _ = sent_alone("<**#a**>", ended=ended)
        state, _ = sent_alone("<**#b**>", state, NOW + 1)
        state, effect = sent_alone("<**#a**>", state, NOW + 2)
        assert effect == "set"
        assert state.routing == Routing(exclude=(Target("a"),))


@pytest.mark.parametrize(
    "first, second, effect",
    [
        (Attempt("1"), Attempt("1"), "unchanged"),
        (Attempt("1"), Attempt("2"), "set"),
        (Attempt(), Attempt(), "set"),
        (Attempt("1", "k"), Attempt("2", "k"), "unchanged"),
        (Attempt("1", "k"), Attempt("2", "l"), "set"),
        (Attempt("1"), Attempt("2", "k"), "set"),
        (Attempt("1"), Attempt("2", retries=1), "unchanged"),
    ],
)
def test_alone_the_client_may_say_that_it_is_a_retry(
    first: Attempt, second: Attempt, effect: str
) -> None:
    state, _ = sent_alone("<**#a**>", attempt=first)
    assert sent_alone("<**#a**>", state, NOW + RETRY_MS, second)[1] == effect


def test_alone_a_retry_of_what_was_never_sent_acts() -> None:
    assert sent_alone("<**#a**>", attempt=Attempt("1", retries=2))[1] == "set"


def test_alone_what_failed_acts_with_the_retry() -> None:
    long = f'<**#a**><**stopMessage:"{"x" * 5000}"**>'
    state, effect = sent_alone(long, ended=False)
    assert effect.startswith("set, ignored")
    message = NewestMessage(1, (long,), alone=True)
    rules = StopRules(longest_bytes=8000)
    state, told = apply_directives(state, found(long), rules, DirectiveContext(message, NOW + 1))
    assert told.effects == ("set", "unchanged")
    assert state.stop is not None


def test_alone_what_leaves_nothing_is_not_remembered() -> None:
    for text in ("<**a.m**>", "<**!nobody**>", "hi"):
        assert sent_alone(text)[0] == EMPTY


def test_only_the_newest_messages_are_remembered() -> None:
    state = EMPTY
    for number in range(MOST_SENT + 2):
        state, _ = sent_alone(f"<**#a**>{number}", state, NOW + number)
    assert [sent.sent_at_ms for sent in state.sent] == [NOW + 2 + n for n in range(MOST_SENT)]
    state, _ = sent_alone("<**#a**>", state, NOW + REMEMBERED_MS + MOST_SENT)
    assert len(state.sent) == 2


def test_an_end_that_comes_late_ends_nothing_that_was_sent_again() -> None:
    state, _ = sent_alone("<**#a**>", ended=False)
    state, _ = sent_alone("<**#a**>", state, NOW + 1, ended=False)
    late = NewestMessage(1, ("<**#a**>",), alone=True, attempt=Attempt(f"id-{NOW}"))
    assert is_sent(state, late)
    assert end_message(state, late) == state
    assert not is_sent(state, NewestMessage(1, ("<**#a**>",)))


def test_the_parts_of_a_message_are_told_apart() -> None:
    texts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", "")]
    assert len({NewestMessage(1, parts).fingerprint for parts in texts}) == len(texts)
    assert NewestMessage(2, ("abc",)).fingerprint != NewestMessage(1, ("abc",)).fingerprint


def test_a_message_has_the_same_name_without_its_texts() -> None:
    message = NewestMessage(3, ("a long text",), True, Attempt("id"))
    named = message.without_texts()
    assert named.texts == ()
    assert (named.ordinal, named.alone, named.attempt) == (3, True, Attempt("id"))
    assert named.fingerprint == message.fingerprint
