"""A gateway process in front of the demo upstream, which runs in a process of its own and keeps a log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.reload.words import write_toml
from tests.run import SERVE, GatewayProcess, as_process, until

HEARD = "heard.jsonl"
PATIENCE = 60
LISTEN = ("gateway.demo", "--port", "0", "--log", HEARD)
SETTINGS = {"ROUTECODEX_CLOCK_NTP": "off", "HOLDGATE_SERVER__LOG_FORMAT": "json"}
HOLDS = {"due_window_ms": 0, "hold_max_ms": 3_600_000, "hold_total_ms": 3_600_000}
DIALECTS = ("openai-chat", "openai-responses", "anthropic-messages")
WORDS: dict[str, dict[str, str]] = {
    language: json.loads(
        Path(__file__).parents[2].joinpath(f"gateway/api/console/words-{language}.json").read_text()
    )
    for language in ("en", "zh")
}


@dataclass(frozen=True)
class UpstreamLog:
    """What the upstream wrote down of its requests."""

    file: Path

    def _read(self) -> list[dict[str, Any]]:
        whole = self.file.read_text().rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in whole]

    def find_requests(self, text: str) -> list[dict[str, Any]]:
        """Return the requests whose bodies have this text."""
        lines = [one for one in self._read() if one["event"] == "request"]
        return [one for one in lines if text in json.dumps(one["body"], ensure_ascii=False)]

    def find_body(self, text: str) -> dict[str, Any]:
        """Return the body of the last request that has this text."""
        body = self.find_requests(text)[-1]["body"]
        found: dict[str, Any] = json.loads(body) if isinstance(body, str) else body
        return found

    def find_close(self, text: str) -> float | None:
        """Return when the gateway left the last request that has this text; None: it has not."""
        request = self.find_requests(text)[-1]["request"]
        left = (one for one in self._read() if one.get("request") == request)
        return next((one["at"] for one in left if one["event"] == "closed_by_client"), None)

    async def wait_for(self, text: str) -> None:
        """Wait until the upstream was asked something that has this text."""
        await until(lambda: bool(self.find_requests(text)), PATIENCE)

    async def wait_for_close(self, text: str) -> float:
        """Wait until the gateway left the last request that has this text; return when."""
        await until(lambda: self.find_close(text) is not None, PATIENCE)
        at = self.find_close(text)
        assert at is not None
        return at


@dataclass(frozen=True)
class ScriptedGateway:
    """A gateway and what its upstream was asked."""

    gate: GatewayProcess
    log: UpstreamLog
    tables: Mapping[str, Any]

    @property
    def url(self) -> str:
        """Where the gateway listens."""
        return self.gate.url


@contextmanager
def start_scripted(home: Path, **more: Any) -> Iterator[ScriptedGateway]:
    """Start both: a model for each dialect of the upstream, named like it, and the agent `helper`."""
    backstage, place = home / "upstream", home / "gateway"
    for directory in (backstage, place):
        directory.mkdir(parents=True)
    with as_process(backstage, command=LISTEN) as upstream:
        tables: dict[str, Any] = {
            "clock": HOLDS,
            "upstreams": [
                {"id": name, "dialect": name, "base_url": f"{upstream.url}/v1"} for name in DIALECTS
            ],
            "models": [{"name": name, "routes": [f"{name}/demo"]} for name in DIALECTS],
            "agents": [{"id": "helper", "model": DIALECTS[0], "tools": ["clock", "schedule_task"]}],
            **more,
        }
        file = place / "holdgate.toml"
        file.write_text(write_toml(tables))
        with as_process(place, SETTINGS, command=(*SERVE, "--config", str(file))) as gate:
            yield ScriptedGateway(gate, UpstreamLog(backstage / HEARD), tables)


async def fetch(page: Page, path: str) -> Any:
    """Ask the gateway for JSON, as the page would."""
    origin = page.url.partition("/console")[0]
    answer = await page.request.get(f"{origin}{path}")
    assert answer.ok, await answer.text()
    return await answer.json()


# Of each step: the class of its glyph, its sentence, and when.
READ_STEPS = """(items) => items.map((li) => [
  li.querySelector(".glyph").classList[1], ...[...li.querySelectorAll(".two > span")].map((one) => one.textContent)
])"""


def show_moment(ms: int, words: dict[str, str]) -> str:
    """Write a moment within an exchange as the page does."""
    if ms < 1000:
        return words["frame.span_ms"].format(n=ms)
    return words["frame.span_s"].format(n=f"{ms // 100 / 10:.1f}")


def list_steps(trail: dict[str, Any], words: dict[str, str]) -> list[tuple[str, str]]:
    """Return states and moments that must be shown of a trail."""
    turns = trail["turns"]
    moments = [
        *[("opening", turn["tries"][0]["at"]) for turn in turns],
        *[("relaying", turn["first"]) for turn in turns if turn["first"] is not None],
        *[("tooling", tool["at"]) for tool in trail["tools"]],
        *[("holding", hold["at"]) for hold in trail["holds"]],
        (trail["state"], trail["ended"]),
    ]
    moments.sort(key=lambda one: one[1])
    return [(state, show_moment(at, words)) for state, at in moments]
