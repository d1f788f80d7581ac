"""`holdgate serve --workers N`: real processes at one port, killed, reloaded and drained."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio

from tests.gateway.client import Client
from tests.gateway.wire import DONE, Cue, ask_of, chat, event, text
from tests.reload.words import REFUSED, model, upstream
from tests.run import environment, until
from tests.wire.fake import CHUNKED, LAST, Peer, Story, chunk, fake_upstream
from tests.workers.words import ENDED, PATIENCE, WorkersProcess, serving_workers

ROLE = event({"role": "assistant", "content": ""})
END = event({}, "stop") + DONE


def tables(port: int, **more: Any) -> dict[str, Any]:
    return {
        "server": {"drain_ms": 20_000},
        "upstreams": [upstream("a", port)],
        "models": [model("m", "a")],
        **more,
    }


def waiting(cue: Cue) -> Story:
    """Begin every answer, and end one for each time that the cue is given."""

    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(ROLE))
        await cue.wait()
        await peer.send(chunk(text("done")), chunk(END) + LAST)

    return story


async def begin_answer(client: Client) -> Client:
    await client.send(ask_of(chat()))
    await client.saw(ROLE)
    return client


def test_workers_need_a_store_that_they_can_share(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", "--workers", "2"],
        env=environment(tmp_path, {}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 1
    assert result.stderr == (
        "server.workers: 2 workers need a store that they can share, and the embedded store "
        'belongs to one process; set store.url to "postgresql://…"\n'
    )


async def test_a_worker_that_dies_is_replaced_and_the_others_go_on(tmp_path: Path) -> None:
    cue = Cue()
    async with fake_upstream(waiting(cue)) as fake:
        async with serving_workers(tmp_path, tables(fake.port)) as gate:
            before = gate.workers
            names = {line["instance"] for line in before.values()}
            assert len(names) == 2
            other = await begin_answer(await gate.connect_to(2))
            lost = await begin_answer(await gate.connect_to(1))
            await gate.kill_worker(1)

            assert await lost.closed() in ("closed", "reset")
            cue.give()
            cue.give()
            assert (await other.answer()).body.endswith(END)
            (ended,) = gate.lines(ENDED)
            assert (ended["number"], ended["signal"], ended["level"]) == (1, "SIGKILL", "warning")
            # It has another name and process, and its metrics are where they were.
            assert gate.workers[1]["metrics"] == before[1]["metrics"]
            assert gate.workers[1]["pid"] != before[1]["pid"]
            assert gate.workers[1]["instance"] not in names
            (await gate.connect_to(1)).leave()

            urls = [gate.workers[number]["metrics"] for number in (1, 2)]
            for number in (1, 2):
                status = (await gate.fetch_from(number, "/api/status")).json["instance"]
                name = gate.workers[number]["instance"]
                assert status == {"id": name, "worker": number, "workers_metrics": urls}
                shown = await gate.fetch_from(number, "/metrics")
                assert b"holdgate_build_info" in shown.body
            # Only what an operator looks at is answered there.
            assert (await gate.fetch_from(1, "/v1/models")).status == 404
            gate.process.signal(signal.SIGTERM)
            rest = gate.process.read_output()
            assert rest.count("listening on") == 0
            for number, url in enumerate(urls, 1):
                assert f"metrics of worker {number} at {url}\n" in rest
            assert await gate.process.gone() == 0


async def test_hangup_reaches_all_also_those_that_start_later(tmp_path: Path) -> None:
    async with fake_upstream(waiting(Cue())) as fake:
        async with serving_workers(tmp_path, tables(fake.port)) as gate:
            gate.write(tables(fake.port, models=[model("new", "a")]))
            gate.process.signal(signal.SIGHUP)
            # The parent, and each worker.
            await gate.wait_for_lines(3, "config_reloaded")
            assert await list_models(gate) == [["new"], ["new"]]

            gate.write("[[models")
            gate.process.signal(signal.SIGHUP)
            (refused,) = await gate.wait_for_lines(1, REFUSED)
            assert "not valid TOML" in refused["problem"]
            # Whoever starts now has what the others have, whatever is in the file.
            await gate.kill_worker(2)
            assert await list_models(gate) == [["new"], ["new"]]
            assert len(gate.lines(REFUSED)) == 1


async def list_models(gate: WorkersProcess) -> list[list[str]]:
    return [(await gate.fetch_from(number, "/api/status")).json["models"] for number in (1, 2)]


async def test_sigterm_drains_all_and_a_second_one_does_not_wait(tmp_path: Path) -> None:
    cue = Cue()
    async with fake_upstream(waiting(cue)) as fake:
        async with serving_workers(tmp_path, tables(fake.port)) as gate:
            streams = [
                await begin_answer(await gate.connect_to(number)) for number in (1, 2) for _ in "ab"
            ]
            gate.process.signal(signal.SIGTERM)
            await gate.wait_for_lines(2, "draining")
            for number in (1, 2):
                assert (await gate.fetch_from(number, "/readyz")).status == 503
            *most, last = streams
            for _ in most:
                cue.give()
            assert all([bytes((await one.answer()).body).endswith(END) for one in most])
            gate.process.signal(signal.SIGTERM)
            with anyio.fail_after(10):
                assert await gate.process.gone() == 0
            assert DONE not in (await last.answer()).body


async def test_workers_drain_when_their_parent_is_killed(tmp_path: Path) -> None:
    cue = Cue()
    async with fake_upstream(waiting(cue)) as fake:
        async with serving_workers(tmp_path, tables(fake.port)) as gate:
            client = await begin_answer(await gate.connect_to(1))
            pids = [line["pid"] for line in gate.workers.values()]
            await gate.process.kill()
            await until(lambda: not is_listening(gate.port), PATIENCE)
            cue.give()
            assert (await client.answer()).body.endswith(END)
            await until(lambda: not any(is_running(pid) for pid in pids), PATIENCE)


def is_listening(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Nobody waits for the children of a parent that was killed but the first process.
    return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
