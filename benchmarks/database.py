"""Change events of a real PostgreSQL: Debezium's own rate beside that of the pipelines that read them.

    python benchmarks/database.py [--rows 200000] [--json FILE]

Debezium makes a snapshot of a table, and then the events of an UPDATE of each row, a thousand rows a transaction: the
time runs until Kafka has all of them. Then the same two batches are read: by mode upsert and by mode append with
decode.envelope; and, as plain JSON of the same rows with a declared order, by mode upsert without an envelope. The
first batch makes the table. PostgreSQL, Connect, Kafka, S3 and Spark share the machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from embedded import embedded  # noqa: E402
from support.pipelines import config_of  # noqa: E402
from support.records import create_topic, produce  # noqa: E402
from support.servers.databases import Database, postgres  # noqa: E402
from support.servers.debezium import JSON_WITH_SCHEMA, connect_worker, postgres_connector  # noqa: E402
from upsert import of_batch  # noqa: E402

from lakeingest.local import Addresses  # noqa: E402
from lakeingest.pipeline import Pipeline  # noqa: E402

PREFIX, PLAIN = "bench", "plain"
TABLE = "public.orders"
EVENTS = f"{PREFIX}.{TABLE}"
COLUMNS = "id BIGINT, status STRING, customer STRING, amount DECIMAL(10,2), at TIMESTAMP, place BIGINT"
_IN_TRANSACTION = 1000
_ENVELOPE = {"value": {"format": "connect_json"}, "envelope": {"format": "debezium"}}
WAYS: dict[str, dict[str, Any]] = {
    "upsert, events": {"decode": _ENVELOPE, "schema": None, "table": {"mode": "upsert", "keys": ["id"]}},
    "append, events": {"decode": _ENVELOPE, "schema": None},
    "upsert, plain JSON": {
        "schema": {"columns": COLUMNS},
        "table": {"mode": "upsert", "keys": ["id"], "order_by": ["place"]},
    },
}


def measured(stack: Addresses, folder: Path, rows: int) -> list[dict[str, Any]]:
    """Of each step and way: seconds, CPU seconds (of Spark's alone) and events a second."""
    figures = list[dict[str, Any]]()

    def note(step: str, way: str, **spent: float) -> None:
        figures.append({"step": step, "way": way, **spent, "events_s": rows / spent["seconds"]})
        print(f"  {figures[-1]}", file=sys.stderr, flush=True)

    pipelines = {way: pipeline(stack, way, 2 * rows) for way in WAYS}
    with postgres(folder) as database, connect_worker(stack, folder, JSON_WITH_SCHEMA) as worker:
        fill(database, rows)
        for topic in (EVENTS, PLAIN):
            create_topic(stack, topic)
        options = {"table.include.list": TABLE}
        steps: dict[str, Callable[[], None]] = {
            "snapshot": lambda: worker.put(PREFIX, postgres_connector(database, PREFIX, options)),
            "updates": lambda: update(database, rows),
        }
        for step, change in steps.items():
            end = pipelines["upsert, events"].source.topics().last[EVENTS, 0] + rows
            begun = time.monotonic()
            change()
            await_end(pipelines["upsert, events"], end)
            note(step, "Debezium", seconds=time.monotonic() - begun)
            produce(stack, PLAIN, plain(database), 1)
            for way, each in pipelines.items():
                note(step, way, **of_batch(each))
    return figures


def pipeline(stack: Addresses, way: str, most: int) -> Pipeline:
    """That of a way, with everything in one batch."""
    name = way.replace(", ", "_").replace(" ", "_")
    options = WAYS[way]
    topic = EVENTS if "decode" in options else PLAIN
    return Pipeline(config_of(stack, name, source={"topics": [topic]}, trigger={"max_records": most}, **options))


def fill(database: Database, rows: int) -> None:
    """The table in the database."""
    database.execute(
        f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, status text, customer text, amount numeric(10,2), "
        "at timestamptz, place bigint)",
        f"INSERT INTO {TABLE} SELECT n, 'new', 'customer ' || n % 100000, n % 100000 / 100.0, "
        f"now() - n * interval '1 second', n FROM generate_series(1, {rows}) AS n",
    )


def update(database: Database, rows: int) -> None:
    """A change of each row, in transactions of a thousand."""
    database.execute(
        *(
            f"UPDATE {TABLE} SET status = 'paid', place = place + {rows} "
            f"WHERE id BETWEEN {low + 1} AND {low + _IN_TRANSACTION}"
            for low in range(0, rows, _IN_TRANSACTION)
        )
    )


def plain(database: Database) -> Iterator[bytes]:
    """The rows as records without an envelope."""
    names = [name.split()[0] for name in COLUMNS.replace("(10,2)", "").split(", ")]
    for row in database.rows(f"SELECT id, status, customer, amount::text, at, place FROM {TABLE} ORDER BY id"):
        values = dict(zip(names, row, strict=True))
        yield json.dumps({**values, "at": values["at"].isoformat()}).encode()


def await_end(pipeline: Pipeline, end: int) -> None:
    """Until Kafka has so many records."""
    while pipeline.source.topics().last[EVENTS, 0] < end:
        time.sleep(0.1)


def table(figures: list[dict[str, Any]]) -> str:
    """A line for each step and way."""
    lines = [f"{'':10} {'':20} {'events/s':>10} {'of Debezium':>12} {'CPU s':>8}"]
    rates = {figure["step"]: figure["events_s"] for figure in figures if figure["way"] == "Debezium"}
    for each in figures:
        share = each["events_s"] / rates[each["step"]]
        lines.append(
            f"{each['step']:10} {each['way']:20} {each['events_s']:10,.0f} {share:12.2f} {each.get('cpu_s', 0):8.1f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Bring up a stack of its own, a database and Connect, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="of the table")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    with embedded() as (stack, folder):
        figures = measured(stack, folder, arguments.rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(table(figures))


if __name__ == "__main__":
    main()
