"""Single message transforms (Apache Kafka, "Connect: Transformations") → the steps of `transform`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from lakeingest.config.confluent.translation import Outcome, Translation, simple
from lakeingest.schema import ddl
from lakeingest.schema.expression import ExpressionError, read

Steps: TypeAlias = list[dict[str, Any]]
_TYPES = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "STRING",
}
_KEY_ONLY = "it changes the record's key alone; _key holds the key as it came"
_HEADERS = "_headers holds a record's headers as they came"
_OWN = "write it as SQL (derive, where), or as a class of your own: transform: [{own: module:Class}]"


class _Unmapped(Exception):
    """A transform that has no step here; why, and what to do instead."""


def translate(t: Translation) -> None:
    """Take `transforms` and `predicates`, with all their options."""
    names = [name.strip() for name in t.get("transforms").split(",") if name.strip()]
    steps: Steps = []
    lost = []
    for name in names:
        found, whole = _one(t, f"transforms.{name}.")
        steps += found
        if not whole:
            lost.append(name)
    if steps:
        t.set("transform", steps)
        if any("mask" in step for step in steps):
            t.set("quarantine.keep_bytes", "encrypted", "Refused records would show what is masked.")
            t.set("quarantine.encryption_key", t.variable("QUARANTINE_KEY"))
    if lost:
        t.tell("transforms", "impossible", why=f"{', '.join(lost)}: see the options of each")
    t.tell("transforms", "carried", "transform")
    for option in [o for o in t.given if o.startswith("predicates.")]:
        t.tell(option, "ignored", why="taken into account where a transform names it")
    t.tell("predicates", "ignored", why="taken into account where a transform names it")


def _one(t: Translation, prefix: str) -> tuple[Steps, bool]:
    """The steps of one transform; whether it is carried over, or changed, and not lost."""
    kind, side = simple(t.get(f"{prefix}type")), t.get(f"{prefix}type").rpartition("$")[2]
    given = {o.removeprefix(prefix): t.get(o) for o in t.given if o.startswith(prefix)}
    steps: Steps = []
    outcome: Outcome
    try:
        applies = _predicate(t, given, kind)
        if applies is None:
            outcome, why = "ignored", "its predicate holds for no record of these topics"
        elif side == "Key":
            outcome, why = "ignored", _KEY_ONLY
        else:
            steps, outcome, why = _KINDS.get(kind, _unknown)(t, given)
    except _Unmapped as lost:
        outcome, why = "impossible", str(lost)
    becomes = ", ".join(dict.fromkeys(f"transform.{next(iter(step))}" for step in steps))
    for option in [o for o in t.given if o.startswith(prefix)]:
        t.tell(option, outcome, becomes, why)
    return steps, outcome != "impossible"


def _predicate(t: Translation, given: Mapping[str, str], kind: str) -> bool | None:
    """Whether a transform is for the records of these topics; None if for none of them.

    Raises:
        _Unmapped: for some.
    """
    name = given.get("predicate")
    if not name:
        return True
    negated = given.get("negate", "").lower() == "true"
    asked = simple(t.get(f"predicates.{name}.type"))
    if asked == "TopicNameMatches":
        topics = [each.strip() for each in t.get("topics").split(",") if each.strip()]
        try:
            matched = {bool(re.fullmatch(t.get(f"predicates.{name}.pattern"), topic)) != negated for topic in topics}
        except re.error:
            matched = set()
        if len(matched) == 1:
            return True if matched.pop() else None
        raise _Unmapped("it is for some of the topics only: import those with a configuration of their own")
    if asked == "HasHeaderKey" and kind == "Filter":
        return True
    if asked == "RecordIsTombstone" and (kind == "Filter" or negated):
        # A transform of the value leaves a record without one alone.
        return True
    if asked == "RecordIsTombstone":
        return None
    raise _Unmapped(f"its predicate {asked or name} cannot be asked here; {_OWN}")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _replace(_: Translation, given: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    steps: Steps = []
    if drop := _listed(given.get("exclude", given.get("blacklist", ""))):
        steps.append({"drop": drop})
    if keep := _listed(given.get("include", given.get("whitelist", ""))):
        steps.append({"keep": keep})
    if renames := dict(pair.split(":", 1) for pair in _listed(given.get("renames", "")) if ":" in pair):
        steps.append({"rename": renames})
    return steps, "carried", ""


def _cast(_: Translation, given: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    casts = {}
    for pair in _listed(given.get("spec", "")):
        name, colon, kind = pair.rpartition(":")
        if not colon or kind.strip() not in _TYPES:
            raise _Unmapped(f"{pair!r} casts the value as a whole, or to no type of a table's; {_OWN}")
        casts[name.strip()] = _TYPES[kind.strip()]
    why = "a value that cannot be cast sends its record to quarantine, where the task would die"
    return [{"cast": casts}], "changed", why


def _mask(_: Translation, given: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    text = given.get("replacement")
    mask = {"constant": text} if text is not None else "null"
    why = "" if text is not None else "null takes the place of 0 or of an empty text"
    return [{"mask": dict.fromkeys(_listed(given.get("fields", "")), mask)}], "carried" if text else "changed", why


def _insert(_: Translation, given: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    derived: dict[str, str] = {}
    for option, column in (
        ("topic.field", "_topic"),
        ("partition.field", "_partition"),
        ("offset.field", "_offset"),
        ("timestamp.field", "_timestamp"),
    ):
        if name := given.get(option, "").strip("!?"):
            derived[name] = column
    if name := given.get("static.field", "").strip("!?"):
        derived[name] = _literal(given.get("static.value", ""))
    clean = {name.lstrip("_") or "inserted": sql for name, sql in derived.items()}
    why = "" if clean.keys() == derived.keys() else "names that begin with _ are lakeingest's own: the _ is left out"
    return [{"derive": clean}], "changed" if why else "carried", why


def _literal(text: str) -> str:
    sql = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    try:
        read(sql, ())
    except ExpressionError:
        raise _Unmapped(f"{text!r} cannot be written as SQL; {_OWN}") from None
    return sql


def _timestamp(_: Translation, given: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    field, target = given.get("field", ""), given.get("target.type", "")
    precision, pattern = given.get("unix.precision", "milliseconds"), given.get("format", "")
    name = _quoted(field) if field else ""
    if field and target == "unix" and precision in ("milliseconds", "seconds") and not pattern:
        return (
            [{"derive": {field: f"unix_{'millis' if precision == 'milliseconds' else precision}({name})"}}],
            ("carried"),
            "",
        )
    if field and target == "Timestamp" and not pattern and precision == "milliseconds":
        why = f"declare {field} as TIMESTAMP: it takes ISO 8601, and milliseconds since 1970"
        return [], "changed", why
    if field and target == "Date" and not pattern:
        return [{"cast": {field: "DATE"}}], "changed", f"{field} has to be a time in the records, or in schema.columns"
    raise _Unmapped(
        "between texts and times decoding goes: declare the field TIMESTAMP or DATE, and write "
        "decode.value.timestamp_format or date_format; or derive it by SQL"
    )


def _quoted(name: str) -> str:
    return ".".join(ddl.quoted(part) for part in name.split("."))


def _filter(t: Translation, given: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    if simple(t.get(f"predicates.{given.get('predicate', '')}.type")) == "RecordIsTombstone":
        t.set("decode.on_null", "ignore")
        return [], "carried", "as decode.on_null: ignore"
    if simple(t.get(f"predicates.{given.get('predicate', '')}.type")) == "HasHeaderKey":
        asked = _literal(t.get(f"predicates.{given['predicate']}.name"))
        stays = "IS NOT NULL" if given.get("negate", "").lower() == "true" else "IS NULL"
        why = "what is left out is counted under this name; a header without a text counts as none"
        return [{"where": {"filtered": f"header({asked}) {stays}"}}], "changed", why
    if "predicate" in given:
        raise _Unmapped("it leaves these topics out: leave them out of source.topics")
    raise _Unmapped(f'its condition has to be written as SQL: transform: [{{where: {{name: "…"}}}}]; or {_OWN}')


def _flatten(*_: Any) -> tuple[Steps, Outcome, str]:
    raise _Unmapped("name the structs, which the configuration does not: transform: [{flatten: [a, b]}] makes a_x, b_y")


def _drop_tombstones(t: Translation, given: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    behaviour = given.get("behavior", "drop_silent")
    t.set("decode.on_null", "quarantine" if behaviour == "error" else "ignore")
    return [], "carried", "as decode.on_null"


def _of_topic(t: Translation, given: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    """RegexRouter: the sink names folders after the topic that it makes."""
    topic = t.get("topics")
    if not topic or "," in topic:
        raise _Unmapped("it gives topics other names in the bucket: write table.path as it shall be")
    replacement = re.sub(r"\$(\d)", r"\\\1", given.get("replacement", ""))
    try:
        found = re.fullmatch(given.get("regex", ""), topic)
        named = found.expand(replacement) if found else topic
    except (re.error, IndexError):
        raise _Unmapped("a regular expression of Java's that Python does not know: write table.path") from None
    t.routed = named
    return [], "changed", f"the table is called {named}"


def _nothing(why: str, outcome: Outcome = "ignored") -> Callable[..., tuple[Steps, Outcome, str]]:
    return lambda *_: ([], outcome, why)


def _lost(why: str) -> Callable[..., tuple[Steps, Outcome, str]]:
    def refuse(*_: Any) -> tuple[Steps, Outcome, str]:
        raise _Unmapped(why)

    return refuse


def _unknown(_: Translation, given: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    raise _Unmapped(f"{simple(given.get('type', '')) or 'a transform without a type'} has no counterpart; {_OWN}")


_KINDS: dict[str, Callable[[Translation, Mapping[str, str]], tuple[Steps, Outcome, str]]] = {
    "ReplaceField": _replace,
    "Cast": _cast,
    "MaskField": _mask,
    "InsertField": _insert,
    "TimestampConverter": _timestamp,
    "Filter": _filter,
    "Flatten": _flatten,
    "TombstoneHandler": _drop_tombstones,
    "RegexRouter": _of_topic,
    "SetSchemaMetadata": _nothing("the table keeps the names and versions of schemas by itself"),
    "ValueToKey": _nothing(_KEY_ONLY),
    "HeaderFrom": _nothing(_HEADERS, "changed"),
    "InsertHeader": _nothing(_HEADERS, "changed"),
    "DropHeaders": _nothing("_headers keeps them; write decode.headers: false to keep none", "changed"),
    "TimestampRouter": _lost("one table takes the place of one for each period: partition it by time"),
    "MessageTimestampRouter": _lost("one table takes the place of one for each period: partition it by time"),
    "ExtractTopic": _lost("one table for each value of a field cannot be: partition the table by that field"),
    "ExtractField": _lost("declare the struct, and write transform: [{flatten: [field]}, {keep: […]}]"),
    "HoistField": _lost("a value that is no object is the column value already (format string)"),
    "ExtractNewRecordState": _lost(
        "Debezium's changes become rows as they are: declare before, after and op as columns; the newest state of a "
        "key is a query over them"
    ),
}
