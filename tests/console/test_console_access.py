"""The console for everybody: WCAG 2.2 AA on every page, at every size, in every colour scheme."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.console.chromium import Chromium, Tab, find_barriers, open_tab, start_chromium
from tests.console.measures import POINTER, TOUCH, count_animations, measure, set_text_size
from tests.console.scenes import (
    FOLDER,
    KEY,
    SCENES,
    WORDS,
    Happened,
    Scene,
    let_things_happen,
    say_in_chat,
    start_with_key,
)
from tests.run import GatewayProcess


@dataclass(frozen=True)
class Look:
    """How somebody looks at a page."""

    theme: str
    width: int
    language: str
    text: int = 100
    forced: bool = False

    def __str__(self) -> str:
        forced = " forced" if self.forced else ""
        return f"{self.theme} {self.width} {self.language} {self.text} %{forced}"


LOOKS = (
    Look("light", 1440, "en"),
    Look("dark", 390, "zh"),
    Look("light", 320, "en", 200),
    Look("dark", 1440, "zh", 200),
    Look("dark", 1440, "en", forced=True),
    Look("light", 390, "en"),
    Look("dark", 320, "zh", 200),
    Look("light", 390, "zh", forced=True),
)
ALL_LOOKS = (
    *(
        Look(theme, width, language, text)
        for theme, width, language, text in product(
            ("light", "dark"), (1440, 390, 320), ("en", "zh"), (100, 200)
        )
    ),
    *(
        Look(theme, width, "en", forced=True)
        for theme, width in product(("light", "dark"), (1440, 390))
    ),
)
COLOUR = re.compile(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)")
SURFACES = ("paper", "panel", "raised", "sunk")


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Happened]:
    with let_things_happen(tmp_path_factory.mktemp("gateway")) as done:
        yield done


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that wants a key, and in which nothing happened."""
    with start_with_key(tmp_path_factory.mktemp("fresh")) as gate:
        yield gate


@pytest.fixture
async def chromium() -> AsyncIterator[Chromium]:
    async with start_chromium() as started:
        yield started


async def find_faults(page: Page, look: Look) -> list[str]:
    """Return what keeps somebody out of a page."""
    sizes = TOUCH if look.width <= 760 else POINTER
    return [*await find_barriers(page), *await measure(page, sizes)]


async def show_scene(tab: Tab, happened: Happened, scene: Scene, look: Look) -> list[str]:
    """Show a page in one of its forms; return what is wrong with it."""
    if look.text != 100:
        await set_text_size(tab.page, look.text)
    await tab.page.goto(happened.find_url(scene.path))
    await expect(tab.page.locator(scene.ready).first).to_be_visible()
    if scene.act is not None:
        await scene.act(tab.page, WORDS[look.language])
    return [f"{scene.name}, {look}: {one}" for one in await find_faults(tab.page, look)]


async def show_scenes(
    chromium: Chromium, happened: Happened, look: Look, scenes: Sequence[Scene]
) -> list[str]:
    """Show some pages to somebody, each in a tab of its own."""
    faults: list[str] = []
    forced = "active" if look.forced else "none"
    async with chromium.open(
        "about:blank",
        language=look.language,
        theme=look.theme,
        width=look.width,
        forced_colors=forced,
    ) as first:
        for scene in scenes:
            tolerated = ("404", "400") if "unknown" in scene.name or "refused" in scene.name else ()
            async with open_tab(first.page.context, "about:blank", tolerated) as tab:
                faults += await show_scene(tab, happened, scene, look)
                await tab.page.close()
    return faults


@pytest.mark.parametrize("look", LOOKS, ids=str)
async def test_no_page_keeps_anybody_out(
    chromium: Chromium, happened: Happened, look: Look
) -> None:
    """Each form of each page in one look, and each page in several."""
    scenes = SCENES[LOOKS.index(look) :: len(LOOKS)]
    assert await show_scenes(chromium, happened, look, scenes) == []


