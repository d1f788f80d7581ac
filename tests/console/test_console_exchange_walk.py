"""What the exchange view draws and tells is what an upstream and a client wrote down themselves."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import pytest
from playwright.async_api import Page, expect

from tests.console.calm import play_when_calm
from tests.console.chromium import LASTING_NOTICES, Chromium, start_chromium
from tests.console.drawing import Drawing, Mark, read_drawing, read_moves, read_story
from tests.console.exchange_scene import ASKED, DRIP, WORDS, ClientLog, Scene, set_scene
from tests.console.test_console_gate import NEAR_MS
from tests.run import until

TEA = ("x-session-id: tea", "x-request-id: tea")
SHORT = pytest.param(8_000, 700, id="short")
LONG = pytest.param(61_000, 5_000, id="58 s", marks=pytest.mark.long)
AHEAD = {"tick", "now", "due"}
"""Marks that say nothing of what has happened."""
SAMPLE_MS = 100
GROWS = (("first_byte", 1), ("tool", 1), ("first_frame", 3))
GOES_ON = (("hold_end", 1), ("first_frame", 5))
"""How many marks of which kind there are at moments before the hold, and after it."""
FIGURE = re.compile(r"(\d+(?:\.\d+)?) ?(?:ms|s|kB|B|毫秒|秒)(?![a-z])")


def list_marks(scene: Scene) -> dict[str, list[float]]:
    """Return where the logs of upstreams and client say that marks are."""
    model, client = scene.model, scene.client
    return {
        "first_byte": [client.first],
        "try": scene.busy.asked,
        "refused": scene.busy.ended,
        "wait": model.asked,
        "first_frame": model.began,
        "tool": [model.ended[0]],
        "hold": [model.ended[3]],
        "hold_end": [model.asked[4]],
        "splice": client.find_words(*WORDS),
        "end": [client.ended],
    }


def list_states(scene: Scene) -> list[tuple[str, float]]:
    """Return when the logs say that the machine moved."""
    model = scene.model
    moves = [("opening", scene.client.begun), ("opening", scene.busy.ended[0])]
    moves += [("relaying", model.began[0]), ("tooling", model.ended[0])]
    for number in (1, 2, 3):
        moves += [("opening", model.asked[number]), ("relaying", model.began[number])]
    moves += [("holding", model.ended[3]), ("opening", model.asked[4])]
    return [*moves, ("relaying", model.began[4]), ("closing", model.ended[4])]


def check_marks(scene: Scene, drawing: Drawing) -> None:
    """Demand that each mark stands where the logs say."""
    drawing.check_places()
    for name, moments in list_marks(scene).items():
        found, wanted = drawing.find(name), scene.to_ms(*moments)
        assert len(found) == len(wanted), (name, found, wanted)
        for mark, moment in zip(found, wanted, strict=True):
            off = abs(drawing.read_ms(mark.x) - moment)
            assert off <= NEAR_MS + drawing.measure_px(mark.x), (mark, moment)
    check_beats(scene, drawing)
    states, moves = drawing.find_states(), list_states(scene)
    assert [state for state, _ in states] == [state for state, _ in moves]
    for (_, mark), (_, when) in zip(states, moves, strict=True):
        off = abs(drawing.read_ms(mark.x) - scene.to_ms(when)[0])
        assert off <= NEAR_MS + drawing.measure_px(mark.x), (mark, when)


def check_beats(scene: Scene, drawing: Drawing) -> None:
    """Demand that each heartbeat of the hold is drawn, and none that the client did not get."""
    sent, drawn = scene.to_ms(*scene.client.beats), drawing.find("beat")

    def is_near(mark: Mark, moment: float) -> bool:
        return abs(drawing.read_ms(mark.x) - moment) <= NEAR_MS + drawing.measure_px(mark.x)

    for mark in drawn:
        assert any(is_near(mark, moment) for moment in sent), (mark, sent)
    begun, ended = scene.to_ms(scene.model.ended[3], scene.model.asked[4])
    held = [moment for moment in sent if begun < moment < ended]
    assert held
    for moment in held:
        assert any(is_near(mark, moment) for mark in drawn), (moment, drawn)


def check_areas(scene: Scene, drawing: Drawing, looked: float) -> None:
    """Demand that the bytes of a turn are drawn highest when the model said much, and low else."""
    bursts = dict(enumerate(scene.model.bursts, 2))
    # Before somebody looked at it, it was sampled once a second.
    watched = {turn: at for turn, at in bursts.items() if scene.model.began[turn - 1] > looked}
    assert watched
    for turn, moment in watched.items():
        (burst,) = scene.to_ms(moment)
        area = drawing.read_area(turn)
        peak, highest = max(area, key=lambda one: one[1])
        # It is sampled ten times a second: the peak stands in the middle of a sample.
        assert abs(peak - burst) <= SAMPLE_MS + NEAR_MS, (turn, area, burst)
        far = [high for when, high in area if abs(when - burst) > 2 * SAMPLE_MS + NEAR_MS]
        assert far, (turn, area)
        assert max(far) < highest / 3, (turn, area)


def check_words(drawing: Drawing) -> None:
    """Demand that what is written beside the marks is so."""
    (refused,) = drawing.find("refused")
    assert refused.text == "a/m: 429 upstream_error"
    assert "a/m 429" in drawing.texts
    assert any(text.startswith("clock schedule, ") for text in drawing.texts)
    for label in ("1 request", "2 after clock", "3 stopMessage 1/2", "4 stopMessage 2/2"):
        assert label in drawing.texts
    assert "5 reminder" in drawing.texts
    (ruled,) = {abs(drawing.read_ms(one.x) - one.at) < 30 for one in drawing.find("tick")}
    assert ruled


def read_moment(text: str) -> float:
    """Read a moment of the story, in milliseconds."""
    minutes, _, rest = text.rpartition(":")
    number, _, unit = rest.partition(" ")
    return int(minutes or 0) * 60_000 + float(number) * (1 if unit in ("ms", "毫秒") else 1000)


def check_story(scene: Scene, story: Sequence[tuple[str, str]]) -> None:
    """Demand that the sentences tell the steps of the logs, each at its time."""
    model, busy = scene.model, scene.busy
    moments = [busy.asked[0], busy.ended[0], model.began[0], model.ended[0]]
    for number in (1, 2, 3):
        moments += [model.asked[number], model.began[number]]
    moments += [model.ended[3], model.asked[4], model.began[4], scene.client.ended]
    assert len(story) == len(moments)
    for (when, text), moment in zip(story, scene.to_ms(*moments), strict=True):
        # From a second on, tenths are shown.
        assert abs(read_moment(when) - moment) <= NEAR_MS + 100, text


async def see_growing(page: Page, moments: Sequence[tuple[str, int]]) -> list[Drawing]:
    """Look at an answer under way whenever it has so many marks of a kind."""
    seen = []
    for name, count in moments:
        mark = page.locator(f"svg.timeline [data-mark={name}]").nth(count - 1)
        await expect(mark).to_be_attached(timeout=90_000)
        seen.append(await read_drawing(page))
    return seen


def check_live(seen: Sequence[Drawing], drawing: Drawing) -> None:
    """Demand that all that was drawn live is drawn afterwards, too."""
    marks = {(one.name, one.at) for one in drawing.marks}
    for live in seen:
        live.check_places()
        assert {(one.name, one.at) for one in live.marks if one.name not in AHEAD} <= marks
    counts = [len(one.marks) for one in seen]
    assert len(set(counts)) >= 4, counts


async def see_hold(page: Page) -> Drawing:
    """Look at the hold while it lasts: it shows what is to come."""
    await expect(page.locator("svg.timeline")).to_contain_text("goes on in 0:")
    drawing = await read_drawing(page)
    drawing.check_places()
    (hold,), (now,), (due,) = (drawing.find(name) for name in ("hold", "now", "due"))
    assert hold.x - 1 <= now.x < due.x
    assert due.x - hold.x == pytest.approx(0.28 * drawing.width, abs=1)
    assert any(re.fullmatch(r"due \d\d:\d\d:\d\d", text) for text in drawing.texts)
    await expect(page.locator("svg.timeline .ghost")).to_have_count(1)
    await expect(page.get_by_role("button", name="End the hold")).to_be_visible()
    return drawing


async def check_true_scale(scene: Scene, page: Page) -> None:
    """`t` shows true scale, and the marks stand where they were."""
    folded = await read_drawing(page)
    (hold,), (end,) = folded.find("hold"), folded.find("hold_end")
    assert end.x - hold.x == pytest.approx(150, abs=1)
    note = page.get_by_text("long waits are folded")
    await expect(note).to_be_visible()
    await page.keyboard.press("t")
    await expect(page.get_by_role("button", name="True scale")).to_have_attribute(
        "aria-pressed", "true"
    )
    await expect(note).to_be_hidden()
    true = await read_drawing(page)
    assert len(true.scale) == 2
    check_marks(scene, true)
    assert {(one.name, one.at) for one in true.marks if one.name != "tick"} == {
        (one.name, one.at) for one in folded.marks if one.name != "tick"
    }
    await page.keyboard.press("t")
    await expect(note).to_be_visible()


async def check_steps(page: Page, story: Sequence[tuple[str, str]]) -> None:
    """Arrow keys go through the marks, one after the other."""
    drawing = await read_drawing(page)
    cursor, chosen = page.locator(".step-cursor"), page.locator(".story li.chosen")
    for when, text in story:
        await page.keyboard.press("ArrowRight")
        await expect(page.locator(".caption")).to_have_text(f"{when} {text}")
        await expect(chosen).to_contain_text(text)
        x = float(await cursor.get_attribute("x1") or 0)
        assert abs(drawing.read_ms(x) - read_moment(when)) <= 100 + drawing.measure_px(x)
    await page.keyboard.press("ArrowRight")
    await expect(chosen).to_contain_text(story[-1][1])
    await page.keyboard.press("ArrowLeft")
    await expect(chosen).to_contain_text(story[-2][1])


def count_moves(trail: dict[str, Any]) -> dict[str, int]:
    """Count the moves of a trail, by edge."""
    states = [state for _, state in trail["states"]]
    edges = [f"{before}>{after}" for before, after in pairwise(states)]
    return {edge: edges.count(edge) for edge in edges}


async def check_machine(page: Page, trail: dict[str, Any]) -> None:
    """The counts at the edges are those of the trail's moves."""
    edges, written = await read_moves(page)
    moves = count_moves(trail)
    assert edges == moves
    assert written == {edge: count for edge, count in moves.items() if count > 1}
    assert moves["opening>opening"] == 1
    assert moves["relaying>opening"] == 2


