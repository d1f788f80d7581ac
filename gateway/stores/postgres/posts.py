"""Posts of events to webhooks, on PostgreSQL: a row for each, made with its event.

An instance takes the post with the lowest number of each session, and nobody else posts for that
session and hook until it is settled or delayed, or that instance is buried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.stores.delivery_rows import Post, SessionEvent
from gateway.stores.postgres.news import NewsWriter
from gateway.stores.postgres.services import SharedServices
from gateway.stores.postgres.statements import PRUNED_AT_ONCE, is_free, write_prune

TAKE = f"""WITH taken AS (
        SELECT p.hook, p.owner, p.session, p.seq FROM @posts p
        WHERE p.hook = ANY ($2) AND p.at_ms <= $3
            AND (p.holder IS NULL OR {is_free("p.holder")})
            AND NOT EXISTS (SELECT 1 FROM @posts e WHERE e.hook = p.hook
                AND e.owner = p.owner AND e.session = p.session AND e.seq < p.seq)
        ORDER BY p.at_ms LIMIT $4 FOR UPDATE SKIP LOCKED),
    held AS (
        UPDATE @posts p SET holder = $1, tries = tries + 1 FROM taken
        WHERE (p.hook, p.owner, p.session, p.seq)
            = (taken.hook, taken.owner, taken.session, taken.seq)
        RETURNING p.*)
    SELECT held.hook, held.tries, held.owner, held.session, held.seq, e.kind, e.key, e.at_ms, e.data
    FROM held LEFT JOIN @events e ON e.owner = held.owner AND e.session = held.session
        AND e.seq = held.seq
    ORDER BY held.at_ms, held.seq"""
OF_POST = "hook = $1 AND owner = $2 AND session = $3 AND seq = $4 AND holder = $5"
SETTLE = f"DELETE FROM @posts WHERE {OF_POST}"
DELAY = f"UPDATE @posts SET holder = NULL, at_ms = $6 WHERE {OF_POST}"
NEXT = "SELECT min(at_ms) AS at_ms FROM @posts WHERE hook = ANY ($1) AND holder IS NULL"
PRUNE = write_prune("posts", "at_ms < $1")


class PostgresPosts:
    """The posts that are due."""

    def __init__(self, services: SharedServices, news: NewsWriter) -> None:
        self._services = services
        self._database = services.database
        self._news = news

    def use_hooks(self, hooks: Mapping[str, Sequence[str]]) -> None:
        """From now on, events of these owners get a post to each of their hooks."""
        self._news.hooks = hooks

    async def take_posts(self, hooks: Sequence[str], now_ms: int, limit: int) -> list[Post]:
        """Take posts that are due, the lowest number of each session first."""
        values = (self._services.instance.id, list(hooks), now_ms, limit)
        posts: list[Post] = []
        for row in await self._database.ask(TAKE, *values):
            whose = (row["owner"], row["session"])
            event = SessionEvent(
                *whose,
                row["kind"] or "",
                row["key"] or "",
                row["at_ms"] or 0,
                row["data"] or b"",
                row["seq"],
            )
            if row["kind"] is None:
                # The event was deleted meanwhile.
                await self.settle_post(Post(row["hook"], event, row["tries"]))
            else:
                posts.append(Post(row["hook"], event, row["tries"]))
        return posts

    async def settle_post(self, post: Post) -> bool:
        """Delete a post that was accepted or given up; return False if it was not ours."""
        return await self._database.run(SETTLE, *self._name(post)) > 0

    async def delay_post(self, post: Post, at_ms: int) -> bool:
        """Post it again at a time, by whichever instance; return False if it was not ours."""
        return await self._database.run(DELAY, *self._name(post), at_ms) > 0

    async def next_post_ms(self, hooks: Sequence[str]) -> int | None:
        """Return when the next post is due that nobody has taken."""
        rows = await self._database.ask(NEXT, list(hooks))
        at_ms: int | None = rows[0]["at_ms"]
        return at_ms

    async def prune(self, before_ms: int) -> int:
        """Delete posts that are older; return how many."""
        return await self._database.run(PRUNE, before_ms, PRUNED_AT_ONCE)

    def _name(self, post: Post) -> tuple[str | int, ...]:
        event = post.event
        me = self._services.instance.id
        return (post.hook, event.owner, event.session, event.seq, me)