@pytest.mark.long
@pytest.mark.parametrize("look", ALL_LOOKS, ids=str)
async def test_no_page_keeps_anybody_out_in_any_look(
    chromium: Chromium, tmp_path: Path, look: Look
) -> None:
    # A gateway for each: a hold does not last as long as all of them.
    with let_things_happen(tmp_path) as happened:
        assert await show_scenes(chromium, happened, look, SCENES) == []


LARGE_TEXT = (Look("light", 320, "en", 200), Look("dark", 1440, "en", 200))
CROWDED = (
    "exchange done",
    "session, add reminder",
    "jobs, editor",
    "jobs, delete",
    "job, run",
    "health",
)


@pytest.mark.parametrize("look", LARGE_TEXT, ids=str)
async def test_large_text_loses_nothing(chromium: Chromium, happened: Happened, look: Look) -> None:
    """Cancel was beyond the edge of dialogs, what Save still needs had no width, figures were cut,
    and the titles of plots stood one over the other.
    """
    scenes = [scene for scene in SCENES if scene.name in CROWDED]
    assert len(scenes) == len(CROWDED)
    assert await show_scenes(chromium, happened, look, scenes) == []


async def test_large_text_makes_a_larger_drawing(chromium: Chromium, happened: Happened) -> None:
    async with chromium.open("about:blank", width=1700) as tab:
        for percent in (100, 200):
            await set_text_size(tab.page, percent)
            await tab.page.goto(happened.find_url("exchange?id={done}"))
            drawing = tab.page.locator("svg.timeline")
            await expect(drawing).to_be_visible()
            scale = await drawing.evaluate("(svg) => svg.getScreenCTM().a")
            assert scale == pytest.approx(percent / 100, rel=0.02)


async def test_the_names_of_the_tabs_fit_on_a_small_screen(
    chromium: Chromium, happened: Happened
) -> None:
    async with chromium.open("about:blank", width=320) as tab:
        for percent in (100, 200):
            await set_text_size(tab.page, percent)
            await tab.page.goto(happened.find_url("sessions"))
            tabs = tab.page.locator(".tabs")
            await expect(tabs.get_by_role("link").first).to_be_visible()
            assert await tabs.evaluate("(node) => node.scrollWidth - node.clientWidth") <= 0


@asynccontextmanager
async def sign_in(chromium: Chromium, gate: GatewayProcess, look: Look) -> AsyncIterator[Tab]:
    """Open the console of a gateway that wants a key."""
    async with chromium.open(
        "about:blank",
        language=look.language,
        theme=look.theme,
        width=look.width,
        tolerated=("401",),
        forced_colors="active" if look.forced else "none",
    ) as tab:
        if look.text != 100:
            await set_text_size(tab.page, look.text)
        await tab.page.goto(f"{gate.url}/console/")
        await expect(tab.page.locator("#key")).to_be_focused()
        yield tab


@pytest.mark.parametrize("look", LOOKS, ids=str)
async def test_who_comes_first_gets_in(
    chromium: Chromium, fresh: GatewayProcess, look: Look
) -> None:
    await come_first(chromium, fresh, look)


@pytest.mark.long
@pytest.mark.parametrize("look", ALL_LOOKS, ids=str)
async def test_who_comes_first_gets_in_in_any_look(
    chromium: Chromium, tmp_path: Path, look: Look
) -> None:
    # A gateway for each: so many wrong keys in a minute would not even be looked at.
    with start_with_key(tmp_path) as fresh:
        await come_first(chromium, fresh, look)


async def come_first(chromium: Chromium, fresh: GatewayProcess, look: Look) -> None:
    """Signing in, with a wrong key first; then every page while nothing is there yet."""
    async with sign_in(chromium, fresh, look) as tab:
        page = tab.page
        faults = await find_faults(page, look)
        await page.keyboard.type("sk-wrong")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).not_to_be_empty()
        await expect(page.locator("#key")).to_be_focused()
        faults += await find_faults(page, look)
        await page.locator("#key").fill(KEY)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text(
            WORDS[look.language]["live.title"]
        )
        for name in ("", "sessions", "jobs"):
            await page.goto(f"{fresh.url}/console/{name}")
            await expect(page.locator(".empty")).to_be_visible()
            faults += [f"{name}: {one}" for one in await find_faults(page, look)]
    assert faults == []


