"""The notebooks, and what each of them says when it is run."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[3] / "notebooks"
NAMES = sorted(file.stem for file in FOLDER.glob("*.ipynb"))
SAYS: dict[str, tuple[str, ...]] = {
    "01_first_pipeline": (
        "Counts(consumed=3000, accepted=2997, refused=3, dropped=0)",
        "Counts(consumed=1, accepted=1, refused=0, dropped=0)",
        "first_pipeline: conserved, 3,001 consumed = 2,998 in the table + 3 in quarantine + 0 dropped",
    ),
    "02_explore_a_table": (
        "{1: 1000, 2: 1999, 3: 2997}",
        "TableFiles(count=9",
        "TableFiles(count=3",
        "explore: conserved, 3,000 consumed = 2,997 in the table + 3 in quarantine + 0 dropped",
    ),
    "03_quarantine_and_repair": (
        "Counts(consumed=400, accepted=296, refused=104, dropped=0)",
        "<Replayed 104 refused records looked at, 96 pass, 8 stay>",
        "(8, [])",
        "repair: conserved, 400 consumed = 392 in the table + 8 in quarantine + 0 dropped",
    ),
    "04_schema_evolution": (
        "<Plan stations: of 36 records sampled, 36 to the table, 0 to quarantine, 0 dropped>",
        "Counts(consumed=66, accepted=60, refused=6, dropped=0)",
        "<SchemaHistory stations: BACKWARD, 4 schemas seen, 4 columns now>",
    ),
    "05_quality_gates": (
        "expect_column_mean_to_be_between",
        "Counts(consumed=1000, accepted=998, refused=2, dropped=0)",
        "gates: conserved, 2,000 consumed = 1,995 in the table + 5 in quarantine + 0 dropped",
    ),
    "06_tuning": ("commits_per_day",),
    "07_a_database_in_the_lake": (
        "Counts(consumed=8, accepted=6, refused=0, dropped=2)",
        "up to 23006000",
        "shop_orders_history: conserved, 11 consumed = 9 in the table + 0 in quarantine + 2 dropped",
    ),
}
"""Name → what is said somewhere in it."""
