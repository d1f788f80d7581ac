"""The rows of live exchanges: what is filled in is what a whole row would say."""

from __future__ import annotations

import time

import anyio
import msgspec

from gateway.console.feed import TopicRows, VersionCounter
from gateway.console.live_board import LiveBoard
from gateway.console.topics import LiveTopic, RowTemplate
from tests.gateway.wire import DONE, ask_of, chat, event, text
from tests.run import in_process
from tests.wire.fake import CHUNKED, LAST, Peer, chunk

NAMES = 'a,"bytes":1,"version":2}'


class WordByWord:
    """An upstream that says a word when it is told to."""

    def __init__(self) -> None:
        self.send, self._words = anyio.create_memory_object_stream[bytes](10)

    async def play(self, peer: Peer) -> None:
        """Answer one request."""
        await peer.request()
        await peer.send(CHUNKED)
        async with self._words:
            async for word in self._words:
                await peer.send(word)


class Rows(TopicRows):
    """Rows that can be read."""

    def read(self, key: str) -> bytes:
        """Return a row as it was put last."""
        return self._rows[key][1]


def write_whole(board: LiveBoard) -> dict[str, bytes]:
    """Write the rows of all live exchanges from nothing."""
    found = (board.sum_up(*one) for one in board.iterate_live(None))
    return {one.summed.info.exchange_id: msgspec.json.encode(one.show_row()) for one in found}


async def test_a_row_that_is_filled_in_is_the_whole_row() -> None:
    model = WordByWord()
    async with in_process(model.play) as gate:
        board = gate.gateway.parts.console.board
        topic, rows = LiveTopic(board, None, time.monotonic), Rows(VersionCounter())
        client = await gate.connect()
        # A name that looks like what is filled in.
        await client.send(ask_of(chat("hello"), f"x-session-id: {NAMES}", f"x-request-id: {NAMES}"))
        template: RowTemplate | None = None
        for number in range(6):
            word = f"word{number} "
            await model.send.send(chunk(text(word)))
            await client.saw(word.strip().encode())
            await board.sample_all()
            await topic.update(rows)
            (whole,) = write_whole(board).items()
            assert rows.read(whole[0]) == whole[1]
            ((runner, trail),) = board.iterate_live(None)
            if template is not None:
                # Only what came since is filled in.
                assert template.fill(trail, runner.bytes) == whole[1]
            row = board.sum_up(runner, trail).show_row()
            assert (row.state, row.session) == ("relaying", NAMES)
            template = template or RowTemplate.of(trail, row, whole[1])
            assert template is not None
        await model.send.send(chunk(event({}, "stop") + DONE) + LAST)
        await model.send.aclose()
        await client.saw(b"[DONE]")
        with anyio.fail_after(60):
            await gate.gateway.exchanges.idle()
        assert template is not None
        assert template.fill(trail, runner.bytes) is None
        await topic.update(rows)
        assert msgspec.json.decode(rows.read(whole[0]))["state"] == "done"
