"""What operators get over several instances, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.stores.chores import Chores
from gateway.stores.postgres.chores import PostgresChores, PostgresEndings
from gateway.stores.postgres.posts import PostgresPosts
from gateway.stores.postgres.services import SharedServices
from gateway.stores.postgres.statements import NOW_MS, PRUNED_AT_ONCE, write_prune
from gateway.stores.shared_rows import (
    CountsTable,
    Errand,
    ErrandRows,
    InstanceRow,
    InstanceRows,
    LimitCountRows,
    Outcome,
    OwnerCounts,
    SecretRows,
)

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS

KEEP = "INSERT INTO @secrets (name, secret) VALUES ($1, $2) ON CONFLICT DO NOTHING"
FIND_SECRET = "SELECT secret FROM @secrets WHERE name = $1"
LIST_INSTANCES = """SELECT id, process, host, build, until > clock_timestamp() AS is_living
    FROM @instances WHERE NOT buried ORDER BY host, id"""
# Of an instance whose lease has ended nobody knows whether anything runs.
EXCHANGE_COUNTS = """WITH mine AS (
        INSERT INTO @limit_counts (holder, owner, requests, tokens, running)
        SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::int[])
        ON CONFLICT (holder, owner) DO UPDATE SET requests = excluded.requests,
            tokens = excluded.tokens, running = excluded.running)
    SELECT c.holder, c.owner, c.requests, c.tokens,
        CASE WHEN i.until > clock_timestamp() THEN c.running ELSE 0 END AS running
    FROM @limit_counts c JOIN @instances i ON i.id = c.holder
    WHERE c.holder <> $1 AND NOT i.buried"""
ADD_ERRAND = f"""INSERT INTO @errands (id, process, exchange_id, action, scope, at_ms)
    SELECT $1, $2, $3, $4, $5, {NOW_MS} WHERE EXISTS (SELECT 1 FROM @instances
        WHERE process = $2 AND NOT buried AND until > clock_timestamp())
    ON CONFLICT DO NOTHING RETURNING 1"""
# Whoever asked does not wait so long.
TAKE_ERRANDS = f"""UPDATE @errands SET is_taken = true
    WHERE process = $1 AND NOT is_taken AND at_ms > {NOW_MS} - {MINUTE_MS}
    RETURNING id, process, exchange_id, action, scope"""
SETTLE_ERRAND = "UPDATE @errands SET outcome = $2 WHERE id = $1"
FIND_OUTCOME = "DELETE FROM @errands WHERE id = $1 AND outcome IS NOT NULL RETURNING outcome"
WITHDRAW = "DELETE FROM @errands WHERE id = $1"

PRUNE_TRAITS = write_prune("traits", "at_ms < $1")
PRUNE_ERRANDS = write_prune("errands", "at_ms < $1")
# An instance is deleted when nothing is left that it ran.
PRUNE_INSTANCES = write_prune(
    "instances",
    "buried AND until < to_timestamp($1 / 1000.0) AND NOT EXISTS ("
    " SELECT 1 FROM @runs r WHERE r.holder = @instances.id AND r.status = 'running')",
)
PRUNE_COUNTS = """DELETE FROM @limit_counts WHERE NOT EXISTS (
    SELECT 1 FROM @instances WHERE instances.id = limit_counts.holder AND NOT instances.buried)"""


class PostgresSecrets:
    """Secrets that all instances need."""

    def __init__(self, services: SharedServices) -> None:
        self._database = services.database

    async def keep(self, name: str, drawn: bytes) -> bytes:
        """Keep a secret if there is none yet; return the one that is kept."""
        rows = await self._database.ask(FIND_SECRET, name)
        if not rows:
            await self._database.run(KEEP, name, drawn)
            # Another instance may have been first.
            rows = await self._database.ask(FIND_SECRET, name)
        kept: bytes = rows[0]["secret"]
        return kept


class PostgresInstances:
    """The instances that share the store."""

    def __init__(self, services: SharedServices) -> None:
        self._database = services.database

    async def list_all(self) -> list[InstanceRow]:
        """Return those that are not buried."""
        return [InstanceRow(*row) for row in await self._database.ask(LIST_INSTANCES)]


class PostgresLimitCounts:
    """What each instance has counted for limits."""

    def __init__(self, services: SharedServices) -> None:
        self._database = services.database

    async def exchange(self, holder: str, counts: Mapping[str, OwnerCounts]) -> CountsTable:
        """Store what this instance counted; return what the others did."""
        columns = [[getattr(one, name) for one in counts.values()] for name in OwnerCounts._fields]
        rows = await self._database.ask(EXCHANGE_COUNTS, holder, list(counts), *columns)
        return {
            (row["holder"], row["owner"]): OwnerCounts(
                row["requests"], row["tokens"], row["running"]
            )
            for row in rows
        }


class PostgresErrands:
    """Errands that wait for an instance, and their outcomes."""

    def __init__(self, services: SharedServices) -> None:
        self._database = services.database

    async def add(self, errand: Errand) -> bool:
        """Ask for it; return False, and ask nobody, if there is no such instance."""
        values = (errand.id, errand.process, errand.exchange_id, errand.action, errand.scope)
        return bool(await self._database.ask(ADD_ERRAND, *values))

    async def take(self, process: str) -> Sequence[Errand]:
        """Return those that wait for a process; nobody gets them again."""
        return [Errand(*row) for row in await self._database.ask(TAKE_ERRANDS, process)]

    async def settle(self, errand_id: str, outcome: Outcome) -> None:
        """Say how an errand went."""
        await self._database.run(SETTLE_ERRAND, errand_id, outcome)

    async def find_outcome(self, errand_id: str) -> Outcome | None:
        """Return how an errand went, and forget it; None: not known yet."""
        rows = await self._database.ask(FIND_OUTCOME, errand_id)
        return rows[0]["outcome"] if rows else None

    async def withdraw(self, errand_id: str) -> None:
        """Forget an errand that took too long."""
        await self._database.run(WITHDRAW, errand_id)


class PostgresOperators:
    """The `SharedRows` of a PostgreSQL."""

    def __init__(self, services: SharedServices, posts: PostgresPosts) -> None:
        self._services = services
        self._posts = posts
        self._endings = PostgresEndings(services)
        self.chores: Chores = PostgresChores(services)
        self.secrets: SecretRows = PostgresSecrets(services)
        self.instances: InstanceRows = PostgresInstances(services)
        self.limit_counts: LimitCountRows = PostgresLimitCounts(services)
        self.errands: ErrandRows = PostgresErrands(services)

    async def tidy(self) -> int:
        """Delete some of what is too old to matter; return how many rows."""
        now_ms, database = self._services.instance.now_ms(), self._services.database
        day_ago = now_ms - DAY_MS
        done = await self._endings.prune(day_ago) + await self._posts.prune(day_ago)
        done += await database.run(PRUNE_TRAITS, day_ago, PRUNED_AT_ONCE)
        done += await database.run(PRUNE_ERRANDS, now_ms - MINUTE_MS, PRUNED_AT_ONCE)
        done += await database.run(PRUNE_INSTANCES, day_ago, PRUNED_AT_ONCE)
        return done + await database.run(PRUNE_COUNTS)
