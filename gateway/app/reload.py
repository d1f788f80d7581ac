"""Reads the configuration again while the gateway runs, and logs what came of it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NoReturn, Protocol

from anyio.to_thread import run_sync

from gateway.config import Config, ConfigError
from gateway.config.changes import ConfigChanges, apply_reloadable, compare
from gateway.logs import EventLog
from gateway.outbox.wakeup import Wakeup
from gateway.stores.documents import StoreUnavailable
from gateway.wire.tls import default_context

log = logging.getLogger("holdgate.config")
APPLIED, REFUSED = "applied", "refused"
NO_SOURCE = "this gateway was not started from a configuration file"
NO_FILE = "no file was read at the start, and there is still no holdgate.toml"
NO_STORE = "what was spent of budgets cannot be read; send SIGHUP again when the store works"
MOST_NAMED = 20

Use = Callable[[Config], Awaitable[None]]


class ReloadSource(Protocol):
    """Where the configuration is read again: a file, or what a parent process read."""

    def load_again(self, running: Config) -> Config:
        """Return the configuration as it is now, or raise `ConfigError`."""


class ConfigReloader:
    """Reads the configuration when it is asked to, and has it used; mistakes change nothing."""

    def __init__(self, source: ReloadSource | None, use: Use, event_log: EventLog) -> None:
        self._source = source
        self._use = use
        self._event_log = event_log
        self._wakeup = Wakeup()
        self.counts: Counter[str] = Counter()
        """How often the configuration was read again, by what came of it."""

    def request(self) -> None:
        """Read the configuration soon; requests that come meanwhile are one more reading."""
        self._wakeup.rouse()

    async def run(self, running: Config) -> NoReturn:
        """Reload whenever that is requested."""
        while True:
            await self._wakeup.wait()
            # Before the file is read: whoever changes it later asks for it to be read again.
            self._wakeup.look()
            running = await self._reload(running)

    async def _reload(self, running: Config) -> Config:
        """Read the configuration and use it; return what is used from now on."""
        if self._source is None:
            self.refuse([NO_SOURCE])
            return running
        try:
            # In a thread: to read and check a large file takes its time.
            read = partial(_read, self._source, running)
            config, changes = await run_sync(read, abandon_on_cancel=True)
            if not config.file:
                self.refuse([NO_FILE])
                return running
            await self._use(config)
        except ConfigError as error:
            self.refuse(map(str, error.problems), running.file)
            return running
        except StoreUnavailable as error:
            self.refuse([f"{NO_STORE}: {error.message}"], running.file)
            return running
        except Exception as error:
            # The outer loop of a reload: a bug must not end the gateway.
            log.exception("the configuration was not reloaded", exc_info=error)
            self.counts[REFUSED] += 1
            return running
        self._report(config, changes)
        return config

    def refuse(self, problems: Iterable[str], file: str = "") -> None:
        """Log why nothing changes: a line for each mistake."""
        self.counts[REFUSED] += 1
        for problem in problems:
            self._event_log.note("config_not_reloaded", file=file or None, problem=problem)

    def _report(self, config: Config, changes: ConfigChanges) -> None:
        self.counts[APPLIED] += 1
        lists = {**changes.tables, "limits_changed": changes.limits}
        named = {name: _join(found) for name, found in lists.items() if found}
        self._event_log.note("config_reloaded", file=config.file, **(named or {"changes": "none"}))
        if changes.restart:
            keys = ", ".join(changes.restart)
            self._event_log.note("config_needs_restart", file=config.file, keys=keys)


def _read(source: ReloadSource, running: Config) -> tuple[Config, ConfigChanges]:
    """Read the configuration; return what is to be used of it, and what that changes."""
    found = source.load_again(running)
    config = apply_reloadable(running, found)
    urls = [section.base_url for section in config.upstreams] + [h.url for h in config.webhooks]
    if any(url.startswith("https:") for url in urls):
        # Certificates are loaded once; here nobody waits for it.
        default_context()
    return config, compare(running, found)


def _join(names: tuple[str, ...]) -> str:
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return ", ".join([*names[:MOST_NAMED], *more])
