"""The rules that a page of metrics has to keep, as Prometheus' documentation and linters say them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

TYPES = {"counter", "gauge", "histogram"}
# A name is in base units, and says neither its type nor what only samples of a histogram have.
NOT_BASE_UNITS = {"ms", "us", "ns", "milliseconds", "minutes", "hours", "kb", "mb", "percent"}
NOT_IN_NAMES = TYPES | {"metric", "summary"}
RESERVED_ENDINGS = ("_bucket", "_count", "_sum", "_created")
RESERVED_LABELS = {"le", "quantile", "job", "instance"}


def read_families(page: str) -> dict[str, Metric]:
    """Read a page of metrics, by name; counters are named without `_total`."""
    return {family.name: family for family in text_string_to_metric_families(page)}


def read_labels(page: str) -> dict[str, set[str]]:
    """Return the labels of each metric that has samples; counters are named with `_total`."""
    found: dict[str, set[str]] = {}
    for family in read_families(page).values():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        for sample in family.samples:
            found.setdefault(name, set()).update(set(sample.labels) - {"le"})
    return found


def find_mistakes(page: str) -> list[str]:
    """Return each way in which the page breaks a rule."""
    lines = [line for line in page.splitlines() if line and not line.startswith("#")]
    series = Counter(line.rpartition(" ")[0] for line in lines)
    found = [f"{name} is there {count} times" for name, count in series.items() if count > 1]
    for line in page.splitlines():
        if line.startswith("# HELP ") and not re.fullmatch(r"# HELP \w+ [A-Z].*\.", line):
            found.append(f"{line} is not a sentence")
    for family in read_families(page).values():
        found += [f"{family.name} {mistake}" for mistake in _find_name_mistakes(family)]
        found += [f"{family.name} {mistake}" for mistake in _find_label_mistakes(family)]
    return found


def _find_name_mistakes(family: Metric) -> Iterator[str]:
    words = set(family.name.split("_"))
    if not re.fullmatch(r"holdgate(_[a-z]+)+", family.name):
        yield "is not in lower case with our prefix"
    if family.type not in TYPES:
        yield f"is of type {family.type}"
    if not family.documentation:
        yield "has no help"
    if words & NOT_BASE_UNITS or words & NOT_IN_NAMES:
        yield "says a type or a unit that is not a base unit"
    if family.name.endswith(RESERVED_ENDINGS) or "total" in words:
        yield "ends like a part of another metric"
    if family.type == "histogram" and not family.name.endswith("_seconds"):
        yield "is a histogram of no unit"
    if family.type == "counter" and any(not s.name.endswith("_total") for s in family.samples):
        yield "is a counter without _total"


def _find_label_mistakes(family: Metric) -> Iterator[str]:
    counts: dict[str, list[float]] = {}
    for sample in family.samples:
        labels = dict(sample.labels)
        is_bucket = family.type == "histogram" and sample.name.endswith("_bucket")
        if is_bucket:
            del labels["le"]
            counts.setdefault(str(labels), []).append(sample.value)
        if set(labels) & RESERVED_LABELS or not all(re.fullmatch("[a-z_]+", one) for one in labels):
            yield f"has the labels {sorted(labels)}"
        if sample.name.endswith("_count") and counts[str(labels)][-1] != sample.value:
            yield "counts another number than its last bucket"
    if any(found != sorted(found) for found in counts.values()):
        yield "has buckets that do not add up"
