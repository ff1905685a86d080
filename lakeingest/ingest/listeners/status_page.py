"""Where the pipelines of a process stand, as a page for a browser, and as answers for Kubernetes."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from html import escape

from lakeingest.delta.receipt import Counts
from lakeingest.errors import BatchHeld, LakeingestError
from lakeingest.ingest.events import Committed, Ended, Event, Looked, Matched, Retrying, Started
from lakeingest.ingest.listeners.log import sentence

_KEPT = 10
"""Events of each pipeline that the page shows."""
_HEADS = ("pipeline", "state", "lag", "records", "refused", "dropped", "last batch", "last commit")
_SCRIPT = """
setInterval(async () => {
  try {
    const answer = await fetch(location.href);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.querySelector("main").replaceWith(page.querySelector("main"));
  } catch {
    document.getElementById("now").textContent = "The run does not answer any more. This is how it stood.";
  }
}, 5000);
"""
_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
"""The page's Content-Security-Policy: what a server or a record has said can run nothing."""
_REPORT = '<a href="report">Report of the tables</a>'
_METRICS = '<a href="metrics">Metrics</a>'
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 75rem; padding: 0 1rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ border-bottom: 1px solid GrayText; padding: .3rem .6rem; text-align: left; white-space: nowrap; }}
tbody th {{ min-width: 7rem; overflow-wrap: anywhere; white-space: normal; }}
td.number {{ font-variant-numeric: tabular-nums; text-align: right; }}
h2, li {{ overflow-wrap: anywhere; }}
a {{ color: inherit; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<div class="wide" tabindex="0" role="region" aria-label="pipelines">
<table>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
{events}
<p id="now">{now} UTC. {links}</p>
</main>
<script>{script}</script>
</body>
</html>
"""


@dataclass(frozen=True)
class _PipelineStatus:
    """What is known of one.

    Attributes:
        state: starting, running, waiting for a server, or what became of it.
        ready: whether it has looked for records, and no server has failed since.
        sequence: the number of the last batch, of this run or one before; 0 if there is none yet.
        lines: its newest events, the newest first.
    """

    state: str = "starting"
    ready: bool = False
    lag: int = 0
    sequence: int = 0
    last: Committed | None = None
    counts: Counts = field(default_factory=Counts)
    lines: tuple[str, ...] = ()


class StatusPage:
    """A listener (see `extend.Listener`) that knows where each pipeline stands.

    Args:
        pipelines: those that will run; others may come.
        reports: whether there is a report to link to.
    """

    def __init__(self, pipelines: Iterable[str], *, reports: bool = False) -> None:
        self._links = f"{_REPORT} · {_METRICS}" if reports else _METRICS
        self._statuses = {name: _PipelineStatus() for name in pipelines}
        self._lock = threading.Lock()

    def heard(self, pipeline: str, event: Event) -> None:
        with self._lock:
            if isinstance(event, Matched):
                self._statuses.update((name, self._statuses.get(name, _PipelineStatus())) for name in event.pipelines)
            self._statuses[pipeline] = _after(self._statuses.get(pipeline, _PipelineStatus()), event)

    @property
    def waits_for(self) -> list[str]:
        """Those that are not ready; what became of the others does not matter, as no restart would help them here."""
        with self._lock:
            return [name for name, each in self._statuses.items() if not each.ready]

    def html(self) -> str:
        with self._lock:
            statuses = dict(sorted(self._statuses.items()))
        events = (
            f"<h2>{escape(name)}</h2>\n<ul>\n{''.join(f'<li>{escape(each)}</li>' for each in of.lines)}\n</ul>"
            for name, of in statuses.items()
        )
        return _PAGE.format(
            title="lakeingest",
            heads="".join(f'<th scope="col">{head}</th>' for head in _HEADS),
            rows="\n".join(_row(name, of) for name, of in statuses.items()),
            events="\n".join(events),
            now=_time(datetime.now(UTC)),
            links=self._links,
            script=_SCRIPT,
        )


def _after(before: _PipelineStatus, event: Event) -> _PipelineStatus:
    now = before
    match event:
        case Started():
            now = _PipelineStatus(lines=before.lines)
        case Matched():
            now = replace(before, state="follows a pattern", ready=True)
        case Looked():
            now = replace(before, state="running", ready=True, lag=event.lag, sequence=event.sequence)
        case Committed():
            counts = before.counts + event.counts
            now = replace(before, state="running", lag=event.lag, sequence=event.sequence, last=event, counts=counts)
        case Retrying():
            now = replace(before, state="waiting for a server", ready=False)
        case Ended():
            now = replace(before, state=event.outcome, ready=True)
    if isinstance(event, Looked) and before.state == "running":
        return now
    # Why a batch is held is told in more lines, with values of records.
    text, _, _ = sentence(event).partition(":\n")
    line = f"{_time(event.at)} {text}{_reason(event)}"
    return replace(now, lines=(line, *before.lines)[:_KEPT])


def _reason(event: Event) -> str:
    """Why a run has ended before it was asked to, without values of records, and the cure."""
    if not isinstance(event, Ended) or not isinstance(event.failure, LakeingestError):
        return ""
    broken = event.failure.broken if isinstance(event.failure, BatchHeld) else ()
    return "".join([*(f" · {each}" for each in broken), f" · cure: {event.failure.cure}"])


def _row(name: str, of: _PipelineStatus) -> str:
    last = of.last
    cells = (
        *(f"{n:,}" for n in (of.lag, of.counts.consumed, of.counts.refused, of.counts.dropped)),
        f"{last.seconds:.1f} s" if last else "",
        f"{last.sequence} at {_time(last.at)}"
        if last
        else f"{of.sequence}, before this run"
        if of.sequence
        else "none yet",
    )
    numbers = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
    return f'<tr><th scope="row">{escape(name)}</th><td>{escape(of.state)}</td>{numbers}</tr>'


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")