async def check_neighbours(scene: Scene, page: Page) -> None:
    """`[` opens the newer exchange, `]` the older one; where there is none, that is said."""
    tea = page.url
    await ClientLog().ask(scene.gate, "hi")
    await page.keyboard.press("[")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Exchange")
    assert page.url != tea
    await page.keyboard.press("[")
    await expect(page.get_by_text("There is none in this direction.")).to_be_visible()
    await page.keyboard.press("]")
    await expect(page).to_have_url(tea)
    await expect(page.get_by_role("heading", level=1)).to_have_text("tea")


async def check_phone(chromium: Chromium, url: str, story: Sequence[tuple[str, str]]) -> None:
    """A phone shows the strip, the story and the machine; Chinese tells the same at the same time."""
    async with chromium.open(url, language="zh", theme="dark", width=390) as tab:
        page = tab.page
        await expect(page.locator(".story li")).to_have_count(len(story))
        await expect(page.locator("svg.timeline")).to_have_count(0)
        told = await read_story(page)
        assert [read_moment(time) for time, _ in told] == [read_moment(time) for time, _ in story]
        for (_, text), (_, other) in zip(told, story, strict=True):
            assert sorted(FIGURE.findall(text)) == sorted(FIGURE.findall(other)), text
            assert re.search(r"[\u4e00-\u9fff]", text), text
            assert not re.search(r"[\u4e00-\u9fff] [\u4e00-\u9fff]", text), text
        strip = await page.locator(".strip").bounding_box()
        assert strip is not None
        assert strip["height"] == 22
        # Every state but the last word, which has no length.
        assert await page.locator(".strip rect").count() == 14
        smallest = await page.locator(".machine").evaluate(
            "(svg) => Math.min(...[...svg.querySelectorAll('text')].map((node) =>"
            " parseFloat(getComputedStyle(node).fontSize)))"
            " * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width"
        )
        assert smallest >= 11
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.alone
@pytest.mark.timeout(420)
@pytest.mark.parametrize(("in_ms", "keepalive_ms"), [SHORT, LONG])
async def test_one_answer_over_its_turns(tmp_path: Path, in_ms: int, keepalive_ms: int) -> None:
    async def play(number: int) -> None:
        home = tmp_path / str(number)
        home.mkdir()
        async with set_scene(home, in_ms, keepalive_ms) as scene, start_chromium() as chromium:
            await watch_answer(scene, chromium)

    await play_when_calm(play)


