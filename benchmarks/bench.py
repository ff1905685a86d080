"""Every figure that has a target, beside it, in one run: into the first table of benchmarks/RESULTS.md.

    python benchmarks/bench.py [--only refused startup …] [--json FILE] [--markdown FILE]

About an hour. Each measurement is a script of this folder in a process of its own; one that fails is a line of the
table, and the others go on. In the Markdown file only what stands between the two marks is replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ingest import median, ratios
from refused import median as median_of_share
from refused import ratios as ratios_of_shares
from rich.console import Console
from rich.markdown import Markdown

HERE = Path(__file__).parent
BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"


@dataclass(frozen=True)
class Figure:
    """A figure of a measurement.

    Attributes:
        name: what it is, with its unit if it is no ratio.
        value: of what the script wrote as JSON.
        target: the most, or if `is_least` the least, that is aimed at; None: no target.
        before: what it was on 2026-11-23, on Spark 4.1, mostly on another machine; None: not measured then.
    """

    name: str
    value: Callable[[Any], float]
    target: float | None
    before: float | None = None
    is_least: bool = False

    def met(self, value: float) -> str:
        """Whether the target is met, in a word."""
        if self.target is None:
            return ""
        return "yes" if (value >= self.target if self.is_least else value <= self.target) else "no"


@dataclass(frozen=True)
class Measurement:
    """A call of a script, and what is taken from its figures."""

    name: str
    command: tuple[str, ...]
    figures: tuple[Figure, ...]


def _topic(
    cell: str, aims: tuple[float, float], before: tuple[float, float], cpu: tuple[float, float] | None = None
) -> Measurement:
    """A clean topic beside the bare job: `aims` and `before` are wall and CPU ratios; `cpu`: target, before, in s/M."""
    shape, format, _ = cell.split("/")
    figures = tuple(
        Figure(f"{shape} {format} / the bare job: {name}", _ratio(index), aims[index], before[index])
        for index, name in enumerate(("wall", "CPU"))
    )
    if cpu:
        figures += (Figure(f"{shape} {format}: CPU, s a million records", _cpu_per_million, *cpu),)
    # Three million narrow records: a part of what a run costs once is in each, and is no record's.
    records = ("--records", "3000000") if shape == "narrow" else ()
    command = ("ingest.py", "--only", cell, "--ways", "lakeingest", "bare", "--old", "--rounds", "4", *records)
    return Measurement(f"ingest {cell}", command, figures)


def _ratio(index: int) -> Callable[[Any], float]:
    return lambda rounds: ratios(rounds)["bare"][index]


def _cpu_per_million(rounds: Any) -> float:
    return median(rounds, "lakeingest", "cpu_s") / rounds[0]["records"] * 1e6


def _dirty(format: str, records: int, rounds: int, shares: Mapping[float, float | None], row: int = 1) -> Measurement:
    """Batches with bad records beside clean ones; `shares`: share of bad ones → target of both ratios."""
    figures = tuple(
        Figure(f"{format}, {records:,} records, {share:.1%} bad / clean: {name}", _share(share, index), target)
        for share, target in shares.items()
        for index, name in enumerate(("wall", "CPU"))
    )
    if 1.0 in shares:
        figures += (Figure(f"{format}, {records:,} records, all bad: memory, MiB", _all_bad_mib, None),)
    size = ("--records", str(records), "--rounds", str(rounds), "--row", str(row))
    command = ("refused.py", "--format", format, *size, "--shares", *map(str, shares))
    return Measurement(f"refused {format} {records}", command, figures)


def _share(share: float, index: int) -> Callable[[Any], float]:
    return lambda batches: ratios_of_shares(batches)[share][index]


def _all_bad_mib(batches: Any) -> float:
    return median_of_share(batches, 1.0, "peak_mib")


def _field(name: str) -> Callable[[Any], float]:
    return lambda figures: float(figures[name])


def _seconds(name: str) -> Callable[[Any], float]:
    return lambda seconds: statistics.median(seconds[name])


def _triggers(fleets: Any) -> float:
    return float(fleets[0]["triggers_kept"].partition(" ")[0])


MEASUREMENTS = (
    _topic("narrow/json/0.0", (0.9, 0.9), (0.82, 0.92), (5.0, 6.9)),
    _topic("narrow/avro/0.0", (0.9, 0.9), (0.83, 0.99), (3.9, 4.8)),
    _topic("wide/json/0.0", (0.9, 1.0), (1.23, 1.40)),
    _topic("wide/avro/0.0", (0.9, 1.0), (1.27, 1.42)),
    _topic("nested/json/0.0", (0.9, 1.0), (0.99, 1.25)),
    _topic("nested/avro/0.0", (0.9, 1.0), (1.02, 1.29)),
    _topic("large/json/0.0", (0.9, 1.0), (0.92, 1.62)),
    _dirty("json", 1_000_000, 4, {0.001: 1.08, 0.01: 1.08, 0.1: 1.25, 1.0: None}),
    _dirty("avro", 1_000_000, 4, {0.001: 1.08, 0.01: 1.08, 0.1: 1.25}),
    _dirty("json", 1_000, 15, {0.01: 1.3}, row=5),
    Measurement(
        "small",
        ("small.py",),
        (
            Figure("1,000 records a second: readable after, s, median", _field("late_p50_s"), 1.0, 1.2),
            Figure("1,000 records a second: readable after, s, 95 %", _field("late_p95_s"), 2.0, 2.4),
        ),
    ),
    Measurement(
        "small dirty",
        ("small.py", "--share", "0.01"),
        (
            Figure("the same, 1 % bad: readable after, s, median", _field("late_p50_s"), 1.0),
            Figure("the same, 1 % bad: readable after, s, 95 %", _field("late_p95_s"), 2.0),
        ),
    ),
    Measurement(
        "startup",
        ("startup.py",),
        (
            Figure("prompt to first commit, new table, s", _seconds("lakeingest, new table"), 7.0, 11.5),
            Figure("prompt to first commit, old table, s", _seconds("lakeingest, old table"), 7.0, 12.0),
            Figure("one append by hand, new table, s", _seconds("by hand, new table"), None, 7.5),
            Figure("the demo's flights, prompt to end, s", _seconds("flights"), 25.0, 52.0),
        ),
    ),
    Measurement(
        "fleet",
        ("fleet.py", "--pipelines", "50"),
        (Figure("pipelines of 50 that keep a trigger of 10 s", _triggers, 50.0, 0.0, is_least=True),),
    ),
)


def measured(measurement: Measurement) -> Any:
    """What the script writes as JSON; None if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        file, begun = Path(folder) / "figures.json", time.monotonic()
        script, *options = measurement.command
        print(f"{measurement.name}: python benchmarks/{' '.join(measurement.command)}", file=sys.stderr, flush=True)
        command = [sys.executable, str(HERE / script), *options, "--json", str(file)]
        ended = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        print(f"  exit code {ended.returncode} after {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        return None if ended.returncode else json.loads(file.read_text(encoding="utf-8"))


def lines(measurement: Measurement, result: Any) -> Iterator[tuple[str, str, str, str, str]]:
    """The rows of the table: figure, before, value, target, whether it is met."""
    for figure in measurement.figures:
        before, target = ("" if number is None else f"{number:g}" for number in (figure.before, figure.target))
        try:
            value = figure.value(result)
        # A script that failed has no figures; of a way that failed some are missing.
        except (KeyError, TypeError):
            yield figure.name, before, "failed", target, "no"
        else:
            yield figure.name, before, f"{value:,.2f}", target, figure.met(value)


def table(results: Mapping[str, Any]) -> str:
    """All that was measured, as Markdown."""
    rows = [("", "before", "now", "target", "met"), ("---", "---:", "---:", "---:", "---")]
    for measurement in MEASUREMENTS:
        if measurement.name in results:
            rows += lines(measurement, results[measurement.name])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="those whose names begin so: 'ingest narrow', refused, small, …")
    parser.add_argument("--json", type=Path, help="a file for all that was measured")
    parser.add_argument("--markdown", type=Path, help="a file in whose marks the table is written")
    arguments = parser.parse_args()
    chosen = tuple(arguments.only or [""])
    results: dict[str, Any] = {}
    for measurement in MEASUREMENTS:
        if measurement.name.startswith(chosen):
            results[measurement.name] = measured(measurement)
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    made = f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}"
    text = f"{made}\n\n{table(results)}"
    if arguments.markdown:
        page = arguments.markdown.read_text(encoding="utf-8")
        head, tail = page.partition(BEGIN)[0], page.partition(END)[2]
        arguments.markdown.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")
    Console(width=140, highlight=False).print(Markdown(text))


if __name__ == "__main__":
    main()
