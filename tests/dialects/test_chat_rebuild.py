"""Turns put together again: our calls and results go back among the client's, and nothing else."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import DIALECTS
from gateway.exchange.additions import ToolResult
from gateway.exchange.model import ModelRequest
from gateway.sessions.model import KeptTurn

CHAT = DIALECTS["openai-chat"]
Json = dict[str, Any]


def call(ident: Any, name: str = "f", arguments: str = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": ident, "type": "function", "function": function}


def said(*ids: Any, **more: Any) -> Json:
    return {"role": "assistant", "content": None, **more, "tool_calls": [call(i) for i in ids]}


def told(ident: Any, text: str = "client") -> Json:
    return {"role": "tool", "tool_call_id": ident, "content": text}


def kept(*ids: str, dialect: str = "openai-chat", text: str = "ours") -> KeptTurn:
    """Keep a turn with these calls; those in capital letters are ours."""
    theirs = tuple(ident for ident in ids if not ident.isupper())
    results = tuple(ToolResult(ident, text) for ident in ids if ident.isupper())
    return KeptTurn(msgspec.json.encode(said(*ids)), dialect, theirs, results, 0)


def body(*messages: Json, **more: Any) -> bytes:
    return json.dumps({"model": "m", "messages": list(messages), **more}).encode()


def rebuilt(data: bytes, *records: KeptTurn) -> list[Json]:
    after = CHAT.restore_turns(data, records)
    assert CHAT.restore_turns(after, records) is after
    messages = json.loads(after)["messages"]
    assert isinstance(messages, list)
    return messages


USER = {"role": "user", "content": "Weather and time?"}
LAST = {"role": "user", "content": "Thanks."}


@pytest.mark.parametrize(
    "turn, sent, after",
    [
        (("A", "w"), ["w"], ["A", "w"]),
        (("w", "A"), ["w"], ["w", "A"]),
        (("w", "A", "n"), ["w", "n"], ["w", "A", "n"]),
        (("A", "w", "B", "n", "C"), ["w", "n"], ["A", "w", "B", "n", "C"]),
        (("A", "w", "B", "n", "C"), ["n", "w"], ["A", "B", "n", "w", "C"]),
        (("w", "A"), [], ["A"]),
        (("w", "A"), ["w", "other"], ["w", "other", "A"]),
        (("A", "w"), ["other", "w"], ["other", "A", "w"]),
        (("A", "w", "B"), ["w", "B"], ["A", "w", "B"]),
    ],
)
def test_our_results_stand_where_our_calls_stood(
    turn: tuple[str, ...], sent: list[str], after: list[str]
) -> None:
    shown = [ident for ident in turn if not ident.isupper()]
    data = body(USER, said(*shown), *map(told, sent), LAST)
    messages = rebuilt(data, kept(*turn))
    assert messages[0] == USER
    assert messages[-1] == LAST
    assert messages[1] == said(*turn)
    assert messages[2:-1] == [
        told(i, "ours" if i.isupper() and i not in sent else "client") for i in after
    ]


def test_the_clients_own_words_stay_as_it_sends_them() -> None:
    mine = {
        "role": "assistant",
        "content": "I see.",
        "name": "x",
        "tool_calls": [call("w", "f", "{ }")],
    }
    messages = rebuilt(body(USER, mine, told("w")), kept("A", "w"))
    assert messages[1] == {**mine, "tool_calls": [call("A"), call("w", "f", "{ }")]}


def test_what_the_client_added_comes_last() -> None:
    shown = said("x", "w")
    shown["tool_calls"] += ["odd", {"function": None}]
    messages = rebuilt(body(shown, told("w")), kept("w", "A"))
    assert messages[0]["tool_calls"] == [call("w"), call("A"), call("x"), "odd", {"function": None}]


def test_nothing_else_changes_by_a_byte() -> None:
    odd = b'{"role" : "user", "content":"\\u00e9 1e400", "n": 1.000000000000000000001}'
    mine, answer = json.dumps(said("w")).encode(), json.dumps(told("w")).encode()
    data = b'{"x": 12345678901234567890123, "messages": [%b, %b, %b, %b]}' % (
        odd,
        mine,
        answer,
        odd,
    )
    after = CHAT.restore_turns(data, (kept("A", "w"),))
    assert after.count(odd) == 2
    assert answer in after
    assert b"12345678901234567890123" in after


@pytest.mark.parametrize(
    "data, records",
    [
        (body(USER, said("w"), told("w")), ()),
        (body(USER, said("x"), told("x")), (kept("A", "w"),)),
        (body(USER, {**LAST, "content": "w"}), (kept("A", "w"),)),
        (body({**said("w"), "role": "user"}), (kept("A", "w"),)),
        (body({"role": "assistant", "content": "w"}), (kept("A", "w"),)),
        (body({"role": "assistant", "tool_calls": "w"}), (kept("A", "w"),)),
        (body(said("w"), told("w")), (kept("A", "w", "n"),)),
        (body(said("w"), told("w")), (kept("A", "w", dialect="openai-responses"),)),
        (body(said("w"), told("w")), (kept("A"),)),
        (body(said("w"), told("w")), (kept("w"),)),
        (
            body(said("w"), told("w")),
            (KeptTurn(b"?", CHAT.name, ("w",), (ToolResult("A", ""),), 0),),
        ),
        (
            body(said("w"), told("w")),
            (KeptTurn(b"{}", CHAT.name, ("w",), (ToolResult("A", ""),), 0),),
        ),
        (b'{"w":1}', (kept("A", "w"),)),
    ],
)
def test_a_body_without_such_a_turn_is_the_same_object(
    data: bytes, records: tuple[KeptTurn, ...]
) -> None:
    assert CHAT.restore_turns(data, records) is data


def test_several_turns_each_get_their_own() -> None:
    first, second = kept("A", "w", text="one"), kept("n", "B", text="two")
    data = body(USER, said("w"), told("w"), LAST, said("n"), told("n"), LAST)
    assert rebuilt(data, first, second) == [
        USER,
        said("A", "w"),
        told("A", "one"),
        told("w"),
        LAST,
        said("n", "B"),
        told("n"),
        told("B", "two"),
        LAST,
    ]


def test_where_ids_come_again_the_newest_turn_has_the_newest_record() -> None:
    """Some upstreams count their calls from nought in every turn."""
    first, second = kept("A", "call_0", text="one"), kept("A", "call_0", text="two")
    data = body(said("call_0"), told("call_0"), said("call_0"), told("call_0"))
    after = rebuilt(data, first, second)
    assert [message["content"] for message in after if message.get("tool_call_id") == "A"] == [
        "one",
        "two",
    ]
    (only,) = [m for m in rebuilt(data, second) if m.get("tool_call_id") == "A"]
    assert only["content"] == "two"


@pytest.mark.parametrize(
    "kept_arguments, sent",
    [
        ('{"a":[1,"é"],"b":2}', '{"b": 2.0, "a": [1, "\\u00e9"]}'),
        ("{}", ""),
        ("{", "{"),
        ("[" * 10_000, "[" * 10_000),
    ],
)
def test_arguments_may_be_written_in_another_way(kept_arguments: str, sent: str) -> None:
    turn = {**said(), "tool_calls": [call("A"), call("w", "f", kept_arguments)]}
    record = KeptTurn(msgspec.json.encode(turn), CHAT.name, ("w",), (ToolResult("A", "ours"),), 0)
    mine = {**said(), "tool_calls": [call("w", "f", sent)]}
    assert rebuilt(body(mine, told("w")), record)[1:] == [told("A", "ours"), told("w")]


@pytest.mark.parametrize(
    "other", [call("w", "g"), call("w", "f", '{"a":1}'), call("w", "f", "{"), {"id": "w"}]
)
def test_a_call_that_asks_for_something_else_is_another_one(other: Json) -> None:
    """Some upstreams count from nought in every turn, some in every conversation."""
    elsewhere = body(USER, {**said(), "tool_calls": [other]}, told("w"))
    assert CHAT.restore_turns(elsewhere, (kept("A", "w"),)) is elsewhere
    later = body(said("w"), told("w"), {**said(), "tool_calls": [other]}, told("w"))
    first, ours, *rest = rebuilt(later, kept("A", "w"))
    assert (first, ours) == (said("A", "w"), told("A", "ours"))
    assert rest == json.loads(later)["messages"][1:]


@pytest.mark.parametrize("ident", ["é", 'a"b', "a/b", "7"])
def test_ids_that_are_written_in_other_ways(ident: str) -> None:
    data = json.dumps({"messages": [said(ident), told(ident)]}).replace("/", "\\/").encode()
    assert rebuilt(data, kept("A", ident))[:2] == [said("A", ident), told("A", "ours")]


def test_ids_that_are_no_text() -> None:
    assert rebuilt(body(said(7), told(7)), kept("7", "A"))[1:] == [told(7), told("A", "ours")]


CALLS = st.lists(st.booleans(), min_size=1, max_size=6).filter(lambda ours: not all(ours))


@given(CALLS, st.integers(0, 3), st.randoms(use_true_random=False))
def test_whatever_was_called_the_turn_is_whole_again(
    ours: list[bool], others: int, luck: Any
) -> None:
    ids = [f"S{at}" if mine else f"c{at}" for at, mine in enumerate(ours)]
    shown = [ident for ident in ids if ident.startswith("c")]
    results = luck.sample(shown, len(shown))
    before = [USER, said("x"), told("x")] * others
    after = rebuilt(body(*before, said(*shown), *map(told, results), *before), kept(*ids))
    assert after[: len(before)] == before == after[len(after) - len(before) :]
    turn = after[len(before) : len(after) - len(before)]
    assert turn[0] == said(*ids)
    told_ids = [message["tool_call_id"] for message in turn[1:]]
    assert sorted(told_ids) == sorted(ids)
    assert [ident for ident in told_ids if ident in shown] == results
    if results == shown:
        assert told_ids == ids


@pytest.mark.parametrize("with_ids", [True, False])
def test_from_the_answer_to_the_next_request(with_ids: bool) -> None:
    """What a tap tells of a mixed turn is what puts it together again."""
    names = ["weather", "clock", "news"]
    calls = [call(f"id{at}", name) for at, name in enumerate(names)]
    if not with_ids:
        calls = [{"type": "function", "function": c["function"]} for c in calls]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    answer = CHAT.splice(ModelRequest(model="m", body=b"{}"), frozenset({"clock"}), 10_000)
    tap = answer.tap()
    tap.feed(json.dumps({"choices": [choice]}).encode())
    tap.close()
    answer.take(tap)
    results = tuple(ToolResult(c.id, "noon") for c in tap.end().server_calls)
    record = KeptTurn(
        msgspec.json.encode(tap.rebuild_turn().message),
        CHAT.name,
        tap.client_call_ids(),
        results,
        0,
    )
    shown = json.loads(answer.tail(neutral_finish=False))["choices"][0]["message"]
    assert [c["function"]["name"] for c in shown["tool_calls"]] == ["weather", "news"]
    data = body(USER, shown, *(told(c["id"]) for c in shown["tool_calls"]))
    after = rebuilt(data, record)
    assert after[1] == tap.rebuild_turn().message
    assert [m["tool_call_id"] for m in after[2:]] == [c["id"] for c in after[1]["tool_calls"]]
    assert [m["content"] for m in after[2:]] == ["client", "noon", "client"]
