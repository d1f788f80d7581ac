"""Turns put together again: our calls and results go back among the client's, and nothing else."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.anthropic_messages import DIALECT
from gateway.exchange.additions import ToolResult
from gateway.exchange.model import ModelRequest
from gateway.sessions.model import KeptTurn

Json = dict[str, Any]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def thought(words: str) -> Json:
    return {"type": "thinking", "thinking": words, "signature": f"sig-{words}"}


def call(ident: Any) -> Json:
    return {"type": "tool_use", "id": ident, "name": "f", "input": {}}


def block(name: Any) -> Any:
    """Make a block: `t…` is a text, `h…` a thought, all else a call."""
    if not isinstance(name, str):
        return name if isinstance(name, dict) else call(name)
    return text(name) if name[0] == "t" else thought(name) if name[0] == "h" else call(name)


def said(*names: Any, **more: Any) -> Json:
    return {"role": "assistant", "content": [block(name) for name in names], **more}


def result(ident: Any, words: str = "client") -> Json:
    return {"type": "tool_result", "tool_use_id": ident, "content": words}


def told(*idents: Any, after: tuple[Json, ...] = ()) -> Json:
    mine = [result(i, "ours" if isinstance(i, str) and i.isupper() else "client") for i in idents]
    return {"role": "user", "content": [*mine, *after]}


def kept(*names: str, dialect: str = DIALECT.name, words: str = "ours") -> KeptTurn:
    """Keep a turn of these blocks; calls in capital letters are ours."""
    theirs = tuple(name for name in names if name[0] not in "th" and not name.isupper())
    results = tuple(ToolResult(name, words) for name in names if name.isupper())
    return KeptTurn(msgspec.json.encode(said(*names)), dialect, theirs, results, 0)


def body(*messages: Any, **more: Any) -> bytes:
    return json.dumps({"model": "m", "messages": list(messages), **more}).encode()


def rebuilt(data: bytes, *records: KeptTurn) -> list[Json]:
    after = DIALECT.restore_turns(data, records)
    assert DIALECT.restore_turns(after, records) is after
    messages = json.loads(after)["messages"]
    assert isinstance(messages, list)
    return messages


USER: Json = {"role": "user", "content": "Weather and time?"}
LAST: Json = {"role": "user", "content": "Thanks."}


@pytest.mark.parametrize(
    "turn, sent, after",
    [
        ("A w", "w", "A w"),
        ("w A", "w", "w A"),
        ("w A n", "w n", "w A n"),
        ("A w B n C", "w n", "A w B n C"),
        ("A w B n C", "n w", "A B n w C"),
        ("w A", "", "A"),
        ("w A", "w other", "w other A"),
        ("A w", "other w", "other A w"),
        ("A w B", "w B", "A w B"),
        ("h1 t1 A t2 w", "w", "A w"),
        ("h1 A h2 w t1 B t2", "w", "A w B"),
    ],
)
def test_ours_stand_where_they_stood(turn: str, sent: str, after: str) -> None:
    names = turn.split()
    shown = [name for name in names if not name.isupper()]
    data = body(USER, said(*shown), told(*sent.split(), after=(text("so"),)), LAST)
    assert rebuilt(data, kept(*names)) == [
        USER,
        said(*names),
        told(*after.split(), after=(text("so"),)),
        LAST,
    ]


def test_what_the_client_changed_stays_changed() -> None:
    """Where a block is not known any more, ours stand before the next one that is."""
    marked = {**call("w"), "cache_control": {"type": "ephemeral"}}
    mine = said(
        {**text("other")}, {"type": "thinking", "thinking": None}, 7, marked, "t9", name="x"
    )
    mine["content"][2] = "odd"
    after = rebuilt(body(mine, told("w")), kept("h1", "t1", "A", "t2", "w", "B"))
    content = mine["content"]
    assert after[0] == {**mine, "content": [*content[:3], call("A"), marked, text("t9"), call("B")]}
    assert after[1] == told("A", "w", "B")


def test_a_client_that_does_not_answer_its_calls() -> None:
    plain = {"role": "user", "content": "never mind"}
    ours = {"role": "user", "content": [result("A", "ours")]}
    record = kept("w", "A")
    assert rebuilt(body(said("w"), plain), record) == [
        said("w", "A"),
        {"role": "user", "content": [result("A", "ours"), text("never mind")]},
    ]
    assert rebuilt(body(said("w")), record) == [said("w", "A"), ours]
    odd: Json = {"role": "user", "content": 7}
    assert rebuilt(body(said("w"), odd), record) == [said("w", "A"), ours, odd]
    assert rebuilt(body(said("w"), said("t1")), record) == [said("w", "A"), said("t1"), ours]


def test_nothing_else_changes_by_a_byte() -> None:
    odd = b'{"role" : "user", "content":"\\u00e9 1e400", "n": 1.000000000000000000001}'
    mine, answer = json.dumps(said("t1", "w")).encode(), json.dumps(result("w")).encode()
    data = (
        b'{"x": 12345678901234567890123, "messages": [%b, %b, {"role":"user","content":[%b]}, %b]}'
    )
    after = DIALECT.restore_turns(data % (odd, mine, answer, odd), (kept("t1", "A", "w"),))
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
        (body({"role": "assistant", "content": [text("w")]}), (kept("A", "w"),)),
        (body(said("w"), told("w")), (kept("A", "w", "n"),)),
        (body(said("w"), told("w")), (kept("A", "w", dialect="openai-chat"),)),
        (body(said("w"), told("w")), (kept("A"),)),
        (body(said("w"), told("w")), (kept("w"),)),
        (body(said("w"), told("w")), (KeptTurn(b"?", DIALECT.name, ("w",), (ToolResult("A", ""),), 0),)),
        (body(said("w"), told("w")), (KeptTurn(b"{}", DIALECT.name, ("w",), (ToolResult("A", ""),), 0),)),
        (b'{"w":1}', (kept("A", "w"),)),
        (body(said({**call("w"), "input": {"x": 1}}), told("w")), (kept("A", "w"),)),
        (body(said({**call("w"), "name": "g"}), told("w")), (kept("A", "w"),)),
    ],
)  # fmt: skip
def test_a_body_without_such_a_turn_is_the_same_object(
    data: bytes, records: tuple[KeptTurn, ...]
) -> None:
    assert DIALECT.restore_turns(data, records) is data


def test_several_turns_each_get_their_own() -> None:
    first, second = kept("A", "w", words="one"), kept("n", "B", words="two")
    data = body(USER, said("w"), told("w"), said("n"), told("n"), LAST)
    after = rebuilt(data, first, second)
    assert after[1:5:2] == [said("A", "w"), said("n", "B")]
    assert [r["content"] for message in after[2:5:2] for r in message["content"]] == [
        "one",
        "client",
        "client",
        "two",
    ]


def test_messages_of_the_assistant_in_a_row_are_one_turn() -> None:
    data = body(said("w"), said("n"), told("w", "n"))
    after = rebuilt(data, kept("A", "w"), kept("n", "B"))
    assert after == [said("A", "w"), said("n", "B"), told("A", "w", "n", "B")]


def test_where_ids_come_again_the_newest_turn_has_the_newest_record() -> None:
    first, second = kept("A", "call_0", words="one"), kept("A", "call_0", words="two")
    data = body(said("call_0"), told("call_0"), said("call_0"), told("call_0"))
    assert [m["content"][0]["content"] for m in rebuilt(data, first, second)[1::2]] == [
        "one",
        "two",
    ]
    assert [m["content"][0]["content"] for m in rebuilt(data, second)[1::2]] == ["client", "two"]


@pytest.mark.parametrize("ident", ["é", 'a"b', "a/b", "7"])
def test_ids_that_are_written_in_other_ways(ident: str) -> None:
    data = json.dumps({"messages": [said(ident), told(ident)]}).replace("/", "\\/").encode()
    assert rebuilt(data, kept("A", ident)) == [said("A", ident), told("A", ident)]


def test_ids_that_are_no_text() -> None:
    assert rebuilt(body(said(7), told(7)), kept("7", "A")) == [said(7, "A"), told(7, "A")]


@pytest.mark.parametrize(
    "messages, ids",
    [
        ([], ()),
        ([USER, said("w", "n"), told("w", "n"), said("t1", "x"), told("x")], ("w", "x")),
        ([said("t1"), {**said("w"), "role": "user"}], ()),
        ([said({"type": "tool_use"}, "w")], ()),
        ([said({"type": "server_tool_use", "id": "s"}, "w")], ("w",)),
        (["odd", 7, {"role": "assistant", "content": '"tool_use"'}], ()),
    ],
)
def test_the_first_call_of_each_turn(messages: list[Any], ids: tuple[str, ...]) -> None:
    assert DIALECT.find_call_ids(body(*messages)) == ids


CALLS = st.lists(st.sampled_from("Wcth"), min_size=1, max_size=7).filter(lambda k: "c" in k)


@given(CALLS, st.integers(0, 3), st.randoms(use_true_random=False))
def test_whatever_was_said_the_turn_is_whole_again(
    kinds: list[str], others: int, luck: Any
) -> None:
    names = [f"{kind}{at}" for at, kind in enumerate(kinds)]
    shown = [name for name in names if name[0] != "W"]
    calls = [name for name in shown if name[0] == "c"]
    results = luck.sample(calls, len(calls))
    before = [USER, said("x"), told("x")] * others
    after = rebuilt(body(*before, said(*shown), told(*results), *before), kept(*names))
    assert after[: len(before)] == before == after[len(before) + 2 :]
    turn, answer = after[len(before) : len(before) + 2]
    assert turn == said(*names)
    told_ids = [block["tool_use_id"] for block in answer["content"]]
    assert sorted(told_ids) == sorted(name for name in names if name[0] in "Wc")
    assert [ident for ident in told_ids if ident in calls] == results


@pytest.mark.parametrize("with_ids", [True, False])
def test_from_the_answer_to_the_next_request(with_ids: bool) -> None:
    """What a tap tells of a mixed turn is what puts it together again."""
    blocks: list[Json] = [thought("h"), text("t1")]
    for at, name in enumerate(["weather", "clock", "news"]):
        made = {"type": "tool_use", "name": name, "input": {"at": at}}
        blocks.append({**made, "id": f"id{at}"} if with_ids else made)
    blocks.insert(4, text("t2"))
    answer = DIALECT.splice(ModelRequest(model="m", body=b"{}"), frozenset({"clock"}), 10_000)
    tap = answer.tap()
    tap.feed(json.dumps({"content": blocks, "stop_reason": "tool_use"}).encode())
    tap.close()
    answer.take(tap)
    results = tuple(ToolResult(c.id, "noon") for c in tap.end().server_calls)
    message = msgspec.json.encode(tap.rebuild_turn().message)
    record = KeptTurn(message, DIALECT.name, tap.client_call_ids(), results, 0)
    shown = json.loads(answer.tail(neutral_finish=False))["content"]
    calls = [block["id"] for block in shown if block["type"] == "tool_use"]
    after = rebuilt(body(USER, {"role": "assistant", "content": shown}, told(*calls)), record)
    assert after[1] == json.loads(message)
    assert [block["content"] for block in after[2]["content"]] == ["client", "noon", "client"]
