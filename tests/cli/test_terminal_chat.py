"""`holdgate chat`, as a person sees it."""

from __future__ import annotations

import os
import sys

import anyio
import pytest

from .gate import Gate
from .seat import CTRL_C, CTRL_D, ROOT, Seat, seated

SET = "I set it: drink tea. This answer stays open and I go on at 21:22:41."


async def test_a_hold_counts_down_on_one_line_and_is_wiped(gate: Gate, seat: Seat) -> None:
    await seat.enter("remind me")
    answer = await gate.asked()
    assert answer.headers["x-session-id"] == "tea-time"
    assert answer.headers["x-holdgate-notes"] == "1"
    await answer.note(state="relaying", turn=1)
    await answer.say(SET)
    await answer.hold(3000)
    await seat.reads("holding, 3 s until 21:22:41; Ctrl-C leaves")
    await answer.say(None)
    await seat.reads("holding, 2 s until 21:22:41; Ctrl-C leaves")
    assert seat.lines[-2] == SET
    assert seat.lines[-1].startswith("holding, ")
    await answer.note(state="opening", turn=2)
    await answer.say("\n\n")
    for piece in ("It is time:", " drink", " tea."):
        await answer.say(piece)
    await answer.end()
    await seat.sees("It is time: drink tea.")
    await seat.prompted()
    assert seat.lines[-5:] == ["> remind me", SET, "", "It is time: drink tea.", "> "]
    await seat.enter("thanks")
    assert (await gate.asked()).body["messages"] == [
        {"role": "user", "content": "remind me"},
        {"role": "assistant", "content": f"{SET}\n\nIt is time: drink tea."},
        {"role": "user", "content": "thanks"},
    ]


async def test_ctrl_c_leaves_a_hold_at_once(gate: Gate, seat: Seat) -> None:
    await seat.enter("remind me")
    answer = await gate.asked()
    await answer.say(SET)
    await answer.hold(3_600_000)
    await seat.reads("holding, 1:00:00 until 22:22:38; Ctrl-C leaves")
    with anyio.fail_after(2):
        seat.type(CTRL_C)
        await answer.left()
    await seat.sees("(left)")
    await seat.enter("again")
    again = await gate.asked()
    assert [message["role"] for message in again.body["messages"]] == ["user", "assistant", "user"]
    assert "holding" not in "".join(seat.lines)


async def test_ctrl_c_before_an_answer_takes_the_question_back(gate: Gate, seat: Seat) -> None:
    await seat.enter("one")
    knocked = await gate.knocked()
    seat.type(CTRL_C)
    await knocked.left()
    await seat.sees("(left)")
    await seat.enter("two")
    again = await gate.asked()
    assert again.body["messages"] == [{"role": "user", "content": "two"}]
    await again.end()


async def test_a_hold_that_is_judged_again_counts_to_its_new_end(gate: Gate, seat: Seat) -> None:
    await seat.enter("remind me")
    answer = await gate.asked()
    await answer.say("Done.")
    await answer.hold(90_000)
    await seat.reads("holding, 1:30 until 21:24:08; Ctrl-C leaves")
    await answer.hold(9_000)
    await seat.reads("holding, 9 s until 21:22:47; Ctrl-C leaves")
    await answer.note(state="closing", turn=1, why="the follow-up failed")
    await answer.end()
    await seat.sees("holdgate: the follow-up failed")
    assert seat.lines[seat.lines.index("Done.") :][:2] == [
        "Done.",
        "holdgate: the follow-up failed",
    ]


async def test_a_count_that_is_over_waits_at_nought(gate: Gate, seat: Seat) -> None:
    await seat.enter("remind me")
    answer = await gate.asked()
    await answer.hold(-5)
    await seat.reads("holding, 0 s until 21:22:38; Ctrl-C leaves")
    await answer.say("It is time.")
    await answer.end()
    await seat.sees("It is time.")
    assert "> remind me" in seat.lines[-3:]


async def test_a_model_cannot_steer_the_terminal(gate: Gate, seat: Seat) -> None:
    await seat.enter("hi")
    answer = await gate.asked()
    await answer.say("a\x1b[2Jb\x07\x9b1;1Hc\td\r\ne")
    await answer.end()
    await seat.sees("e")
    assert "a[2Jb1;1Hc\td\r\ne" in seat.written


TROUBLES = {
    "data: {": "holdgate: the answer cannot be read.",
    'data: {"choices":[{"delta":{"content":3}}]}': "holdgate: the answer cannot be read.",
    'data: {"error":{"message":"Too hot."}}': "holdgate: Too hot.",
    'data: {"error":"Too cold."}': "holdgate: Too cold.",
}


async def test_trouble_is_one_sentence_and_the_chat_goes_on(gate: Gate, seat: Seat) -> None:
    for frame, sentence in TROUBLES.items():
        await seat.enter("hi")
        answer = await gate.asked()
        await answer.hold(60_000)
        await answer.frame(": holdgate {broken")
        await answer.frame(frame)
        await seat.sees(sentence)
        await answer.left()
    await seat.enter("hi")
    broken = await gate.asked()
    await broken.say("half a sent")
    await broken.break_off()
    await seat.sees("holdgate: the answer broke off.")
    await seat.enter("hi")
    await (await gate.knocked()).refuse("503 No", b'{"error":{"message":"Not now."}}')
    await seat.sees("holdgate: Not now.")
    await seat.prompted()
    seat.type(CTRL_D)
    assert await seat.ended() == 0
    assert "Traceback" not in seat.written


async def test_a_session_is_made_up_and_told(gate: Gate) -> None:
    async with seated("chat", "--url", gate.url, "--key", "k") as seat:
        await seat.reads("scripted at " + gate.url + ", session chat-")
        await seat.prompted()
        await seat.enter("hi")
        answer = await gate.asked()
        session = answer.headers["x-session-id"]
        assert f"session {session};" in seat.written
        assert answer.headers["authorization"] == "Bearer k"
        await answer.end()
        await seat.prompted()
        seat.type(CTRL_C)
        assert await seat.ended() == 0


async def test_where_there_is_no_terminal_a_hold_is_one_line(gate: Gate) -> None:
    command = [sys.executable, "-m", "gateway", "chat", "--url", gate.url, "--session", "喝茶"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    async with await anyio.open_process(command, env=environ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        await process.stdin.send(b"remind me\n")
        answer = await gate.asked()
        assert answer.headers["x-session-id"].encode("latin-1").decode() == "喝茶"
        await answer.say("Done.")
        await answer.hold(2_100)
        await answer.hold(2_100)
        await answer.note(state="opening", turn=2)
        await answer.say("\n\nIt is time.\x1b[0m")
        await answer.end()
        await process.stdin.aclose()
        out = b"".join([data async for data in process.stdout])
        err = b"".join([data async for data in process.stderr])
    assert out == b"> Done.\n\nIt is time.\x1b[0m\n> \n"
    assert err.decode().splitlines()[1:] == ["holding for 3 s"]


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
async def test_the_chat_ends(key: str, seat: Seat) -> None:
    seat.type(key)
    assert await seat.ended() == 0
