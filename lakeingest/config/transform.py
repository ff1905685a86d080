"""The transforms of the pipeline file: what is done to a record's columns, in the order of the list."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lakeingest.config.base import Part
from lakeingest.config.values import Kind, Name, Own
from lakeingest.record import is_reserved
from lakeingest.schema import ddl
from lakeingest.schema.transforms import Mask, TransformStep


def _column(name: str) -> str:
    try:
        ddl.parse(f"{ddl.quoted(name)} INT")
    except ddl.DdlError as error:
        raise ValueError(str(error)) from None
    if is_reserved(name) or name.startswith("_"):
        raise ValueError("names that begin with _ are lakeingest's own; write another one")
    return name


def _type(text: str) -> str:
    try:
        ddl.parse(f"c {text}")
    except ddl.DdlError as error:
        # Behind the column's name, and the text that an error shows by itself.
        raise ValueError(error.problems[0].removeprefix("c: ").removeprefix(f"'{text}': ")) from None
    return text


def _mask(value: Any) -> Any:
    match value:
        case Mask():
            return value
        case None | "null":
            return Mask("null")
        case {"hash": str(salt)} if len(value) == 1 and salt:
            return Mask("hash", salt)
        case {"constant": str(text)} if len(value) == 1:
            return Mask("constant", text)
        case {"last": int(count)} if len(value) == 1 and 0 < count <= 100 and count is not True:
            return Mask("last", kept_characters=count)
    raise ValueError("not a mask; write null, {hash: ${SALT}}, {last: 4} or {constant: hidden}")


_Column = Annotated[str, AfterValidator(_column)]
_Type = Annotated[str, AfterValidator(_type)]
_Names = Annotated[tuple[str, ...], Field(min_length=1), Kind("list of columns")]
_Renames = Annotated[dict[str, _Column], Field(min_length=1), Kind("map of old name: new name")]
_Casts = Annotated[dict[str, _Type], Field(min_length=1), Kind("map of column: type")]
_Derives = Annotated[dict[_Column, str], Field(min_length=1), Kind("map of column: SQL")]
_Masks = Annotated[
    dict[str, Annotated[Mask, BeforeValidator(_mask, json_schema_input_type=str | dict[str, str | int])]],
    Field(min_length=1),
    Kind("map of field: null, {hash: secret salt}, {last: 4} or {constant: text}"),
]
_Conditions = Annotated[dict[Name, str], Field(min_length=1), Kind("map of name: SQL")]


class Transform(Part):
    """One step: what it does, by exactly one of these options. Each step sees what the one before it left."""

    rename: _Renames | None = Field(
        None, description="Give columns other names.", examples=[{"flight": "flight_number"}]
    )
    drop: _Names | None = Field(
        None,
        description="Leave columns out; dotted for fields of structs. Also _key, _headers (one header: _headers.NAME) "
        "and _rescued.",
        examples=[["carrier"]],
    )
    keep: _Names | None = Field(
        None,
        description="Leave all other columns out, and all other fields out of _rescued, unless the list has _rescued.",
        examples=[["flight", "carrier", "time_hour"]],
    )
    cast: _Casts | None = Field(
        None,
        description="Give columns another type. A value that is none goes to quarantine.",
        examples=[{"flight": "BIGINT"}],
    )
    mask: _Masks | None = Field(
        None,
        description="Hide fields, dotted within structs: null, {hash: SALT} (SHA-256 of salt and text), {last: N} "
        "(*** and so many characters) or {constant: TEXT}. Also _key, _headers.NAME and _rescued. Messages in "
        "quarantine show no values then, and quarantine.keep_bytes has to say what becomes of the bytes.",
        examples=[{"carrier": {"hash": "${SALT}"}}],
    )
    derive: _Derives | None = Field(
        None,
        description="Compute columns, or compute them anew: SQL over the record's columns, _topic, _partition, _offset "
        "and _timestamp. A record for which it cannot be computed goes to quarantine.",
        examples=[{"per_hour": "CAST(distance / hours AS DOUBLE)"}],
    )
    flatten: _Names | None = Field(
        None, description="Make a column of each field of a struct, as in address_street.", examples=[["address"]]
    )
    where: _Conditions | None = Field(
        None,
        description="Keep the records that meet all these conditions (SQL). The others are dropped, and counted under "
        "the condition's name.",
        examples=[{"flown": "hours IS NOT NULL"}],
    )

    own: Own | None = Field(
        None,
        description="A class of one's own, as module:Class or as an entry point, that computes columns (see "
        "lakeingest.extend.Step). Runs with --allow-code alone.",
        examples=["my_company.steps:Decoder"],
    )

    @model_validator(mode="after")
    def _one(self) -> Transform:
        if len(names := self.model_fields_set) != 1:
            count = f"{len(names)} at once ({', '.join(sorted(names))})" if names else "none"
            raise ValueError(
                f"not one step, but {count}; write one of {', '.join(type(self).model_fields)} behind each dash"
            )
        return self

    @property
    def step(self) -> TransformStep:
        """The step, as `schema.transforms` knows it."""
        (kind,) = self.model_fields_set
        value = getattr(self, kind)
        if kind == "mask":
            return TransformStep("mask", masks=value)
        if kind == "own":
            return TransformStep("own", (value,))
        return TransformStep(kind, texts=value) if isinstance(value, dict) else TransformStep(kind, names=value)  # type: ignore[arg-type]
