"""Whatever is asked, the gateway answers as it is described, and never with a fault of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis

from tests.openapi.living import Gate, lively
from tests.openapi.strangers import check, described

# Those under the other name, and for admins, are the same, and what changes a job is read as what
# makes one is; a few requests show that they are there.
AGAIN = "^/(wunder|api/admin)/|/cron/update$"
OWN = described(examples=5, coverage=True).exclude(path_regex=AGAIN)
OTHERS = described(examples=4, coverage=False).include(path_regex=AGAIN)
LONG = described(examples=100, coverage=True)


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    with lively(tmp_path_factory.mktemp("gate")) as gate:
        yield gate


@OWN.parametrize()
def test_strangers(case: schemathesis.Case[Any], gate: Gate) -> None:
    check(case, gate)


@OTHERS.parametrize()
def test_a_few_strangers(case: schemathesis.Case[Any], gate: Gate) -> None:
    check(case, gate)


@pytest.mark.long
@LONG.parametrize()
def test_many_strangers(case: schemathesis.Case[Any], gate: Gate) -> None:
    check(case, gate)