async def test_a_hold_is_heard_when_it_begins_and_when_it_ends(
    chromium: Chromium, happened: Happened
) -> None:
    """Twice in each hold, and not each second: in Chat, and on the page of the exchange."""
    words = WORDS["en"]
    due = (datetime.now(UTC) + timedelta(minutes=50)).isoformat()
    # It is still said when the other page is there.
    text = f'<**clock:{{"time":"{due}","message":"lunch"}}**> demo: tokens=300 delay_ms=50'
    async with chromium.open(happened.find_url("chat")) as tab:
        page = tab.page
        await say_in_chat(page, words, text)
        news = page.locator("main > [role=status]")
        open_exchange = page.locator(".this-answer header a[href]")
        address = await open_exchange.get_attribute("href")
        async with open_tab(page.context, f"{happened.gate.url}{address}") as other:
            heard = other.page.locator("main > [aria-live=polite]")
            await expect(heard).to_have_text(words["exchange.spoken_hold"])
            await expect(news).to_have_text(re.compile("^The answer is held open until"))
            timer = page.locator(".waiting [role=timer]")
            assert await timer.get_attribute("aria-live") == "off"
            await page.get_by_role("button", name=words["chat.end_now"]).click()
            await expect(heard).to_have_text(words["exchange.spoken_go_on"])
        await expect(news).to_have_text(f"{words['chat.answer']}: {words['state.done']}")


async def test_nothing_moves_for_who_wants_no_motion(
    chromium: Chromium, happened: Happened
) -> None:
    url = happened.find_url("exchange?id={held}")
    for motion, moves in (("no-preference", 1), ("reduce", 0)):
        async with chromium.open(url, reduced_motion=motion) as tab:
            await expect(tab.page.locator(".machine .lit")).to_be_visible()
            assert await count_animations(tab.page) == moves


