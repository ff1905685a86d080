"""JSON objects against declared columns: what fits its type becomes a column, what does not refuses the record.

Spark's parser parses each record once. Left to itself it is too forgiving: a value that is no object, or has something
behind it, has to be told, and fields that no column takes have to be found. Where a session has lakeingest's jar, a
function of its catalog does so in one step (`JsonFunctions.java`). Elsewhere `from_json` is brought to it: a member
`SEAL: true` is put before the brace that ends the text, and has to be among the members of the object that is read,
which makes an array, a bare number, or anything behind the object an error (no text can hold that member by itself,
because nobody who writes records knows the seal); and names are looked at where there are more colons than the declared
fields need.

On both ways times are parsed as text and decimals with as many places as 38 digits allow, and then converted under
rules of our own, since the parser reads "2026" as a date, epoch milliseconds as seconds, and rounds 12.345; and
infinity is no number. Nor is what the parser would take too long for, or round to these places (see `numbers`). A
number in a column of text stays as it is written, and so it does in what no column takes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.config import JsonSchemaFormat, JsonValue, KeyFormat, ValueFormat, time_format
from lakeingest.decode import json_diagnosis, json_names, json_parts, limits, numbers
from lakeingest.decode.json_columns import any_of, fit, parsed_type
from lakeingest.decode.writers import PayloadReader
from lakeingest.record import Refusal, diagnosis
from lakeingest.schema import json_values
from lakeingest.schema.json_values import AS_IT_IS, Texts
from lakeingest.schema.model import Schema
from lakeingest.spark import jvm, python
from lakeingest.spark.json_numbers import marked, unmarked

_CORRUPT = " corrupt"
_LOOKED_AT = 2**20
"""Bytes of the largest value whose diagnosis goes into details."""
_COUNTED = 2**10
"""Bytes of the largest value whose colons are counted: names are found faster than the colons of a long text."""
_SEAL = f" {secrets.token_urlsafe(9)}"
"""No declared column can bear a name with a blank."""
_UNDECLARED = f"{_SEAL} undeclared"
_BLANKS = " \t\r\n"
_EMPTY = r"\A[ \t\r\n]*\{[ \t\r\n]*\}"
_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
}


@dataclass(frozen=True)
class JsonReader(PayloadReader):
    """Reads JSON whose columns a JSON Schema says (see `writers.PayloadReader`).

    Attributes:
        schema: the columns.
        fields: the same under the fields' own names; None where these are the columns' names.
        renamer: a JSON text under the names of the columns; None where the names are the same.
    """

    schema: T.StructType
    texts: Texts
    fields: T.StructType | None = None
    renamer: Callable[[str | None], str | None] | None = None

    def parse(self, payload: Column) -> Column:
        parsed = parse(payload, self.fields or self.schema, self.texts)
        if self.fields:
            parsed = under_columns(parsed, self.schema, self.texts)
        return F.when(payload.isNotNull(), F.struct(parsed.alias("json"), payload.alias("text")))

    def broken(self, parsed: Column) -> Column:
        return parsed.isNotNull() & refused(parsed["text"], parsed["json"], self.schema, self.texts)

    def value(self, parsed: Column) -> Column:
        return F.struct(*(c.alias(n) for n, c in columns(parsed["json"], self.schema, self.texts).items()))

    def why(self, payload: Column, *, withheld: bool = False) -> Column | None:
        return explained(payload, self.fields or self.schema, self.texts, withheld=withheld)["message"]

    def rescued(self, parsed: Column, dropped: tuple[str, ...], names: Schema) -> Column | None:
        places = [i for i, f in enumerate(self.schema) if f.name not in dropped]
        remaining = T.StructType([(self.fields or self.schema)[i] for i in places])
        text = rescued(parsed["text"], parsed["json"], remaining, everywhere=bool(dropped or self.fields))
        return json_names.renamed(text, self.renamer) if self.renamer else text


def texts_of(format: ValueFormat | KeyFormat) -> Texts:
    """The rules of a pipeline file by which texts become values."""
    if not isinstance(format, JsonValue):
        return Texts(getattr(format, "timezone", "UTC"), wholes=isinstance(format, JsonSchemaFormat))
    return Texts(
        zone=format.timezone,
        rounds=format.decimals == "round",
        quotes=format.numbers_in_quotes,
        epoch=format.epoch,
        dates=tuple(time_format.compiled(text, "date") for text in format.date_format or (time_format.ISO,)),
        times=tuple(time_format.compiled(text, "timestamp") for text in format.timestamp_format or (time_format.ISO,)),
    )


def parse(raw: Column, schema: T.StructType, texts: Texts) -> Column:
    """The one parse of a record: BINARY → STRUCT<the declared columns, SEAL: BOOLEAN, …>.

    The seal is true where the value is one whole object. In one step there is also UNDECLARED: BOOLEAN, whether it
    has a field that no column takes; else " corrupt": STRING, not null where a field does not fit its column.
    """
    bearing = parsed_type(schema, texts, marked=True)
    assert isinstance(bearing, T.StructType)
    if jvm.offered("json"):
        mark_fields = [T.StructField(_SEAL, T.BooleanType()), T.StructField(_UNDECLARED, T.BooleanType())]
        schema_json = T.StructType([*bearing, *mark_fields]).json()
        rule = "round " if texts.rounds else "whole " if texts.wholes else ""
        return F.call_function(jvm.function("json", f"{rule}{schema_json}"), raw)
    sealed = [T.StructField(_SEAL, T.BooleanType()), T.StructField(_CORRUPT, T.StringType())]
    # As bytes: a text is cut by counting its characters.
    brace, member = F.lit(b"}"), f'"{_SEAL}":true}}'
    trimmed = F.rtrim(raw.cast("string"), F.lit(_BLANKS)).cast("binary")
    whole = F.when(F.endswith(raw, brace), raw).when(F.endswith(trimmed, brace), trimmed)
    opened = F.substring(whole, F.lit(1), F.octet_length(whole) - 1)
    empty = ~F.startswith(raw, F.lit(b'{"')) & F.rlike(raw.cast("string"), F.lit(_EMPTY))
    last = F.when(empty, F.lit(member.encode())).otherwise(F.lit(f",{member}".encode()))
    fields = parsed_type(schema, texts)
    assert isinstance(fields, T.StructType)
    text, sealed_schema = raw.cast("string"), T.StructType([*fields, *sealed])
    sealed_text = F.concat(opened, last).cast("string")
    read = numbers.in_text(F.from_json(sealed_text, sealed_schema, _OPTIONS), text, fields, sealed_schema, _OPTIONS)
    if texts.wholes and numbers.has_integers(fields):
        respelled = F.from_json(numbers.whole(sealed_text), sealed_schema, _OPTIONS)
        respelled = numbers.in_text(respelled, text, fields, sealed_schema, _OPTIONS, suspected=True)
        read = numbers.either(read, respelled, _CORRUPT, text)
    read = json_parts.written(read, raw, bearing, sealed_schema)
    odd = numbers.unreadable(text, bearing, _OPTIONS, rounds=texts.rounds) | numbers.lone_surrogate(text)
    return F.when(~odd, read)


def columns(parsed: Column, schema: T.StructType, texts: Texts) -> dict[str, Column]:
    """Each declared column, by name, out of what `parse` gave."""
    return {field.name: fit(parsed[field.name], field.dataType, texts).value for field in schema}


def refused(raw: Column, parsed: Column, schema: T.StructType, texts: Texts) -> Column:
    """BOOLEAN, never null: whether the record is no JSON object, or does not fit the declared columns."""
    whole = parsed[_SEAL]
    if not jvm.offered("json"):
        whole = F.is_valid_utf8(raw.cast("string")) & whole & parsed[_CORRUPT].isNull()
    return F.coalesce(~whole, F.lit(True)) | any_of(fit(parsed, schema, texts).misfits)


def explained(raw: Column, schema: T.StructType, texts: Texts, *, withheld: bool = False) -> Column:
    """STRUCT<reason: STRING, message: STRING>: what exactly is wrong, by reading the bytes again in Python.

    Args:
        withheld: whether the message names no value of the record.
    """
    tree = json.loads(schema.json())
    explain = json_diagnosis.diagnose
    length = F.octet_length(raw)
    kind = "reason STRING, message STRING"
    modules = (json_values, json_diagnosis)
    explain_udf = python.by_value(lambda value: explain(value, tree, texts, withheld=withheld), kind, modules)
    unread = F.concat(
        length.cast("string"),
        F.lit(f" bytes that do not fit the columns; of more than {_LOOKED_AT} it is not said why"),
    )
    # Python takes a hundred values at once, however large they are.
    return F.when(length > _LOOKED_AT, diagnosis("UNREADABLE", unread)).otherwise(
        explain_udf(limits.within(raw, _LOOKED_AT))
    )


def refusal(
    stage: str, raw: Column, parsed: Column, schema: T.StructType, texts: Texts, *, fields: T.StructType | None = None
) -> Refusal:
    """The test and its diagnosis, for a record whose `raw` is not null.

    Args:
        fields: the columns under the names of the fields; None where these are the same.
    """
    broken = raw.isNotNull() & refused(raw, parsed, schema, texts)
    # Python is asked about every record that is refused, also where it is for something else: null costs it nothing.
    concerned = F.when(broken, raw)
    return Refusal(
        stage,
        broken,
        lambda: explained(concerned, fields or schema, texts),
        withheld=lambda: explained(concerned, fields or schema, texts, withheld=True),
    )


def under_columns(parsed: Column, schema: T.StructType, texts: Texts) -> Column:
    """What `parse` gave of fields under other names, under those of the columns.

    By position: two fields may have names that are one to Spark.
    """
    kind = parsed_type(schema, texts)
    assert isinstance(kind, T.StructType)
    second = (
        T.StructField(_UNDECLARED, T.BooleanType()) if jvm.offered("json") else T.StructField(_CORRUPT, T.StringType())
    )
    return parsed.cast(T.StructType([*kind, T.StructField(_SEAL, T.BooleanType()), second]))


def rescued(
    raw: Column,
    parsed: Column,
    schema: T.StructType,
    *,
    nulls: bool = True,
    everywhere: bool = False,
    besides: str = "",
) -> Column:
    """STRING, a JSON object of the fields that are not declared; null where there are none.

    A declared field that holds undeclared ones somewhere within is kept whole.

    Args:
        nulls: whether null is kept of a field that is not declared; else it is as if the field were not there.
        everywhere: whether each record is looked at: `parsed` has other columns than `schema` says.
        besides: what the names of fields begin with that are left out; empty where there are none.
    """
    text = raw.cast("string")
    nested = [
        F.when(_undeclared_within(_member(text, field.name), field.dataType, nulls), F.lit(field.name))
        for field in schema
        if _has_struct(field.dataType)
    ]
    whole = F.array_compact(F.array(*nested)) if nested else None
    extra = _undeclared(text, schema, nulls, besides)
    if everywhere:
        # Not null, which would have the text of a record that is refused looked at.
        suspect = F.coalesce(parsed[_SEAL], F.lit(False))
    elif jvm.offered("json"):
        suspect = F.coalesce(parsed[_UNDECLARED], F.lit(False))
    else:
        # Looking at every name is dear; where each colon is one of the declared fields', there are no others.
        long = F.octet_length(raw) > _COUNTED
        suspect = long | F.contains(text, F.lit("\\")) | (_colons(text) != _expected(parsed, schema))
    keep = suspect & (extra if whole is None else extra | (F.size(whole) > 0))
    declared = F.array(*(F.lit(field.name) for field in schema))

    def undeclared(key: Column, value: Column) -> Column:
        unknown = ~F.array_contains(declared, key) & ~_begins(key, besides)
        unknown = unknown if nulls else unknown & ~F.is_variant_null(value)
        return unknown if whole is None else unknown | F.array_contains(whole, key)

    # A VARIANT changes numbers.
    fields = F.from_json(marked(text), "MAP<STRING, VARIANT>")
    undeclared_text = unmarked(F.to_json(F.map_filter(fields, undeclared)))
    # A text in which a nested object has a key twice is no VARIANT: it is kept whole.
    return F.when(keep, F.coalesce(undeclared_text, text))


def _colons(text: Column) -> Column:
    return F.octet_length(text) - F.octet_length(F.replace(text, F.lit(":"), F.lit("")))


def _expected(value: Column, kind: T.DataType) -> Column:
    """INT, never null: the colons in the JSON of a parsed value, if it has no field but the declared ones, none of them
    null or twice, and no escapes: else its JSON has more.
    """
    if isinstance(kind, T.StructType):
        fields = (
            F.when(
                value[f.name].isNotNull(), F.lit(1 + f.name.count(":")) + _expected(value[f.name], f.dataType)
            ).otherwise(F.lit(0))
            for f in kind
        )
        return sum(fields, F.lit(0))
    if isinstance(kind, T.ArrayType):
        return _expected_of_all(value, kind.elementType)
    if isinstance(kind, T.MapType):
        keys = F.map_keys(value)
        return (
            _expected_of_all(keys, kind.keyType)
            + _expected_of_all(F.map_values(value), kind.valueType)
            + F.coalesce(F.size(keys), F.lit(0))
        )
    return F.coalesce(_colons(value), F.lit(0)) if isinstance(parsed_type(kind, AS_IT_IS), T.StringType) else F.lit(0)


def _expected_of_all(values: Column, kind: T.DataType) -> Column:
    if isinstance(parsed_type(kind, AS_IT_IS), T.StringType):
        return F.coalesce(_colons(F.array_join(values, "")), F.lit(0))
    if isinstance(kind, T.StructType | T.ArrayType | T.MapType):
        return F.coalesce(F.aggregate(values, F.lit(0), lambda sum, each: sum + _expected(each, kind)), F.lit(0))
    return F.lit(0)


def _undeclared(text: Column, struct: T.StructType, nulls: bool, besides: str = "") -> Column:
    names = [field.name for field in struct]

    def unknown(key: Column) -> Column:
        return ~key.isin(names) & ~_begins(key, besides)

    any_name = F.coalesce(F.exists(F.json_object_keys(text), unknown), F.lit(False))
    if nulls:
        return any_name
    members = F.map_entries(F.from_json(text, "MAP<STRING, STRING>"))
    valued = F.exists(members, lambda member: unknown(member["key"]) & member["value"].isNotNull())
    return any_name & F.coalesce(valued, F.lit(False))


def _begins(key: Column, prefix: str) -> Column:
    return F.startswith(key, F.lit(prefix)) if prefix else F.lit(False)


def _undeclared_within(text: Column, kind: T.DataType, nulls: bool) -> Column:
    if isinstance(kind, T.StructType):
        inner = [_undeclared_within(_member(text, f.name), f.dataType, nulls) for f in kind if _has_struct(f.dataType)]
        return any_of([_undeclared(text, kind, nulls), *inner])
    assert isinstance(kind, T.ArrayType | T.MapType)
    element = kind.elementType if isinstance(kind, T.ArrayType) else kind.valueType
    parts = (
        F.from_json(text, "ARRAY<STRING>")
        if isinstance(kind, T.ArrayType)
        else F.map_values(F.from_json(text, "MAP<STRING, STRING>"))
    )
    return F.coalesce(F.exists(parts, lambda part: _undeclared_within(part, element, nulls)), F.lit(False))


def _member(text: Column, name: str) -> Column:
    if set(name) & set("'?*"):
        # No path can quote these.
        return F.try_element_at(F.from_json(text, "MAP<STRING, STRING>"), F.lit(name))
    return F.get_json_object(text, f"$['{name}']")


def _has_struct(kind: T.DataType) -> bool:
    if isinstance(kind, T.ArrayType):
        return _has_struct(kind.elementType)
    if isinstance(kind, T.MapType):
        return _has_struct(kind.valueType)
    return isinstance(kind, T.StructType)