async def watch_answer(scene: Scene, chromium: Chromium) -> None:
    """Look at an answer from its begin on, and at all that is told of it afterwards."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scene.client.ask, scene.gate, ASKED, *TEA)
        await until(lambda: bool(scene.busy.asked))
        # A client knows only its request id.
        async with chromium.open(f"{scene.gate.url}/console/exchange?id=tea") as tab:
            page = tab.page
            seen = await see_growing(page, GROWS)
            looked = time.monotonic()
            seen += [await see_hold(page)]
            seen += await see_growing(page, GOES_ON)
            await expect(page.locator("svg.timeline [data-mark=end]")).to_have_count(1)
            await expect(page.locator(".head .pill")).to_have_text("done")
            drawing, story = await read_drawing(page), await read_story(page)
            check_marks(scene, drawing)
            check_areas(scene, drawing, looked)
            check_words(drawing)
            check_live(seen, drawing)
            check_story(scene, story)
            await check_true_scale(scene, page)
            await check_steps(page, story)
            answer = await page.request.get(f"{scene.gate.url}/api/console/exchanges/tea")
            await check_machine(page, await answer.json())
            await check_neighbours(scene, page)
            await check_phone(chromium, page.url, story)


MANY_FOLDS = """
async () => {
  const base = document.querySelector("script[type=module]").src;
  const { makeScale } = await import(new URL("parts/scale.js", base));
  const waits = Array.from({ length: 12 }, (_, i) => [1000 + i * 61000, 61000 + i * 61000]);
  const { place, folds } = makeScale({ end: 733000, waits, left: 156, right: 1118, fold: 150 });
  const moments = Array.from({ length: 734 }, (_, i) => place(i * 1000));
  return { folds: folds.length, moments };
}
"""


async def check_many_folds(page: Page) -> None:
    """Of many holds, each is narrower: later stays further right, and all fits."""
    found = await page.evaluate(MANY_FOLDS)
    assert found["folds"] == 12
    assert all(before < after for before, after in pairwise(found["moments"]))
    assert found["moments"][-1] == pytest.approx(1118)


async def end_hold(scene: Scene, page: Page) -> None:
    """End a hold; the answer goes on at once."""
    await page.goto(f"{scene.gate.url}/console/exchange?id=tea")
    await page.get_by_role("button", name="End the hold").click()
    await expect(page.locator(".head .pill")).to_have_text("done")
    await expect(page.locator(".story")).to_contain_text("until somebody ended it in the console")
    await expect(page.get_by_role("button", name="End the hold")).to_be_hidden()
    await expect(page.get_by_role("button", name="Cut it off")).to_be_hidden()
    await page.get_by_role("button", name="Copy id").click()
    await expect(page.get_by_text("Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == page.url.partition("id=")[2]


async def see_flow(scene: Scene, page: Page) -> None:
    """An answer that somebody looks at is sampled ten times a second, else once."""
    await page.goto(f"{scene.gate.url}/console/exchange?id=drip")
    await expect(page.locator("svg.timeline [data-mark=now]")).to_have_count(1)
    flow: list[tuple[int, int]] = []
    while len(flow) < 20:
        answer = await page.request.get(f"{scene.gate.url}/api/console/exchanges/drip")
        flow = (await answer.json())["turns"][0]["flow"]
    apart = [after[0] - before[0] for before, after in pairwise(flow)]
    # On a busy machine not all of them are in time.
    assert median(apart) < 500


async def cut_off(page: Page, client: ClientLog) -> None:
    """Cut an answer off: it is asked first, and the client is told."""
    await page.get_by_role("button", name="Cut it off").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(dialog).to_be_hidden()
    await expect(page.locator(".head .pill")).to_have_text("relaying")
    await page.get_by_role("button", name="Cut it off").click()
    await dialog.get_by_role("button", name="Cut it off").click()
    await expect(page.locator(".head .pill")).to_have_text("failed")
    await expect(page.locator(".story li").last).to_contain_text("(cut_off)")
    await until(lambda: b"cut_off" in client.body)
    ((_, end),) = [(one.name, one) for one in (await read_drawing(page)).find("end")]
    assert end.text == "failed"


async def test_what_a_person_can_do_with_an_exchange(tmp_path: Path) -> None:
    rights = ["clipboard-read", "clipboard-write"]
    drip = ClientLog()
    async with (
        set_scene(tmp_path, 300_000, 500) as scene,
        start_chromium() as chromium,
        chromium.open(f"{scene.gate.url}/console/", permissions=rights) as tab,
        anyio.create_task_group() as tasks,
    ):
        await tab.page.add_init_script(LASTING_NOTICES)
        tasks.start_soon(scene.client.ask, scene.gate, ASKED, *TEA)
        await until(lambda: bool(scene.busy.asked))
        await check_many_folds(tab.page)
        await end_hold(scene, tab.page)
        tasks.start_soon(drip.ask, scene.gate, DRIP, "x-request-id: drip")
        await until(lambda: bool(drip.chunks))
        await see_flow(scene, tab.page)
        await cut_off(tab.page, drip)
