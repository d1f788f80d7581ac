"""What the feed says of the line itself: when it is up to date, and when the gateway leaves."""

from __future__ import annotations

from gateway.stores.documents import StoreUnavailable
from tests.console.words import FeedPage
from tests.gateway.wire import chat, hanging, streaming, text, turn
from tests.run import in_process
from tests.wire.fake import CHUNKED, chunk


async def test_the_first_beat_follows_the_first_state() -> None:
    """A page that has heard it knows that it has all, also if nothing changed while it was away."""
    async with in_process(None) as gate:
        page = await FeedPage.open(gate, "live,jobs")
        assert [await page.read() for _ in range(3)] == ["hello", "state", "beat"]
        again = await FeedPage.open(gate, "live,jobs", after=page.place, former=page)
        assert [await again.read() for _ in range(2)] == ["hello", "beat"]


async def test_the_epoch_is_that_of_the_process_whatever_is_read() -> None:
    async with in_process(None) as gate:
        pages = [await FeedPage.open(gate, topics) for topics in ("live", "live,jobs")]
        for page in pages:
            await page.read()
        assert pages[0].events[0][1]["epoch"] == pages[1].events[0][1]["epoch"]


async def test_while_it_drains_the_console_shows_what_is_still_open() -> None:
    async with in_process(hanging(CHUNKED, chunk(text("hel"))), server__drain_ms=5_000) as gate:
        client = await gate.start(chat(stream=True))
        await client.saw(b"hel")
        page = await FeedPage.open(gate, "live,summary")
        while not page.place:
            await page.read()
        gate.gateway.leave(lambda: None)
        while page.events[-1][0] != "beat" or not page.events[-1][1]["draining"]:
            await page.read()
        (row,) = page.rows["live"].values()
        assert row["state"] == "relaying"
        # Somebody else may still come to see.
        late = await FeedPage.open(gate, "live")
        await late.read()
        assert late.events[0][1]["draining"]
        while await page.read() != "bye":
            pass
        (row,) = page.rows["live"].values()
        assert (row["state"], row["code"]) == ("failed", "draining")


async def test_no_beat_says_that_figures_are_of_now_while_the_store_is_away() -> None:
    async with in_process(None) as gate:

        async def refuse(*_: object) -> None:
            raise StoreUnavailable("It is away.")

        gate.gateway.parts.rows.jobs.listing = refuse  # type: ignore[method-assign, assignment]
        page = await FeedPage.open(gate, "live,jobs")
        await page.read()
        summary = await FeedPage.open(gate, "live")
        assert [await summary.read() for _ in range(3)] == ["hello", "state", "beat"]
        assert [name for name, _ in page.events] == ["hello"]


async def test_a_session_tells_of_an_exchange_that_came_and_went() -> None:
    async with in_process(streaming(turn("hi"))) as gate:
        await gate.ask(chat(stream=True), "x-session-id: tea")
        page = await FeedPage.open(gate, "session:tea")
        while "session:tea" not in page.rows:
            await page.read()
        before = page.rows["session:tea"]["changed"]
        await gate.ask(chat(stream=True), "x-session-id: tea")
        while page.rows["session:tea"]["changed"] == before:
            await page.read()
