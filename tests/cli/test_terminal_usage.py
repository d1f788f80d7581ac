"""`holdgate usage`, as a person meets it, before a real gateway."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from gateway.__main__ import main
from gateway.cli.usage import write_usage
from tests.test_command_line import serving

OWNERS = {"ann": False, "bob": False, "cid": False, "root": True}
BUDGETS = {"cid": "2.5M tokens/day"}
MODELS = [
    {"name": "priced", "routes": ["demo/demo"], "price": {"input": 1000, "output": 1000}},
    {"name": "free", "routes": ["demo/demo"]},
]
SETTINGS = {
    "HOLDGATE_STORE__URL": "memory:",
    "HOLDGATE_MODELS": json.dumps(MODELS),
    "HOLDGATE_KEYS": json.dumps(
        [
            {
                "owner": owner,
                "key_sha256": hashlib.sha256(owner.encode()).hexdigest(),
                "admin": admin,
                "budget": BUDGETS.get(owner, ""),
            }
            for owner, admin in OWNERS.items()
        ]
    ),
}
Show = Callable[..., str]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("gate"), **SETTINGS) as gate:
        for owner, model in (("ann", "free"), ("ann", "priced"), ("bob", "free")):
            body = {"model": model, "messages": [{"role": "user", "content": "demo: tokens=3"}]}
            headers = {"authorization": f"Bearer {owner}"}
            answer = httpx.post(f"{gate.url}/v1/chat/completions", json=body, headers=headers)
            assert answer.json()["usage"]
        yield gate.url


@pytest.fixture
def show(
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Show:
    """Show what an owner used; the answer is granted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDGATE_URL", url)
    monkeypatch.delenv("HOLDGATE_KEY", raising=False)

    def shown(owner: str, *arguments: str) -> str:
        assert main(["usage", "--key", owner, *arguments]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return shown


def cells(table: str) -> list[list[str]]:
    """Read the rows below the heading of a table."""
    return [line.split() for line in table.splitlines()[2:]]


def test_one_sees_what_one_used(show: Show) -> None:
    table = show("ann")
    period, heading, row = table.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-01T00:00:00.000Z to \d{4}-\d\d-\d\dT\d\d:00:00.000Z", period)
    assert heading.split()[:3] == ["EXCHANGES", "TURNS", "REPORTED"]
    assert row.split()[:3] == ["2", "2", "2"]
    assert float(row.split()[-1]) > 0


def test_groups_are_columns(show: Show) -> None:
    table = show("ann", "--group-by", "model")
    assert table.splitlines()[1].split()[0] == "MODEL"
    free, priced = cells(table)
    assert (free[:2], free[-1]) == (["free", "1"], "-")
    assert priced[:2] == ["priced", "1"]


def test_an_admin_sees_all(show: Show) -> None:
    rows = cells(show("root", "--group-by", "owner"))
    assert [row[:2] for row in rows] == [["ann", "2"], ["bob", "1"]]
    rows = cells(show("root", "--group-by", "owner", "--owner", "bob"))
    assert [row[:2] for row in rows] == [["bob", "1"]]


def test_times(show: Show) -> None:
    table = show(
        "ann", "--from", "2020-01-01", "--to", "2020-01-02T00:00:00Z", "--group-by", "hour"
    )
    assert table == "2020-01-01T00:00:00.000Z to 2020-01-02T00:00:00.000Z\nNothing was used.\n"


def test_as_json(show: Show) -> None:
    told = json.loads(show("root", "--group-by", "owner,model", "--json"))
    assert [(one["owner"], one["model"]) for one in told["data"]] == [
        ("ann", "free"),
        ("ann", "priced"),
        ("bob", "free"),
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--from", "May"), "holdgate: --from must be a date such as"),
        (("--group-by", "day"), "holdgate: --group-by must be one or more of owner, model"),
        (("--owner", "bob"), "holdgate: Only an admin's key may ask for the usage of others"),
        (("--key", "wrong"), "holdgate: This key is not known to the gateway."),
        (("--key", ""), "holdgate: the gateway needs a key; give one with --key or HOLDGATE_KEY."),
    ],
)
def test_refusals_name_the_option(
    show: Show, capsys: pytest.CaptureFixture[str], arguments: tuple[str, str], sentence: str
) -> None:
    assert main(["usage", "--key", "ann", *arguments]) == 1
    out, err = capsys.readouterr()
    assert (out, err.startswith(sentence)) == ("", True), err


def test_numbers_stand_below_each_other_and_long_names_are_cut() -> None:
    numbers = ("exchanges", "turns", "reported_turns", "input_tokens", "cached_tokens")
    more = ("output_tokens", "reasoning_tokens")
    small = {"model": "m" * 50, **dict.fromkeys((*numbers, *more), 1), "cost_usd": None}
    large = {**small, "model": "n", "input_tokens": 1_234_567, "cost_usd": 1.5}
    wide = write_usage([small, large], None).splitlines()
    assert len({len(line) for line in wide}) == 1
    assert "1,234,567" in wide[2]
    assert wide[2].endswith("1.500000")
    narrow = write_usage([small, large], 100).splitlines()
    assert max(map(len, narrow)) <= 100
    assert "…" in narrow[1]


def test_one_sees_what_is_left_of_a_budget(show: Show) -> None:
    last = show("cid").splitlines()[-1]
    assert last.startswith("0 of 2,500,000 tokens are spent; the budget begins again at 2")
    assert last.endswith("T00:00:00.000Z.")
    # Whoever has none hears of none, and neither does who asks for all owners.
    assert "budget" not in show("ann") + show("root")
    assert "budget begins again" in show("root", "--owner", "cid")
