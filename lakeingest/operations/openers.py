"""How a pipeline's table is opened with the tools that people have, and which of them can read it as it is now."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakeingest.config import PipelineConfig, Storage, location
from lakeingest.delta.reader.log import OfflineLog, Unreadable
from lakeingest.operations import latest_view
from lakeingest.operations.results.openers import Opener
from lakeingest.record import DELETE, OPERATION
from lakeingest.schema.readers import Reader, shut_out

_KEYS = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
}
"""Option of `storage` → the variable of the environment where the tools look for it by themselves."""


@dataclass(frozen=True)
class _TableAddress:
    """The table as the tools name it.

    Attributes:
        url: s3://bucket/path, or a path of this machine.
        options: what delta-rs and polars need to know of the store, as Python text; "" for nothing.
    """

    config: PipelineConfig
    storage: Storage
    on_s3: bool
    url: str
    view: str
    options: str

    def select(self, table: str, quote: str = '"', schema: str = "") -> str:
        """SQL that shows the table; where deletes are rows, by a view of the latest ones.

        Args:
            schema: where a view is made, and a dot; "" for where the session is.
        """
        if not self.config.table.marks:
            return f"SELECT * FROM {table};"
        view = f"{schema}{quote}{self.view.lower()}_latest{quote}"
        query = latest_view.query(self.config, table, quote)
        return f"CREATE OR REPLACE VIEW {view} AS\n{query};\nSELECT * FROM {view};"

    def in_python(self, code: str) -> str:
        """Code that opens the table; where deletes are rows, it says that they are among the others."""
        if not self.config.table.marks:
            return code
        return f"# All rows; {OPERATION} is {DELETE} where one deletes. For DuckDB and Spark there is a view.\n{code}"

    @property
    def endpoint(self) -> str | None:
        return self.storage.endpoint if self.on_s3 else None


def credentials(config: PipelineConfig, storage: Storage, variables: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Where the keys are: the variable that tools look for → where its value comes from. Never the value.

    Args:
        variables: those that `storage` names in the file, see `config.file.variables`.
    """
    if not any(location.place(path).on_s3 for path in config.paths):
        return {}
    if storage.role:
        assumed = f"`aws sts assume-role --role-arn {storage.role.arn} --role-session-name …`"
        return dict.fromkeys(_KEYS.values(), assumed)
    lines = {}
    for option, name in _KEYS.items():
        if getattr(storage, option) is None:
            continue
        if option in variables:
            lines[name] = " and ".join(f"${each}" for each in variables[option])
        elif getattr(config.storage, option) is None:
            lines[name] = 'the embedded stack: eval "$(lakeingest stack env)"'
        else:
            lines[name] = f"storage.{option} of the file"
    return lines or dict.fromkeys((*_KEYS.values(),)[:2], "the environment, or the platform")


def openers(config: PipelineConfig, storage: Storage) -> list[Opener]:
    """The tools, each with what to write; a table that only a catalog knows is opened by its name, in Spark."""
    identifier = config.table.identifier
    if not location.is_path(identifier):
        place = _TableAddress(config, storage, False, "", identifier.rpartition(".")[2], "")
        return [Opener("Spark SQL", "sql", True, "", place.select(identifier, "`"))]
    try:
        features, unknown = OfflineLog(identifier, storage).state.features, ""
    except Unreadable as failed:
        features, unknown = set[str](), str(failed)
    place = _place(config, storage)
    results = []
    for tool, (reader, language, code) in _TOOLS.items():
        features_barred = shut_out([reader], features)
        why = unknown or (f"it does not know {', '.join(features_barred[reader])}" if features_barred else "")
        reads = None if unknown else not features_barred
        if elsewhere := _out_of_reach(tool, place):
            reads, why = False, elsewhere
        results.append(Opener(tool, language, reads, why, "" if reads is False else code(place)))
    return results


def _out_of_reach(tool: str, place: _TableAddress) -> str:
    """Why a tool does not come to where the table lies; "" where it does."""
    if place.on_s3 and tool != "Spark SQL":
        if place.storage.encryption and place.storage.encryption.type == "SSE-C":
            return "it cannot send the key that the table is encrypted with (storage.encryption: SSE-C)"
        if place.storage.access_points:
            return "it is let in by an access point alone (storage.access_points); name its alias instead of the bucket"
    if tool == "Athena" and (place.endpoint or not place.on_s3):
        return f"it reads S3 of AWS alone, and the table is at {place.endpoint or place.url}"
    return f"it reads object stores, and the table is at {place.url}" if tool == "Trino" and not place.on_s3 else ""


