"""What a Messages turn said, put together from its tape, as it goes back to the upstream."""

import json

import msgspec

from tests.dialects.messages_wire import (
    begin,
    call,
    delta,
    finish,
    fixture,
    run,
    say,
    splice,
    start,
    stop,
    turn,
)


def test_what_was_said_is_read_from_the_tape() -> None:
    _, tap = run(splice(), b": note\n\n" + start() + say(0, "one", " two") + finish())
    assert tap.text() == "one two"
    assert tap.rebuild_turn().message == {
        "role": "assistant",
        "content": [{"type": "text", "text": "one two"}],
    }


def test_thoughts_go_back_signed_and_in_order() -> None:
    _, tap = run(splice(), fixture("thinking"))
    content = json.loads(msgspec.json.encode(tap.rebuild_turn().message))["content"]
    assert [block["type"] for block in content] == ["thinking", "redacted_thinking", "text"]
    assert content[0] == {
        "type": "thinking",
        "thinking": "Let me think…",
        "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl",
    }
    assert content[1]["data"].startswith("EmwKAhgB")


def test_citations_and_deltas_of_new_kinds_go_back_too() -> None:
    cites = [{"cited_text": "a"}, {"cited_text": "b"}]
    text = begin(0, {"type": "text", "text": "", "citations": None}) + delta(
        0, "text_delta", text="x"
    )
    text += b"".join(delta(0, "citations_delta", citation=cite) for cite in cites) + stop(0)
    new = begin(1, {"type": "compaction", "content": None})
    new += delta(1, "compaction_delta", content="sum", more=None, size=3)
    new += delta(1, "compaction_delta", content="mary") + stop(1) + delta(7, "text_delta", text="?")
    message = run(splice(), start() + text + new + finish())[1].rebuild_turn().message
    assert message == {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "x", "citations": cites},
            {"type": "compaction", "content": "summary", "size": 3},
        ],
    }


def test_what_an_upstream_refuses_does_not_go_back() -> None:
    """No blank text, and no thought at the end: it may have been cut short."""
    thought = begin(2, {"type": "thinking", "thinking": ""}) + stop(2)
    stream = start() + say(0, "\n\n") + say(1, "x") + thought + finish("max_tokens")
    message = run(splice(), stream)[1].rebuild_turn().message
    assert message == {"role": "assistant", "content": [{"type": "text", "text": "x"}]}
    odd = start() + begin(0, {"type": "text", "text": 7}) + stop(0) + finish()
    assert run(splice(), odd)[1].rebuild_turn().message == {"role": "assistant", "content": []}
    assert run(splice(), odd)[1].text() == ""


def test_a_follow_up_that_says_nothing_is_known() -> None:
    answer = splice()
    run(answer, turn("one"))
    assert not run(answer, start() + say(0, "") + finish())[1].end().spoke
    assert not run(answer, start() + finish())[1].end().spoke
    assert run(answer, turn("two"))[1].end().spoke
    assert run(answer, start() + call(0, "f", "x") + finish("tool_use"))[1].end().spoke


def test_a_tool_call_as_the_client_and_the_record_have_it() -> None:
    _, tap = run(splice(), fixture("tool"))
    assert tap.end().client_calls
    assert tap.client_call_ids() == ("toolu_01T1x1fJ34qAmk2tNTrN7Up6",)
    body = msgspec.json.encode(tap.rebuild_turn().message)
    assert b'"input":{"location": "Z\xc3\xbcrich", "n": 12345678901234567890123}' in body
