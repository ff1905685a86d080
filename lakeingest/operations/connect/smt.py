"""Single message transforms (Apache Kafka, "Connect: Transformations") → the steps of `transform`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from lakeingest.operations.connect.translation import Outcome, Translation, simple
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
        new_steps, whole = _one(t, f"transforms.{name}.")
        steps += new_steps
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
    for option in [o for o in t.options if o.startswith("predicates.")]:
        t.tell(option, "ignored", why="taken into account where a transform names it")
    t.tell("predicates", "ignored", why="taken into account where a transform names it")


def _one(t: Translation, prefix: str) -> tuple[Steps, bool]:
    """The steps of one transform; whether it is carried over, or changed, and not lost."""
    kind, side = simple(t.get(f"{prefix}type")), t.get(f"{prefix}type").rpartition("$")[2]
    options = {o.removeprefix(prefix): t.get(o) for o in t.options if o.startswith(prefix)}
    steps: Steps = []
    outcome: Outcome
    try:
        applies = _predicate(t, options, kind)
        if applies is None:
            outcome, why = "ignored", "its predicate holds for no record of these topics"
        elif side == "Key":
            outcome, why = "ignored", _KEY_ONLY
        else:
            steps, outcome, why = _KINDS.get(kind, _unknown)(t, options)
    except _Unmapped as lost:
        outcome, why = "impossible", str(lost)
    becomes = ", ".join(dict.fromkeys(f"transform.{next(iter(step))}" for step in steps))
    for option in [o for o in t.options if o.startswith(prefix)]:
        t.tell(option, outcome, becomes, why)
    return steps, outcome != "impossible"


def _predicate(t: Translation, options: Mapping[str, str], kind: str) -> bool | None:
    """Whether a transform is for the records of these topics; None if for none of them.

    Raises:
        _Unmapped: for some.
    """
    name = options.get("predicate")
    if not name:
        return True
    negated = options.get("negate", "").lower() == "true"
    predicate = simple(t.get(f"predicates.{name}.type"))
    if predicate == "TopicNameMatches":
        try:
            matched = {
                bool(re.fullmatch(t.get(f"predicates.{name}.pattern"), topic)) != negated for topic in _topics(t)
            }
        except re.error:
            matched = set()
        if len(matched) == 1:
            return True if matched.pop() else None
        raise _Unmapped("it is for some of the topics only: import those with a configuration of their own")
    if predicate == "HasHeaderKey" and kind == "Filter":
        return True
    if predicate == "RecordIsTombstone" and kind == "Filter":
        if negated:
            raise _Unmapped("it leaves out all records but tombstones, and these hold no values for a table")
        return True
    if predicate == "RecordIsTombstone" and kind == "TombstoneHandler":
        return None if negated else True
    if predicate == "RecordIsTombstone" and kind in _OF_VALUE:
        # A transform of the value leaves a record without one alone.
        return True if negated else None
    raise _Unmapped(f"its predicate {predicate or name} cannot be asked here; {_OWN}")


_OF_VALUE = ("ReplaceField", "Cast", "MaskField", "InsertField", "TimestampConverter", "SetSchemaMetadata", "Flatten",
             "ExtractField", "HoistField")  # fmt: skip


def _topics(t: Translation) -> list[str]:
    """The names of the topics, as the transforms before have made them."""
    return [t.routed] if t.routed else _listed(t.get("topics"))


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _fields(text: str) -> list[str]:
    """Names of fields.

    Raises:
        _Unmapped: one has a dot, which parts a struct from its field here, and is a letter of the name there.
    """
    names = _listed(text)
    if dotted := [name for name in names if "." in name]:
        raise _Unmapped(f"{', '.join(dotted)}: a dot in a name leads into a struct here; {_OWN}")
    return names


def _replace(_: Translation, options: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    """The names of all three lists are those before the transform; names that are left out are not renamed."""
    drop = _fields(options.get("exclude", options.get("blacklist", "")))
    keep = [name for name in _fields(options.get("include", options.get("whitelist", ""))) if name not in drop]
    pairs = dict(pair.split(":", 1) for pair in _listed(options.get("renames", "")) if ":" in pair)
    renames = {old: new for old, new in pairs.items() if old not in drop and (old in keep or not keep)}
    steps: Steps = [{"keep": keep}] if keep else [{"drop": drop}] if drop else []
    clean, why = _clean(renames)
    if clean:
        steps.append({"rename": clean})
    return steps, "changed" if why else "carried", why


def _clean(names: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The same with new names that a table may have, and what is different about them.

    Raises:
        _Unmapped: two of them would be one.
    """
    clean = {key: name.lstrip("_") or "inserted" for key, name in names.items()}
    if len({name.lower() for name in clean.values()}) < len(clean):
        raise _Unmapped(f"two names would be one without the _ that begins names of lakeingest's own; {_OWN}")
    why = "" if clean == names else "names that begin with _ are lakeingest's own: the _ is left out"
    return clean, why


