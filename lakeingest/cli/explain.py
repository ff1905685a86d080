"""`lakeingest explain`: the runbook on an error, on what looks like one, and on a reason in quarantine. Asks nobody."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from lakeingest import errors
from lakeingest.cli import complete
from lakeingest.cli.arguments import Format
from lakeingest.cli.output import Output
from lakeingest.errors import LakeingestError, UsageError

RUNBOOK = Path(__file__).with_name("runbook.md")
_LOOK = (
    "`lakeingest quarantine list FILE` for how many, `lakeingest quarantine show FILE topic-partition:offset` for one."
)
PARTS = ("What it means", "What to look at", "What to do")


@dataclass(frozen=True)
class RunbookEntry:
    """One entry of the runbook, in Markdown; `exit_code` is None where it is no error."""

    name: str
    exit_code: int | None
    means: str
    look: str
    do: str

    @property
    def is_alert(self) -> bool:
        """Alerts of infra/prometheus/alerts.yml are all called Lakeingest…"""
        return self.exit_code is None and self.name.startswith("Lakeingest")

    @property
    def first(self) -> str:
        """The first sentence of what it means, in one line."""
        return re.split(r"(?<=\.)\s", " ".join(self.means.split()), maxsplit=1)[0]

    def markdown(self) -> str:
        parts = zip(PARTS, (self.means, self.look, self.do), strict=True)
        return "\n\n".join([f"## {self.name}", *(f"**{part}.** {text}" for part, text in parts)])


def entries() -> dict[str, RunbookEntry]:
    """Every entry by its name, in the order of the page."""
    _, *sections = re.split(r"^## ", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {entry.name: entry for entry in map(_entry, sections)}


def reasons() -> dict[str, RunbookEntry]:
    """The reasons for which a record may be refused, in the order of the page's table."""
    rows = re.findall(
        r"^\| ([A-Z][A-Z_0-9]+) \| (.*) \| (.*) \|$", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return {name: RunbookEntry(name, None, means, _LOOK, do) for name, means, do in rows}


def groups() -> dict[str, RunbookEntry]:
    """The classes of errors that only group others, and so are in no message."""
    runbook, group_entries = entries(), {}
    for name, error in vars(errors).items():
        if isinstance(error, type) and issubclass(error, LakeingestError) and name not in runbook:
            below = ", ".join(sorted(each for each in runbook if issubclass(getattr(errors, each, object), error)))
            means = (error.__doc__ or "").partition("\n")[0]
            do = "Follow the cure in the message, and read the entry of the class that it names."
            group_entries[name] = RunbookEntry(name, error.exit_code, means, f"It stands for {below}.", do)
    return group_entries


def _entry(section: str) -> RunbookEntry:
    name, _, text = section.partition("\n")
    code = getattr(getattr(errors, name, None), "exit_code", None)
    heads = "".join(rf"\*\*{part}\.\*\*\s(.*)" for part in PARTS)
    match = re.fullmatch(heads, text.strip(), flags=re.DOTALL)
    assert match, f"{name}: not the three parts of an entry"
    return RunbookEntry(name, code, *(part.strip() for part in match.groups()))


def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            help="An error, an alert, a reason in quarantine, or a topic.",
            show_default=False,
            autocompletion=complete.names,
        ),
    ] = None,
    output: Format = "text",
) -> None:
    """Say what an error, an alert or a reason in quarantine means, and what to do; without a name, list what there is.

    Examples:

        lakeingest explain

        lakeingest explain Fenced

        lakeingest explain WRONG_TYPE
    """
    out, runbook, why = Output.of(output), entries(), reasons()
    if name is None:
        alerts = {e.name for e in runbook.values() if e.is_alert}
        rows = [
            [e.name, "" if e.exit_code is None else e.exit_code, e.first]
            for e in runbook.values()
            if e.name not in alerts
        ]
        out.table("lakeingest explain NAME", ("name", "exit code", "what it means"), rows)
        out.table(
            "alerts of infra/prometheus/alerts.yml",
            ("alert", "what it means"),
            [[e.name, e.first] for e in runbook.values() if e.name in alerts],
        )
        out.table(
            "why a record is in quarantine", ("reason", "what it means"), [[e.name, e.first] for e in why.values()]
        )
        listed = [{"name": e.name, "exit_code": e.exit_code, "means": e.first} for e in runbook.values()]
        out.result({"entries": listed, "reasons": [{"name": e.name, "means": e.first} for e in why.values()]})
        return
    entry = _called(name, runbook | why | groups())
    out.markdown(entry.markdown())
    out.result(asdict(entry))


def _called(name: str, named_entries: dict[str, RunbookEntry]) -> RunbookEntry:
    """The entry of that name, however its letters are written.

    Raises:
        UsageError: there is none; one of nearly the same letters is suggested.
    """
    by_lower = {each.lower(): entry for each, entry in named_entries.items()}
    if (known_entry := by_lower.get(name.lower())) is not None:
        return known_entry
    nearest = get_close_matches(name.lower(), by_lower, n=1)
    hint = f"did you mean {by_lower[nearest[0]].name}? " if nearest else ""
    raise UsageError(
        f"the runbook has no entry {name!r}: it is about errors, alerts and reasons in quarantine",
        cure=f"{hint}`lakeingest explain` lists what it has",
    )
