"""The rows of a PostgreSQL that instances share."""

from __future__ import annotations

from gateway.stores.conversation_rows import ConversationRows, LockRows, TalkRows
from gateway.stores.delivery_rows import DeliveryRows, EventLogRows, PostRows
from gateway.stores.job_rows import JobRows
from gateway.stores.postgres.chores import PostgresEndings
from gateway.stores.postgres.conversations import PostgresConversations
from gateway.stores.postgres.deliveries import PostgresDeliveries
from gateway.stores.postgres.jobs import PostgresJobs
from gateway.stores.postgres.locks import PostgresLocks
from gateway.stores.postgres.news import NewsWriter
from gateway.stores.postgres.operators import PostgresOperators
from gateway.stores.postgres.posts import PostgresPosts
from gateway.stores.postgres.services import SharedServices
from gateway.stores.postgres.usage import PostgresUsage
from gateway.stores.rows import UsageRows
from gateway.stores.shared_rows import SharedRows


class PostgresRows:
    """The `Rows` of a PostgreSQL; whoever opened the database closes it."""

    def __init__(self, services: SharedServices) -> None:
        news = NewsWriter()
        self.shared_jobs = PostgresJobs(services, news)
        talks = PostgresConversations(services)
        self.shared_locks = PostgresLocks(services)
        self.event_log: EventLogRows | None = None
        posts = PostgresPosts(services, news)
        self.posts: PostRows | None = posts
        self.operators: SharedRows = PostgresOperators(services, posts)
        self.endings = PostgresEndings(services)
        self.jobs: JobRows = self.shared_jobs
        self.conversations: ConversationRows = talks
        self.talks: TalkRows | None = talks
        self.locks: LockRows = self.shared_locks
        self.deliveries: DeliveryRows = PostgresDeliveries(services, news)
        self.usage: UsageRows = PostgresUsage(services)
        self._database = services.database

    async def check(self) -> None:
        """Raise `StoreUnavailable` if the database does not answer."""
        await self._database.check()

    async def aclose(self) -> None:
        """Do nothing: the database is closed with the documents."""