def _place(config: PipelineConfig, storage: Storage) -> _TableAddress:
    place = location.place(config.table.identifier)
    inside = "/".join(place.steps)
    url = f"s3://{place.bucket}/{inside}" if place.on_s3 else f"/{inside}"
    options = {}
    if place.on_s3 and storage.endpoint:
        options = {"aws_endpoint_url": storage.endpoint, "aws_region": storage.region or "us-east-1"}
        options |= {"aws_allow_http": "true"} if storage.endpoint.startswith("http:") else {}
        options |= {} if storage.path_style else {"aws_virtual_hosted_style_request": "true"}
    elif place.on_s3 and storage.region:
        options = {"aws_region": storage.region}
    return _TableAddress(config, storage, place.on_s3, url, re.sub(r"\W", "_", place.steps[-1]), _python(options))


def _python(options: Mapping[str, str]) -> str:
    inside = ", ".join(f'"{name}": "{value}"' for name, value in options.items())
    return f", storage_options={{{inside}}}" if options else ""


def _spark(place: _TableAddress) -> str:
    return place.select(f"delta.`{place.config.table.identifier}`", "`")


def _athena(place: _TableAddress) -> str:
    return (
        f"CREATE EXTERNAL TABLE `{place.view}` LOCATION '{place.url}/' TBLPROPERTIES ('table_type' = 'DELTA');\n"
        + place.select(f'"{place.view}"')
    )


def _trino(place: _TableAddress) -> str:
    store = ["fs.native-s3.enabled=true", *(f"s3.{line}" for line in _trino_store(place))]
    lines = (
        "-- in etc/catalog/delta.properties, beside connector.name=delta_lake and the metastore:",
        *(f"-- {line}" for line in ("delta.register-table-procedure.enabled=true", *store)),
        "CREATE SCHEMA IF NOT EXISTS delta.lakeingest;",
        f"CALL delta.system.register_table('lakeingest', '{place.view.lower()}', '{place.url}');",
        place.select(f'delta.lakeingest."{place.view.lower()}"', schema="delta.lakeingest."),
    )
    return "\n".join(lines)


def _trino_store(place: _TableAddress) -> list[str]:
    storage, lines = place.storage, []
    if storage.endpoint:
        lines.append(f"endpoint={storage.endpoint}")
    if storage.endpoint or storage.region:
        lines.append(f"region={storage.region or 'us-east-1'}")
    if storage.path_style:
        lines.append("path-style-access=true")
    if storage.access_key is not None:
        lines += ["aws-access-key=${ENV:AWS_ACCESS_KEY_ID}", "aws-secret-key=${ENV:AWS_SECRET_ACCESS_KEY}"]
    return lines


def _duckdb(place: _TableAddress) -> str:
    lines = ["INSTALL delta; LOAD delta;"]
    if place.on_s3:
        parts = ["TYPE s3", "PROVIDER credential_chain"]
        if place.storage.endpoint or place.storage.region:
            parts.append(f"REGION '{place.storage.region or 'us-east-1'}'")
        if place.storage.endpoint:
            scheme, _, host = place.storage.endpoint.partition("://")
            parts += [f"ENDPOINT '{host.rstrip('/')}'", f"USE_SSL {str(scheme == 'https').lower()}"]
        if place.storage.path_style:
            parts.append("URL_STYLE 'path'")
        lines += ["INSTALL aws; LOAD aws;", f"CREATE SECRET ({', '.join(parts)});"]
    return "\n".join((*lines, place.select(f"delta_scan('{place.url}')")))


def _polars(place: _TableAddress) -> str:
    return place.in_python(f'import polars as pl\npl.scan_delta("{place.url}"{place.options}).collect()')


def _deltalake(place: _TableAddress, method: str) -> str:
    return place.in_python(f'from deltalake import DeltaTable\nDeltaTable("{place.url}"{place.options}).{method}()')


def _delta_rs(place: _TableAddress) -> str:
    return _deltalake(place, "to_pyarrow_table")


def _pandas(place: _TableAddress) -> str:
    return _deltalake(place, "to_pandas")


_TOOLS: Mapping[str, tuple[Reader, str, Callable[[_TableAddress], str]]] = {
    "Spark SQL": ("spark", "sql", _spark),
    "Athena": ("athena", "sql", _athena),
    "Trino": ("trino", "sql", _trino),
    "DuckDB": ("duckdb", "sql", _duckdb),
    "polars": ("polars", "python", _polars),
    "delta-rs": ("delta-rs", "python", _delta_rs),
    "pandas": ("delta-rs", "python", _pandas),
}
"""Tool → whose limits it has, the language of its code, and the code."""
