"""The page of a report: one HTML file that asks nobody for anything.

Values come from records. Only printable characters of them are shown (see `errors.printable`); jinja2 escapes them, and
the browser runs no script but the two whose digests the page's policy names, and loads nothing at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any

from lakeingest.errors import UsageError, printable
from lakeingest.operations.report import charts
from lakeingest.operations.report.facts import Facts, utc
from lakeingest.operations.report.verdict import duration
from lakeingest.operations.results.words import cut

_MARK = '<meta name="generator" content="lakeingest report">'
_LOOKED_AT = 1000
"""Bytes within which a report of ours has its mark."""
_ROWS = 100
"""Most rows of a table."""
_PERIODS = {
    "": "all",
    "3600": "last hour",
    "86400": "last day",
    "604800": "last 7 days",
    "2592000": "last 30 days",
}
_ORDER = ("bad", "warn", "none", "good")


def check(to: Path, *, force: bool) -> None:
    """Refuse to write over what is no report.

    Raises:
        UsageError: it is another file, or a folder, or there is no folder to write it into.
    """
    if to.is_dir():
        raise UsageError(f"{to} is a folder", cure=f"name a file, as in {to / 'report.html'}")
    if to.exists() and not to.is_file():
        raise UsageError(f"{to} is no plain file, and would be replaced by one", cure="name another file")
    if not to.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {to.absolute().parent}", cure="make it, or name another file")
    if to.exists() and not force:
        try:
            with to.open("rb") as file:
                is_own = _MARK.encode() in file.read(_LOOKED_AT)
        except OSError as failed:
            raise UsageError(f"{to} cannot be read ({failed.strerror})", cure="name another file") from failed
        if not is_own:
            raise UsageError(f"{to} is there, and is no report of lakeingest", cure="name another file, or add --force")


def write(pipelines: Sequence[Facts], to: Path) -> int:
    """Write the page in place of what is there, at once or not at all.

    Returns:
        Its size in bytes.

    Raises:
        UsageError: it cannot be written.
        SetupError: what draws is not installed.
    """
    page = html(pipelines).encode()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{to.name}-", dir=to.absolute().parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(page)
            Path(name).chmod(0o666 & ~_umask())
            Path(name).replace(to)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as failed:
        raise UsageError(f"{to} cannot be written ({failed.strerror})", cure="name another file") from failed
    return len(page)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def html(pipelines: Sequence[Facts]) -> str:
    """The page, the worst pipeline first.

    Raises:
        SetupError: what draws is not installed.
    """
    charts.need()
    import jinja2
    from markupsafe import Markup

    folder = resources.files(__package__)
    texts = {name: folder.joinpath(f"page.{name}").read_text(encoding="utf-8") for name in ("css", "js")}
    scripts = charts.script(), texts["js"]
    digests = " ".join(f"'sha256-{b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts)
    # Vega compiles expressions of its own; what a value says is never one.
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {digests} 'unsafe-eval'; base-uri 'none'"
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"shown": _cell, "age": _age, "milliseconds": _milliseconds}
    ordered = sorted(pipelines, key=lambda each: (_ORDER.index(each.verdict.state), each.pipeline))
    template = environment.from_string(folder.joinpath("page.html.template").read_text(encoding="utf-8"))
    one = ordered[0].pipeline if len(ordered) == 1 else None
    return template.render(
        mark=Markup(_MARK),
        policy=policy,
        title=printable(one) if one else f"{len(ordered)} pipelines",
        summary=_summary(ordered),
        made=utc(max((each.made for each in ordered), default=datetime.now(UTC))),
        style=Markup(texts["css"]),
        vega=Markup(scripts[0]),
        script=Markup(scripts[1]),
        points=_json([_points(each) for each in ordered]),
        charts=_json(charts.specifications()),
        pipelines=[_view(each) for each in ordered],
        reasons=_reasons(ordered),
        periods=_PERIODS.items(),
        rows=_ROWS,
    )


def _view(facts: Facts) -> dict[str, Any]:
    """What the template shows of a pipeline, besides what is known."""
    sizes = facts.files[0]["sizes"] if facts.files else []
    return {
        **vars(facts),
        "expectations": list(_expectations(facts.gate or ())),
        "sizes": ", ".join(f"{each['files']:,} of {each['size']}" for each in sizes if each["files"]),
    }


def _expectations(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the gate found of each expectation, those that were broken first."""
    by_name: dict[str, dict[str, Any]] = {}
    for row in results:
        each = by_name.setdefault(
            row["expectation"],
            {
                "expectation": row["expectation"],
                "action": row["action"],
                "batches": 0,
                "broken": 0,
                "unexpected": None,
                "found": cut(_observed(row["observed"]) or ", ".join(map(str, row["sample"] or ())), 200),
            },
        )
        each["batches"] += 1
        each["broken"] += not row["success"]
        if row["unexpected"] is not None:
            each["unexpected"] = (each["unexpected"] or 0) + row["unexpected"]
    return sorted(by_name.values(), key=lambda each: (-each["broken"], each["expectation"]))


def _observed(statistic: str | None) -> str | None:
    """As JSON, where there is any."""
    return None if statistic == "null" else statistic


def _points(facts: Facts) -> dict[str, list[dict[str, Any]]]:
    """Name of a chart → what is drawn."""
    batches = [{**batch, "at": _milliseconds(batch["time"])} for batch in facts.batches]
    refused = facts.refused["over_time"] if facts.refused else []
    files = facts.files[0] if facts.files else {"sizes": [], "partitions": []}
    broken = [each["expectation"] for each in _expectations(facts.gate or ())][:_CHARTED]
    return {
        "records": batches,
        "age": batches,
        "refused": [{**each, "reason": _cell(each["reason"])} for each in refused],
        "gate": [
            {
                "at": _milliseconds(row["time"]),
                "expectation": _cell(row["expectation"]),
                "found": "met" if row["success"] else "broken",
                "batch": row["sequence"],
                "outcome": row["outcome"],
            }
            for row in facts.gate or ()
            if row["expectation"] in broken
        ],
        "sizes": [{**each, "size": each["size"].removesuffix(" MiB")} for each in files["sizes"]],
        "partitions": [
            {**each, "partition": _cell(each["partition"]), "bytes": round(each["bytes"] / 2**20, 3)}
            for each in files["partitions"]
        ],
    }


_CHARTED = 25
"""Most expectations in a chart."""


def _summary(pipelines: Sequence[Facts]) -> str:
    if len(pipelines) == 1:
        return "How the pipeline stands, told from its tables."
    labels = Counter(each.verdict.label for each in pipelines)
    return ", ".join(f"{count} {label}" for label, count in labels.items()) + "."


def _reasons(pipelines: Sequence[Facts]) -> list[str]:
    """All reasons that can be chosen."""
    reasons: Iterator[str] = (
        each["reason"] for facts in pipelines if facts.refused for each in _reasons_told(facts.refused)
    )
    return sorted(dict.fromkeys(_cell(reason) for reason in reasons))


def _reasons_told(refused: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from refused["reasons"]
    yield from refused["over_time"]


def _json(data: Any) -> Any:
    """Data within a script element: nothing in it can end the element, or begin a comment."""
    from markupsafe import Markup

    text = json.dumps(data, separators=(",", ":"), default=str)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _cell(value: object) -> str:
    return printable(str(value))


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def _age(seconds: float | None) -> str:
    return "—" if seconds is None else duration(timedelta(seconds=seconds))
