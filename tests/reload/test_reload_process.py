"""SIGHUP to a real process: what the log says, and that it never ends the process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.gateway.wire import chat, get, hanging, streaming, turn
from tests.reload.words import (
    REFUSED,
    RELOADED,
    RESTART,
    SETTINGS,
    key,
    model,
    reloading,
    upstream,
    write_toml,
)
from tests.run import SERVE, as_process, environment, until
from tests.wire.fake import CHUNKED, LAST, Peer, chunk, fake_upstream

ANN = key("ann", "ann's key", admin=True)


def tables(port: int, **more: Any) -> dict[str, Any]:
    return {"upstreams": [upstream("a", port)], "models": [model("m", "a")], "keys": [ANN], **more}


async def test_the_log_names_what_changed_and_what_needs_a_restart(tmp_path: Path) -> None:
    async with fake_upstream(streaming(turn("hi"))) as fake:
        async with reloading(tmp_path, tables(fake.port)) as gate:
            secret = upstream("b", fake.port, api_key="canary-1", headers={"x": "canary-2"})
            changed = tables(
                fake.port,
                server={"drain_ms": 7, "cors_origins": ["http://other.example"]},
                limits={"turns": 3, "offload_processes": 1},
                keys=[ANN, key("bob", "canary-4")],
                upstreams=[upstream("a", fake.port), secret],
            )
            line = await gate.reload(changed)
            assert {name: line[name] for name in line.keys() - {"time", "file"}} == {
                "level": "info",
                "event": RELOADED,
                "upstreams_added": "b",
                "keys_added": "bob",
                "limits_changed": "turns",
            }
            assert line["file"] == str(gate.file)
            await until(lambda: bool(gate.lines(RESTART)))
            (line,) = gate.lines(RESTART)
            assert line["level"] == "warning"
            assert line["keys"] == "server.cors_origins, server.drain_ms, limits.offload_processes"
            # It has no effect by halves: the origin is still foreign.
            foreign = get("/v1/models", "x-api-key: canary-4", "origin: http://other.example")
            assert (await gate.fetch(foreign)).status == 403
            assert (await gate.reload(changed))["changes"] == "none"
            assert "canary" not in gate.process.log.read_text()


async def test_every_mistake_is_a_line_and_nothing_changes(tmp_path: Path) -> None:
    async with fake_upstream(streaming(turn("hi"))) as fake:
        async with reloading(tmp_path, tables(fake.port)) as gate:
            wrong = tables(fake.port, keys=[key("bob", "bob's key"), {"owner": "carol"}])
            wrong |= {"limits": {"turns": 0, "tuns": 1}}
            mistakes = await gate.refuse(wrong, 3)
            assert [line["level"] for line in gate.lines(REFUSED)] == ["warning"] * 3
            assert sorted(one.partition(":")[0] for one in mistakes) == [
                "keys[1]",
                "limits.tuns",
                "limits.turns",
            ]
            assert (await gate.ask("m", "bob's key")).status == 401
            assert (await gate.ask("m", "ann's key")).text == "hi"
            (mistake,) = await gate.refuse("[[keys", 1)
            assert "not valid TOML" in mistake
            metrics = await gate.fetch(get("/metrics", "x-api-key: ann's key"))
            assert b'holdgate_config_reloads_total{result="refused"} 2.0' in metrics.body


async def test_of_many_signals_the_last_file_wins(tmp_path: Path) -> None:
    async with fake_upstream(streaming(turn("hi"))) as fake:
        async with reloading(tmp_path, tables(fake.port)) as gate:
            for number in range(30):
                gate.write(tables(fake.port, models=[model(f"m{number}", "a")]))
                gate.hang_up()
            with anyio.fail_after(10):
                while (await gate.ask("m29", "ann's key")).status != 200:
                    pass
            assert (await gate.ask("m28", "ann's key")).status == 404
            assert len(gate.lines(RELOADED)) <= 30
            assert gate.lines(REFUSED) == []


async def test_a_key_that_is_removed_is_refused_but_its_answer_goes_on(tmp_path: Path) -> None:
    go_on = anyio.Event()

    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(turn("one ")[:-30]))
        await go_on.wait()
        await peer.send(chunk(turn("one ")[-30:]) + LAST)

    async with fake_upstream(story) as fake:
        both = tables(fake.port, keys=[ANN, key("bob", "bob's key")])
        async with reloading(tmp_path, both) as gate:
            client = await gate.start(chat(), "x-api-key: bob's key")
            await client.saw(b"one ")
            assert (await gate.reload(tables(fake.port)))["keys_removed"] == "bob"
            assert (await gate.ask("m", "bob's key")).status == 401
            go_on.set()
            answer = await client.answer()
            assert bytes(answer.body) == turn("one ")


async def test_the_first_key_closes_the_door_and_the_last_one_opens_it(tmp_path: Path) -> None:
    """Without keys only this machine is served, by its own names."""
    async with fake_upstream(streaming(turn("hi"))) as fake:
        keyless = {name: rows for name, rows in tables(fake.port).items() if name != "keys"}
        named = get("/v1/models").replace(b"127.0.0.1", b"gateway.example")
        keyed = get("/v1/models", "x-api-key: ann's key").replace(b"127.0.0.1", b"gateway.example")
        async with reloading(tmp_path, keyless) as gate:
            assert (await gate.ask()).text == "hi"
            assert (await gate.fetch(named)).status == 403
            await gate.reload(tables(fake.port))
            assert (await gate.ask()).status == 401
            assert (await gate.fetch(keyed)).status == 200
            await gate.reload(keyless)
            assert (await gate.ask()).text == "hi"
            assert (await gate.fetch(keyed)).status == 403


async def test_without_a_file_there_is_nothing_to_read_until_there_is_one(tmp_path: Path) -> None:
    async with fake_upstream(streaming(turn("hi"))) as fake:
        async with as_process(tmp_path, SETTINGS, command=SERVE) as process:
            log = process.log

            def lines(event: str) -> list[Any]:
                whole = log.read_text().rpartition("\n")[0].splitlines()
                return [line for line in map(json.loads, whole) if line["event"] == event]

            process.signal(signal.SIGHUP)
            await until(lambda: bool(lines(REFUSED)), 10)
            assert "there is still no holdgate.toml" in lines(REFUSED)[0]["problem"]
            (tmp_path / "holdgate.toml").write_text(write_toml(tables(fake.port)))
            process.signal(signal.SIGHUP)
            await until(lambda: bool(lines(RELOADED)), 10)
            assert lines(RELOADED)[0]["models_added"] == "m"
            (tmp_path / "holdgate.toml").unlink()
            process.signal(signal.SIGHUP)
            await until(lambda: len(lines(REFUSED)) == 2, 10)
            assert "cannot be read" in lines(REFUSED)[1]["problem"]


async def test_from_the_demo_to_upstreams_and_back(tmp_path: Path) -> None:
    async with fake_upstream(streaming(turn("hi"))) as fake:
        async with reloading(tmp_path, "") as gate:
            assert (await gate.ask("demo", text="demo: tokens=2 delay_ms=0")).status == 200
            slow = await gate.start(chat("demo: tokens=20 delay_ms=50", model="demo"))
            await slow.more()
            await gate.reload({"upstreams": [upstream("a", fake.port, models=["m"])]})
            assert (await gate.ask("m")).text == "hi"
            assert (await gate.ask("demo")).status == 404
            assert b"[DONE]" in (await slow.answer()).body
            await until(lambda: bool(gate.lines(RESTART)))
            # The demo has another default, which needs a restart as any value of the clock does.
            assert gate.lines(RESTART)[0]["keys"] == "clock.due_window_ms"
            await gate.reload("")
            assert (await gate.ask("demo", text="demo: tokens=2 delay_ms=0")).status == 200


async def test_under_nohup_nothing_is_read(tmp_path: Path) -> None:
    async with fake_upstream(streaming(turn("hi"))) as fake:
        async with reloading(tmp_path, tables(fake.port), "nohup") as gate:
            gate.write(tables(fake.port, models=[model("n", "a")]))
            gate.hang_up()
            assert (await gate.ask("m", "ann's key")).text == "hi"
            assert await gate.process.terminate() == 0
            assert gate.lines(RELOADED, REFUSED) == []


async def test_while_it_drains_nothing_is_read_and_nobody_is_killed(tmp_path: Path) -> None:
    async with fake_upstream(hanging(CHUNKED, chunk(turn("one")[:-30]))) as fake:
        content = tables(fake.port, server={"drain_ms": 1500})
        async with reloading(tmp_path, content) as gate:
            client = await gate.start(chat(), "x-api-key: ann's key")
            await client.saw(b"one")
            gate.process.signal(signal.SIGTERM)
            await until(lambda: bool(gate.lines("draining")))
            gate.write(tables(fake.port, models=[model("n", "a")]))
            gone = False

            async def hang_up_often() -> None:
                while not gone:
                    gate.hang_up()
                    await anyio.sleep(0.01)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hang_up_often)
                assert await gate.process.gone() == 0
                gone = True
            assert "shutting down" in gate.lines(REFUSED)[0]["problem"]
            assert gate.lines(RELOADED) == []


def catches_hangups(pid: int) -> bool:
    """Whether a process has a handler for SIGHUP, which is the first bit of the mask."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        return bool(int(re.findall(r"^SigCgt:\s(\w+)$", status, re.MULTILINE)[0], 16) & 1)
    return False


@pytest.mark.parametrize("terminal", [False, True])
async def test_signals_from_the_start_are_acted_on_later(tmp_path: Path, terminal: bool) -> None:
    """They come as soon as the interpreter runs the first line of the gateway, and go on."""
    (tmp_path / "holdgate.toml").write_text("")
    window, inside = os.openpty()
    process = await anyio.open_process(
        [sys.executable, "-m", *SERVE],
        cwd=tmp_path,
        env=environment(tmp_path, SETTINGS),
        stdin=inside if terminal else subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        with anyio.fail_after(30):
            await until(lambda: catches_hangups(process.pid), 20)
            for _ in range(50):
                process.send_signal(signal.SIGHUP)
                await anyio.sleep(0.01)
            assert (await process.stdout.receive()).startswith(b"listening on ")
            if not terminal:
                while RELOADED.encode() not in await process.stderr.receive():
                    pass
                process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.aclose()
        os.close(window)
        os.close(inside)