READ_STYLE = """
(node) => {
  const { backgroundColor, color, outlineStyle, outlineWidth, outlineColor } = getComputedStyle(node);
  return { backgroundColor, color, outlineStyle, outlineWidth, outlineColor };
}
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_forced_colours_still_tell_things_apart(
    chromium: Chromium, happened: Happened, theme: str
) -> None:
    url = happened.find_url("jobs?id={failing}")
    async with chromium.open(url, theme=theme, forced_colors="active") as tab:
        page = tab.page
        await expect(page.locator(".detail .run")).to_be_visible()
        pairs = (
            ("a.item[aria-current]", "a.item:not([aria-current])"),
            (".chip[aria-pressed=true]", ".chip[aria-pressed=false] >> nth=0"),
            ("main button.primary", ".detail-bar button >> nth=1"),
        )
        for chosen, other in pairs:
            one = await page.locator(chosen).first.evaluate(READ_STYLE)
            two = await page.locator(other).first.evaluate(READ_STYLE)
            assert one["backgroundColor"] != two["backgroundColor"], chosen
            assert one["backgroundColor"] != one["color"]
        await page.keyboard.press("j")
        row = await page.locator(".w-row:focus").evaluate(READ_STYLE)
        assert (row["outlineStyle"], row["outlineWidth"]) == ("solid", "2px")
        assert row["outlineColor"] != row["backgroundColor"]


async def test_no_state_is_told_by_colour_alone(chromium: Chromium, happened: Happened) -> None:
    """Each has its own drawing, and its word beside it."""
    async with chromium.open("about:blank", forced_colors="active") as tab:
        # So tall that rows are there of all that other tests have done meanwhile.
        await tab.page.set_viewport_size({"width": 1440, "height": 4000})
        await tab.page.goto(happened.find_url(""))
        states = tab.page.locator(".live-list .w-row:not([hidden]) .state")
        await expect(states.nth(3)).to_be_visible()
        told = await states.evaluate_all(
            "(all) => all.map((one) => [one.firstChild.innerHTML, one.textContent])"
        )
    words = {word for _, word in told}
    assert words >= {WORDS["en"][f"state.{state}"] for state in ("holding", "done", "failed")}
    assert len({drawing for drawing, _ in told}) == len(words) == len(set(map(tuple, told)))


def read_colours() -> dict[str, tuple[str, str]]:
    """Return the colours of tokens.css: light and dark."""
    text = FOLDER.joinpath("tokens.css").read_text()
    return {name: (light, dark) for name, light, dark in COLOUR.findall(text)}


def find_luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def find_contrast(one: str, other: str) -> float:
    """Return how much two colours differ, from 1 to 21."""
    light, dark = sorted((find_luminance(one), find_luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


COLOURS = read_colours()
STATES = tuple(name for name in COLOURS if f"{name}-soft" in COLOURS)


class TestColours:
    """All pairs that meet, in both themes: text 4.5, fills 3."""

    def find_weak(self, front: str, backs: Sequence[str], least: float) -> list[str]:
        """Return the pairs that do not differ enough."""
        return [
            f"{front} on {back}, {theme}"
            for back in backs
            for theme, one, other in zip(
                ("light", "dark"), COLOURS[front], COLOURS[back], strict=True
            )
            if find_contrast(one, other) < least
        ]

    def test_contrast_is_computed_as_it_should(self) -> None:
        assert find_contrast("#000000", "#ffffff") == pytest.approx(21)
        assert find_contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)

    @pytest.mark.parametrize("ink", ["ink", "muted", "faint", *STATES])
    def test_text_on_every_surface(self, ink: str) -> None:
        assert self.find_weak(ink, SURFACES, 4.5) == []

    @pytest.mark.parametrize("state", STATES)
    def test_a_state(self, state: str) -> None:
        soft = f"{state}-soft"
        assert [self.find_weak(ink, (soft,), 4.5) for ink in (state, "ink", "muted")] == [[]] * 3
        assert self.find_weak(f"{state}-fill", (*SURFACES, soft), 3) == []

    def test_what_is_pressed_and_what_has_the_focus(self) -> None:
        assert self.find_weak("invert", ("ink",), 4.5) == []
        assert self.find_weak("focus", SURFACES, 3) == []
        assert self.find_weak("line2", ("paper", "panel", "raised"), 3) == []

    def test_there_are_eight_states(self) -> None:
        assert len(STATES) == 8


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.css")), ids=lambda path: str(path.name))
def test_every_block_of_a_style_sheet_is_closed(path: Path) -> None:
    """One that is not swallows all that follows it."""
    depth = 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith(("@media", "@container", "/*")):
            assert depth == 0, f"{path.name}:{number}"
        depth += line.count("{") - line.count("}")
    assert depth == 0


FEW_FONTS = """<?xml version="1.0"?>
<fontconfig><dir>{folder}</dir><cachedir>{cache}</cachedir></fontconfig>
"""
SHORT_WORDS = ("live", "live, more", "chat", "session, in force", "jobs, detail", "tools")


@pytest.fixture(scope="module")
def few_fonts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with the fonts that English needs."""
    home = tmp_path_factory.mktemp("fonts")
    asked = ("fc-match", "--format=%{file}", "sans:lang=en")
    found = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    written = home / "fonts.conf"
    written.write_text(FEW_FONTS.format(folder=Path(found).parent, cache=home / "cache"))
    return written


@pytest.mark.parametrize("look", [Look("dark", 390, "zh"), Look("light", 1440, "zh")], ids=str)
async def test_no_target_needs_a_chinese_font(
    happened: Happened, few_fonts: Path, look: Look
) -> None:
    """Without one each character is a narrow box, and "中文" was a button of 14 px."""
    sizes = TOUCH if look.width <= 760 else POINTER
    faults: list[str] = []
    async with (
        start_chromium(few_fonts) as chromium,
        chromium.open(
            "about:blank", language=look.language, theme=look.theme, width=look.width
        ) as tab,
    ):
        for scene in SCENES:
            if scene.name in SHORT_WORDS:
                await tab.page.goto(happened.find_url(scene.path))
                await expect(tab.page.locator(scene.ready).first).to_be_visible()
                if scene.act is not None:
                    await scene.act(tab.page, WORDS[look.language])
                faults += [f"{scene.name}: {one}" for one in await measure(tab.page, sizes)]
    assert [one for one in faults if "targets:" in one] == []
