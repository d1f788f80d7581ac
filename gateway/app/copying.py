"""`holdgate copy`: from the configuration to two stores, and what is said of the copy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from gateway.app.shapes import SHAPES
from gateway.app.wiring import hooks_of
from gateway.config import Config
from gateway.errors import HoldgateError
from gateway.stores.copy_urls import CopySettings, open_copy_store
from gateway.stores.copying import ComparedTable, CopyStore, Tell, compare, copy_tables, is_empty
from gateway.stores.documents import OnQuarantine


class CopyFailed(HoldgateError):
    """The copy is not what the store was that was copied."""

    status, code = 503, "copy_failed"


@dataclass(frozen=True, slots=True)
class CopyOrder:
    """What is to be copied, and who hears of it."""

    source_url: str
    target_url: str
    resume: bool
    """Whether the target may have a part of it already."""
    tell: Tell
    on_quarantine: OnQuarantine
    """Hears of documents that can not be read; they are not copied."""


def copy_store(config: Config, order: CopyOrder) -> list[ComparedTable]:
    """Copy a store into another one; return what both have in the end, or raise."""
    return anyio.run(_copy, _settings_of(config, order.on_quarantine), order)


def _settings_of(config: Config, on_quarantine: OnQuarantine) -> CopySettings:
    hooks: dict[str, list[str]] = {}
    for hook in hooks_of(config):
        hooks.setdefault(hook.owner, []).append(hook.name)
    root = Path(config.server.session_dir)
    return CopySettings(root, config.store.schema, SHAPES, hooks, on_quarantine)


async def _copy(settings: CopySettings, order: CopyOrder) -> list[ComparedTable]:
    async with _open(order.source_url, settings, is_source=True) as source:
        async with _open(order.target_url, settings, is_source=False) as target:
            if not order.resume and not await is_empty(target):
                raise CopyFailed(
                    "The store to copy into is not empty. To go on with a copy that was "
                    "interrupted, add --resume; else empty it first."
                )
            await copy_tables(source, target, order.tell)
            compared = await compare(source, target)
            await source.check_alone()
            await target.check_alone()
    return compared


@asynccontextmanager
async def _open(url: str, settings: CopySettings, *, is_source: bool) -> AsyncIterator[CopyStore]:
    store = await open_copy_store(url, settings, is_source=is_source)
    try:
        await store.check_alone()
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()