def _cast(_: Translation, options: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    casts = {}
    for pair in _fields(options.get("spec", "")):
        name, colon, kind = pair.rpartition(":")
        if not colon or kind.strip() not in _TYPES:
            raise _Unmapped(f"{pair!r} casts the value as a whole, or to no type of a table's; {_OWN}")
        casts[name.strip()] = _TYPES[kind.strip()]
    why = (
        "a value that cannot be cast, or does not fit, sends its record to quarantine, where the task dies or cuts the "
        "number; a time becomes seconds, and not milliseconds"
    )
    return [{"cast": casts}], "changed", why


def _mask(_: Translation, options: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    text, fields = options.get("replacement"), _fields(options.get("fields", ""))
    if text:
        why = "for texts; a number's mask has to be derived, as in derive: {a: CAST(0 AS INT)}"
        return [{"mask": {name: {"constant": text} for name in fields}}], "carried", why
    return [{"mask": dict.fromkeys(fields, "null")}], "changed", "null takes the place of 0 or of an empty text"


def _insert(t: Translation, options: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    columns = {
        "topic.field": _literal(t.routed) if t.routed else "_topic",
        "partition.field": "_partition",
        "offset.field": "_offset",
        "timestamp.field": "_timestamp",
    }
    names = {option: re.sub("[!?]$", "", options[option]) for option in columns if options.get(option)}
    if options.get("static.field") and "static.value" in options:
        columns["static.field"] = _literal(options["static.value"])
        names["static.field"] = re.sub("[!?]$", "", options["static.field"])
    clean, why = _clean(names)
    reasons = [why] if why else []
    if "timestamp.field" in clean:
        reasons.append("a TIMESTAMP, and not a number of milliseconds, where records bring no schema")
    steps: Steps = [{"derive": {name: columns[option] for option, name in clean.items()}}] if clean else []
    return steps, "changed" if reasons else "carried", "; ".join(reasons)


def _literal(text: str) -> str:
    sql = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    try:
        read(sql, ())
    except ExpressionError:
        raise _Unmapped(f"{text!r} cannot be written as SQL; {_OWN}") from None
    return sql


_UNIX = {
    "seconds": "unix_seconds({0})",
    "milliseconds": "unix_millis({0})",
    "microseconds": "CAST({0} AS DECIMAL(20,6)) * 1000000",
    "nanoseconds": "CAST({0} AS DECIMAL(20,6)) * 1000000000",
}


def _timestamp(_: Translation, options: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    field, target = "".join(_fields(options.get("field", ""))), options.get("target.type", "")
    precision, pattern = options.get("unix.precision", "milliseconds"), options.get("format", "")
    if field and target == "unix" and precision in _UNIX and not pattern:
        why = f"{field} has to be a TIMESTAMP in the records, or in schema.columns"
        return (
            [{"derive": {field: f"CAST({_UNIX[precision].format(ddl.quoted(field))} AS BIGINT)"}}],
            "changed",
            why,
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


def _filter(t: Translation, options: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    if "filter.condition" in options or "filter.type" in options:
        raise _Unmapped(f'its condition has to be written as SQL: transform: [{{where: {{name: "…"}}}}]; or {_OWN}')
    name = options.get("predicate")
    if not name:
        raise _Unmapped("without a predicate it leaves out every record")
    predicate = simple(t.get(f"predicates.{name}.type"))
    if predicate == "RecordIsTombstone":
        t.set("decode.on_null", "ignore")
        return [], "carried", "as decode.on_null: ignore"
    if predicate == "HasHeaderKey":
        header = _literal(t.get(f"predicates.{name}.name"))
        stays = "IS NOT NULL" if options.get("negate", "").lower() == "true" else "IS NULL"
        why = "what is left out is counted under this name; a header without a text counts as none"
        return [{"where": {"filtered": f"header({header}) {stays}"}}], "changed", why
    raise _Unmapped("it leaves these topics out: leave them out of source.topics")


def _flatten(*_: Any) -> tuple[Steps, Outcome, str]:
    raise _Unmapped("name the structs, which the configuration does not: transform: [{flatten: [a, b]}] makes a_x, b_y")


def _tombstones(t: Translation, options: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    """TombstoneHandler: ignore and warn leave tombstones out, fail stops the task."""
    if options.get("behavior", "warn").lower() == "fail":
        t.set("decode.on_null", "quarantine")
        return [], "changed", "as decode.on_null: quarantine; the task does not die"
    t.set("decode.on_null", "ignore")
    return [], "carried", "as decode.on_null: ignore"


def _of_topic(t: Translation, options: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    """RegexRouter: the sink names folders after the topic that it makes."""
    topics = _topics(t)
    if len(topics) != 1:
        raise _Unmapped("it gives topics other names in the bucket: write table.path as it shall be")
    # As Java writes it: $1 is a group, and a backslash takes the next letter as it is.
    letters = re.findall(r"\\(.)|\$(\d)|(.)", options.get("replacement", ""), re.DOTALL)
    try:
        matches = re.fullmatch(options.get("regex", ""), topics[0])
        topic_name = re.sub(
            options.get("regex", ""),
            lambda match: "".join(
                plain or (match[int(group)] or "" if group else letter) for plain, group, letter in letters
            ),
            topics[0],
            count=1,
        )
    except (re.error, IndexError):
        raise _Unmapped("a regular expression of Java's that Python does not know: write table.path") from None
    t.routed = topic_name if matches else topics[0]
    return [], "changed", f"the table is called {t.routed}"


def _header_from(_: Translation, options: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    """The fields that are moved are gone from the value; no header comes of them."""
    moved = _fields(options.get("fields", "")) if options.get("operation") == "move" else []
    return [{"drop": moved}] if moved else [], "changed", _HEADERS


def _nothing(why: str, outcome: Outcome = "ignored") -> Callable[..., tuple[Steps, Outcome, str]]:
    return lambda *_: ([], outcome, why)


def _lost(why: str) -> Callable[..., tuple[Steps, Outcome, str]]:
    def refuse(*_: Any) -> tuple[Steps, Outcome, str]:
        raise _Unmapped(why)

    return refuse


def _unknown(_: Translation, options: Mapping[str, str]) -> tuple[Steps, Outcome, str]:
    raise _Unmapped(f"{simple(options.get('type', '')) or 'a transform without a type'} has no counterpart; {_OWN}")


_KINDS: dict[str, Callable[[Translation, Mapping[str, str]], tuple[Steps, Outcome, str]]] = {
    "ReplaceField": _replace,
    "Cast": _cast,
    "MaskField": _mask,
    "InsertField": _insert,
    "TimestampConverter": _timestamp,
    "Filter": _filter,
    "Flatten": _flatten,
    "TombstoneHandler": _tombstones,
    "RegexRouter": _of_topic,
    "SetSchemaMetadata": _nothing("the table keeps the names and versions of schemas by itself"),
    "ValueToKey": _nothing(_KEY_ONLY),
    "HeaderFrom": _header_from,
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
