"""The charts of a report: described by altair, drawn by Vega; the page's script gives them the points that are shown.

A chart has no data of its own and no colour: the page's style sheet gives these, for light, dark and paper alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from lakeingest.errors import SetupError

_POINTS = "points"
_AGE = (
    "datum.value < 0 ? '' : datum.value < 60 ? datum.value + ' s' : datum.value < 3600 ? round(datum.value / 60) + "
    "' min' : datum.value < 86400 ? round(datum.value / 3600) + ' h' : format(round(datum.value / 86400), ',') + ' d'"
)
_AGES = [0, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 10 * 86400, 100 * 86400, 1000 * 86400, 10000 * 86400]
_TEXT = {"labelColor": "var(--muted)", "titleColor": "var(--muted)", "labelFontSize": 11, "titleFontSize": 11}
_SIZE = {"type": "fit-x", "contains": "padding"}
_CONFIG: dict[str, Any] = {
    # As page.css has it: Vega measures texts, and cannot measure an inherited font.
    "font": 'system-ui, "Segoe UI", Roboto, "Open Sans", "Liberation Sans", sans-serif',
    "background": "transparent",
    # The page says what a chart shows, and has its numbers as a table.
    "aria": False,
    "view": {"stroke": None},
    "axis": {
        **_TEXT,
        "titleFontWeight": "normal",
        "gridColor": "var(--line)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "labelLimit": 130,
    },
    "legend": {**_TEXT, "orient": "bottom", "labelLimit": 260, "symbolType": "square", "columns": 1, "title": None},
    "mark": {"aria": False},
    "bar": {"color": "var(--c1)"},
    "point": {"filled": True, "size": 45},
}


def need() -> None:
    """Import what draws.

    Raises:
        SetupError: it is not installed.
    """
    try:
        import altair  # noqa: F401
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ModuleNotFoundError as missing:
        raise SetupError(f"{missing.name} is not installed", cure="pip install 'lakeingest[report]'") from missing


@cache
def script() -> str:
    """Vega, as the script of a page: it loads nothing."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


@cache
def specifications() -> dict[str, dict[str, Any]]:
    """Name of a chart → its specification in Vega-Lite, over a data set `points`."""
    import altair as alt

    charts = {
        name: draw(alt).properties(width="container", autosize=_SIZE).configure(**_CONFIG)
        for name, draw in _CHARTS.items()
    }
    # Which version it is of, Vega would remark upon; the one that altair is made for is in the bundle.
    trees = {name: chart.to_dict() for name, chart in charts.items()}
    return {name: {key: value for key, value in each.items() if key != "$schema"} for name, each in trees.items()}


def _records(alt: Any) -> Any:
    kinds, colours = ["in the table", "refused", "dropped"], ["var(--c1)", "var(--c2)", "var(--c3)"]
    return _counts(alt).encode(
        color=alt.Color("what:N", scale=alt.Scale(domain=kinds, range=colours), legend=alt.Legend(columns=3)),
        tooltip=["period:N", "what:N", alt.Tooltip("count:Q", format=",")],
    )


def _refused(alt: Any) -> Any:
    colours = [f"var(--c{number})" for number in (2, 4, 5, 6, 7, 1, 8)]
    return _counts(alt).encode(
        color=alt.Color("reason:N", sort=None, scale=alt.Scale(range=colours)),
        tooltip=["period:N", "reason:N", alt.Tooltip("count:Q", format=",")],
    )


def _age(alt: Any) -> Any:
    axis = alt.Axis(labelExpr=_AGE, values=_AGES, labelOverlap=True)
    # Seconds and years may stand side by side.
    scale = alt.Scale(type="symlog", nice=False, domainMin=0)
    y = alt.Y("newest:Q", title=None, scale=scale, axis=axis)
    # The records of a small batch are all of one age: without an outline, their bar had no height.
    outline = {"stroke": "var(--c1)", "strokeWidth": 3}
    return _periods(alt, **outline).encode(y=y, y2="oldest:Q", tooltip=["period:N", "age:N"])


def _counts(alt: Any) -> Any:
    """Bars that stand on each other: the script says from where to where."""
    y = alt.Y("from:Q", title=None, axis=alt.Axis(tickCount=4, tickMinStep=1, format=",d"))
    return _periods(alt).encode(y=y, y2="to:Q")


def _periods(alt: Any, **mark: Any) -> Any:
    """Bars over periods of time."""
    x = _time(alt, "start:T")
    chart = alt.Chart(alt.NamedData(_POINTS), height=190)
    return chart.mark_rect(clip=True, color="var(--c1)", minBandSize=1, **mark).encode(x=x, x2="end:T")


def _gate(alt: Any) -> Any:
    verdicts, legend = {"domain": ["met", "broken"]}, alt.Legend(columns=2, symbolType=alt.Undefined)
    return (
        alt.Chart(alt.NamedData(_POINTS), height=22)
        .mark_point()
        .encode(
            x=_time(alt, "time:T"),
            y=alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelLimit=190, ticks=False, domain=False)),
            color=alt.Color("found:N", scale=alt.Scale(**verdicts, range=["var(--good)", "var(--bad)"]), legend=legend),
            shape=alt.Shape("found:N", scale=alt.Scale(**verdicts, range=["circle", "cross"]), legend=legend),
            tooltip=["expectation:N", "found:N", "batch:Q", "outcome:N"],
        )
    )


def _sizes(alt: Any) -> Any:
    return (
        alt.Chart(alt.NamedData(_POINTS), height=150)
        .mark_bar()
        .encode(
            x=alt.X("size:N", sort=None, title="MiB a file", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("files:Q", title="files", axis=alt.Axis(tickCount=4, tickMinStep=1, format=",d")),
            tooltip=["size:N", "files:Q"],
        )
    )


def _partitions(alt: Any) -> Any:
    return (
        alt.Chart(alt.NamedData(_POINTS), height=16)
        .mark_bar()
        .encode(
            x=alt.X("bytes:Q", title="MiB", axis=alt.Axis(tickCount=4, format=",~r")),
            y=alt.Y("partition:N", sort=None, title=None, axis=alt.Axis(labelLimit=170, ticks=False)),
            tooltip=["partition:N", alt.Tooltip("bytes:Q", title="MiB", format=",.2f"), "files:Q"],
        )
    )


def _time(alt: Any, field: str) -> Any:
    axis = alt.Axis(grid=False, labelOverlap=True, format={"hours": "%H:%M", "minutes": "%H:%M", "seconds": "%H:%M:%S"})
    return alt.X(field, title=None, scale=alt.Scale(type="utc"), axis=axis)


_CHARTS: dict[str, Callable[[Any], Any]] = {
    "records": _records,
    "age": _age,
    "refused": _refused,
    "gate": _gate,
    "sizes": _sizes,
    "partitions": _partitions,
}
