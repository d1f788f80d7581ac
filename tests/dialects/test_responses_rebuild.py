"""Turns put together again: our calls and results go back among the client's, and nothing else."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.openai_responses import DIALECT
from gateway.dialects.openai_responses.items import AnsweredItems
from gateway.exchange.additions import ToolResult
from gateway.sessions.model import KeptTurn
from tests.dialects.responses_wire import CLOCK, Json, message, reasoning, run, search, splice, turn

NAME = DIALECT.name


def call(ident: Any, **more: Any) -> Json:
    item = {"type": "function_call", "id": f"fc_{ident}", "call_id": ident}
    return {**item, "name": "f", "arguments": "{}", **more}


def told(ident: Any, text: str = "client") -> Json:
    return {"type": "function_call_output", "call_id": ident, "output": text}


def record(items: list[Json], dialect: str = NAME, text: str = "ours") -> KeptTurn:
    """Keep a turn with these items; calls in capital letters are ours."""
    ids = [str(item["call_id"]) for item in items if "call_id" in item]
    theirs = tuple(ident for ident in ids if not ident.isupper())
    results = tuple(ToolResult(ident, text) for ident in ids if ident.isupper())
    return KeptTurn(msgspec.json.encode(AnsweredItems(items)), dialect, theirs, results, 0)


def kept(*ids: str, **more: Any) -> KeptTurn:
    return record([call(ident) for ident in ids], **more)


def body(*items: Json, **more: Any) -> bytes:
    return json.dumps({"model": "m", "input": list(items), **more}).encode()


def rebuilt(data: bytes, *records: KeptTurn) -> list[Json]:
    after = DIALECT.restore_turns(data, records)
    assert DIALECT.restore_turns(after, records) is after
    items = json.loads(after)["input"]
    assert isinstance(items, list)
    return items


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
        (("A", "w", "B"), ["w", "B"], ["A", "w", "B"]),
    ],
)
def test_our_calls_and_results_stand_where_they_stood(
    turn: tuple[str, ...], sent: list[str], after: list[str]
) -> None:
    shown = [call(ident) for ident in turn if not ident.isupper()]
    data = body(USER, *shown, *map(told, sent), LAST)
    items = rebuilt(data, kept(*turn))
    assert items[0] == USER
    assert items[-1] == LAST
    assert items[1 : len(turn) + 1] == [call(ident) for ident in turn]
    assert items[len(turn) + 1 : -1] == [
        told(i, "ours" if i.isupper() and i not in sent else "client") for i in after
    ]


def test_where_results_follow_their_calls_one_by_one() -> None:
    data = body(call("w"), told("w"), call("n"), told("n"))
    assert rebuilt(data, kept("w", "A", "n")) == [
        call("w"),
        call("A"),
        told("w"),
        call("n"),
        told("A", "ours"),
        told("n"),
    ]


@pytest.mark.parametrize("ids", [True, False])
def test_each_call_stays_with_the_thought_before_it(ids: bool) -> None:
    """An upstream refuses reasoning without what followed it."""
    items = [
        reasoning("rs_1", encrypted_content="one"),
        call("A"),
        reasoning("rs_2", encrypted_content="two"),
        call("w"),
        search("ws"),
        call("B"),
    ]
    shown = [item for item in items if not item.get("call_id", "").isupper()]
    if not ids:
        shown = [{k: v for k, v in item.items() if k != "id"} for item in shown]
    after = rebuilt(body(USER, *shown, told("w"), store=ids), record(items))
    kinds = [
        item.get("call_id") or item.get("encrypted_content") or item["type"] for item in after[1:7]
    ]
    assert kinds == ["one", "A", "two", "w", "web_search_call", "B"][: 6 if ids else 4] + (
        [] if ids else ["B", "web_search_call"]
    )
    assert all(("id" in item) is ids for item in after if item.get("type") == "function_call")


def test_where_the_upstream_remembers_the_turn_only_our_results_are_missing() -> None:
    for chained in ({"previous_response_id": "resp_1"}, {"conversation": "conv_1"}):
        data = body(told("w"), told("n"), LAST, **chained)
        assert rebuilt(data, kept("A", "w", "B", "n", "C")) == [
            told("A", "ours"),
            told("w"),
            told("B", "ours"),
            told("n"),
            told("C", "ours"),
            LAST,
        ]


def test_nothing_else_changes_by_a_byte() -> None:
    odd = b'{"role" : "user", "content":"\\u00e9 1e400", "n": 1.000000000000000000001}'
    mine, answer = json.dumps(call("w")).encode(), json.dumps(told("w")).encode()
    parts = (odd, mine, answer, odd)
    data = b'{"x": 12345678901234567890123, "input": [%b, %b, %b, %b]}' % parts
    after = DIALECT.restore_turns(data, (kept("A", "w"),))
    assert after.count(odd) == 2
    assert mine in after
    assert answer in after
    assert b"12345678901234567890123" in after


@pytest.mark.parametrize(
    "data, records",
    [
        (body(USER, call("w"), told("w")), ()),
        (body(USER, call("x"), told("x")), (kept("A", "w"),)),
        (body(USER, {**LAST, "content": "w"}), (kept("A", "w"),)),
        (json.dumps({"model": "m", "input": "w"}).encode(), (kept("A", "w"),)),
        (body(call("w"), told("w")), (kept("A", "w", "n"),)),
        (body(told("w")), (kept("A", "w", "n"),)),
        (body(call("w"), told("w"), told("n")), (kept("A", "w", "n"),)),
        (body(call("w"), told("w")), (kept("A", "w", dialect="openai-chat"),)),
        (body(call("w"), told("w")), (kept("A"),)),
        (body(call("w"), told("w")), (kept("w"),)),
        (body(call("w"), told("w")), (KeptTurn(b"?", NAME, ("w",), (ToolResult("A", ""),), 0),)),
        (body(call("w"), told("w")), (KeptTurn(b"{}", NAME, ("w",), (ToolResult("A", ""),), 0),)),
        (body(call("w")), (KeptTurn(b'{"items":[]}', NAME, ("w",), (ToolResult("A", ""),), 0),)),
        (b'{"w":1}', (kept("A", "w"),)),
    ],
)
def test_a_body_without_such_a_turn_is_the_same_object(
    data: bytes, records: tuple[KeptTurn, ...]
) -> None:
    assert DIALECT.restore_turns(data, records) is data


def test_several_turns_each_get_their_own() -> None:
    first, second = kept("A", "w", text="one"), kept("n", "B", text="two")
    data = body(USER, call("w"), told("w"), LAST, call("n"), told("n"), LAST)
    assert rebuilt(data, first, second) == [
        USER,
        call("A"),
        call("w"),
        told("A", "one"),
        told("w"),
        LAST,
        call("n"),
        call("B"),
        told("n"),
        told("B", "two"),
        LAST,
    ]


def test_where_ids_come_again_the_newest_turn_has_the_newest_record() -> None:
    """Some upstreams count their calls from nought in every turn."""
    first, second = kept("A", "call_0", text="one"), kept("A", "call_0", text="two")
    data = body(call("call_0"), told("call_0"), call("call_0"), told("call_0"))
    after = rebuilt(data, first, second)
    results = [i["output"] for i in after if i["type"].endswith("_output") and i["call_id"] == "A"]
    assert results == ["one", "two"]
    (only,) = [i for i in rebuilt(data, second) if i == told("A", "two")]
    assert only


@pytest.mark.parametrize("ident", ["é", 'a"b', "a/b", "7"])
def test_ids_that_are_written_in_other_ways(ident: str) -> None:
    data = json.dumps({"input": [call(ident), told(ident)]}).replace("/", "\\/").encode()
    assert rebuilt(data, kept("A", ident))[0] == call("A")


def test_ids_that_are_no_text() -> None:
    assert rebuilt(body(call(7), told(7)), kept("7", "A"))[1:] == [
        call("A"),
        told(7),
        told("A", "ours"),
    ]


@pytest.mark.parametrize(
    "items, expected",
    [
        ([USER], ()),
        ([USER, call("a"), call("b"), told("a"), told("b"), LAST, call("c")], ("a", "c")),
        ([call("a"), told("a"), call("b"), told("b")], ("a", "b")),
        ([reasoning("rs"), {**call("a"), "type": "custom_tool_call"}], ("a",)),
        ([told("a"), told("b"), call("c"), told("c")], ("a", "b", "c")),
        ([call(7), told(7), call(None), "call", {"type": 7, "call_id": "x"}], ("7",)),
    ],
)
def test_the_first_call_of_each_turn(items: list[Any], expected: tuple[str, ...]) -> None:
    assert DIALECT.find_call_ids(body(*items)) == expected


CALLS = st.lists(st.booleans(), min_size=1, max_size=6).filter(lambda ours: not all(ours))


@given(CALLS, st.integers(0, 2), st.booleans(), st.randoms(use_true_random=False))
def test_whatever_was_called_the_turn_is_whole_again(
    ours: list[bool], others: int, chained: bool, luck: Any
) -> None:
    ids = [f"S{at}" if mine else f"c{at}" for at, mine in enumerate(ours)]
    shown = [ident for ident in ids if ident.startswith("c")]
    results = luck.sample(shown, len(shown))
    before = [USER, call("x"), told("x")] * others
    sent = [] if chained else [call(ident) for ident in shown]
    after = rebuilt(body(*before, *sent, *map(told, results), *before), kept(*ids))
    assert after[: len(before)] == before == after[len(after) - len(before) :]
    found = after[len(before) : len(after) - len(before)]
    calls = [item for item in found if item["type"] == "function_call"]
    assert calls == ([] if chained else [call(ident) for ident in ids])
    told_ids = [item["call_id"] for item in found if item["type"] != "function_call"]
    assert sorted(told_ids) == sorted(ids)
    assert [ident for ident in told_ids if ident in shown] == results
    if results == shown:
        assert told_ids == ids


@pytest.mark.parametrize("store", [True, False])
def test_from_the_answer_to_the_next_request(store: bool) -> None:
    """What a tap tells of a mixed turn is what puts it together again."""
    items = [reasoning("rs"), message("m", "Let me see.")]
    items += [call(f"id{at}", name=name) for at, name in enumerate(["weather", "clock", "news"])]
    answer = splice(CLOCK)
    _, tap = run(answer, turn(*items))
    results = tuple(ToolResult(c.id, "noon") for c in tap.end().server_calls)
    message_ = msgspec.json.encode(tap.rebuild_turn().message)
    record_ = KeptTurn(message_, NAME, tap.client_call_ids(), results, 0)
    shown = json.loads(answer.tail(neutral_finish=False).partition(b"data: ")[2])["response"][
        "output"
    ]
    data = body(USER, *shown, *(told(i["call_id"]) for i in shown if "call_id" in i), store=store)
    after = rebuilt(data, record_)
    assert [i.get("call_id") for i in after[3:6]] == ["id0", "id1", "id2"]
    assert [i["output"] for i in after[6:]] == ["client", "noon", "client"]
    assert after[1:3] == items[:2]
