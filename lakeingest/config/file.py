"""Reads and checks a pipeline file: the one place that does.

1. The YAML text becomes plain values, each with its line.
2. `${NAME}` and `${NAME:-default}` are filled in, value by value, from the environment.
3. pydantic checks every part, `consistency` what the parts must agree on.
4. Every mistake is told at once, with file, line and cure. Values of secrets are never told, and for a value that
   the environment filled in stands the text of the file.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lakeingest.config import PipelineConfig, consistency, folder, mistakes, parts, per_topic, yaml_text
from lakeingest.config.base import Mistake, Part
from lakeingest.config.contract import Contract
from lakeingest.config.maintenance import Maintenance, RetentionOptions
from lakeingest.config.per_topic import PerTopic
from lakeingest.config.source import Registry, Source
from lakeingest.config.storage import Storage
from lakeingest.config.transform import Transform
from lakeingest.config.values import SchemaFile
from lakeingest.config.variables import Variables, names_in
from lakeingest.errors import PipelineFileError
from lakeingest.schema.readers import Reader

_LARGEST = 1 << 22


def read(path: Path, environment: Mapping[str, str]) -> PipelineConfig:
    """Read the file of one pipeline. A relative `gate.suite` or `schema_file` is taken from the file's own folder.

    Args:
        path: the YAML file; FILE:TOPIC for the pipeline of one topic, where the file is for many.
        environment: what `${NAME}` is filled from; `os.environ` as a rule.

    Raises:
        PipelineFileError: the file cannot be read, or is wrong; `problems` holds every mistake.
    """
    config = read_any(path, environment)
    if isinstance(config, PerTopic):
        text = (
            f"{path}: for each topic that {config.pattern.pattern!r} matches a pipeline; name one, as in {path}:TOPIC"
        )
        raise failure(str(path), [text])
    return config


def read_any(path: Path, environment: Mapping[str, str]) -> PipelineConfig | PerTopic:
    """Read a pipeline file as `read` does, one for many topics too.

    Raises:
        PipelineFileError: see `read`.
    """
    file, topic = _parted(path)
    try:
        document = yaml_text.parse(_text(file))
    except yaml_text.BadYaml as error:
        raise failure(str(file), [f"{file}:{error.line}: {error}"]) from None
    twice = [
        (line, Mistake(where, f"stands twice, first in line {first}; keep one of them"))
        for where, line, first in document.twice()
    ]
    shared: list[Mistake] = []
    pattern = per_topic.pattern(Variables(environment).fill(document.data), shared)
    if topic is not None and not (pattern and pattern.fullmatch(topic)):
        only = f"the topics that {pattern.pattern!r} matches" if pattern else "one pipeline, and the topics it names"
        raise failure(str(path), [f"{path}: {topic!r} is no topic of this file: it is for {only}"])

    # A process of its own may be given it, which has the environment of this one.
    parsed = _Parsed(file, document, dict(environment), (*twice, *((document.line(m.path), m) for m in shared)))
    if pattern is None:
        return parsed.of(None)
    config = parsed.of(topic or per_topic.EXAMPLE)
    return config if topic else PerTopic(str(document.data["name"]), pattern, config, parsed.of)


@dataclass(frozen=True)
class _Parsed:
    """The text of a pipeline file.

    Attributes:
        mistakes: what is wrong for any topic: line, and mistake.
    """

    file: Path
    document: yaml_text.Document
    environment: Mapping[str, str]
    mistakes: tuple[tuple[int, Mistake], ...]

    def of(self, topic: str | None) -> PipelineConfig:
        """The pipeline of a topic, or of all that the file names.

        Raises:
            PipelineFileError: the file is wrong.
        """
        by_line, config = [*self.mistakes], None
        try:
            config = _check(self.document.data, self.environment, self.file.parent, topic)
        except _Mistaken as error:
            by_line += ((self.document.line(m.path), m) for m in error.mistakes)
        if config is None or by_line:
            by_line.sort(key=lambda each: each[0])
            raise failure(str(self.file), [f"{self.file}:{line}: {_place(m)}" for line, m in by_line])
        return config


def read_all(files: Iterable[Path], environment: Mapping[str, str]) -> list[PipelineConfig | PerTopic]:
    """Read the pipeline files of these files and folders, each as `read_any` does.

    Raises:
        PipelineFileError: with the mistakes of all files.
        UsageError: a folder has none.
    """
    configs, problems = [], list[str]()
    for file in folder.expanded(files):
        try:
            configs.append(read_any(file, environment))
        except PipelineFileError as wrong:
            problems += wrong.problems
    if problems:
        raise failure("the pipelines", problems)
    return configs


def variables(path: Path, part: str) -> dict[str, tuple[str, ...]]:
    """The variables that the options of a part name, in a file that `read` has found good: option → their names."""
    file, _ = _parted(path)
    # A pipe gives its text once.
    options = (yaml_text.parse(_text(file)).data or {}).get(part) or {}
    return {option: names for option, value in options.items() if (names := names_in(value))}


def from_mapping(
    data: Mapping[str, Any], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> PipelineConfig:
    """Check the values of a pipeline file that Python holds, as `read` does.

    Args:
        data: what the YAML file would hold.
        environment: what `${NAME}` is filled from; nothing by default.
        folder: where a relative `gate.suite` or `schema_file` is taken from; the current folder by default.

    Raises:
        PipelineFileError: a value is wrong; `problems` holds every mistake.
    """
    try:
        return _check(data, environment or {}, folder or Path())
    except _Mistaken as error:
        raise failure("the pipeline", [_place(m) for m in error.mistakes]) from None


def text(path: Path) -> str:
    """The text of a file that a pipeline file names: a regular one of 4 MiB at most.

    Raises:
        OSError: it cannot be read, or is no such file.
        ValueError: the path has a NUL character.
        UnicodeDecodeError: it is not UTF-8.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EINVAL, "no regular file")
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise OSError(errno.EFBIG, f"larger than {_LARGEST:,} bytes")
    return content.decode("utf-8-sig")


def failure(name: str, problems: list[str]) -> PipelineFileError:
    """The one error that tells every mistake of a file, or of several."""
    count = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    cure = "change what is named above; `lakeingest describe` explains every option"
    return PipelineFileError(f"{name}: {count}", cure=cure, problems=tuple(problems))


class _Mistaken(Exception):
    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes


def _text(path: Path) -> str:
    try:
        # A pipe will do here, as a shell makes one of a command's output.
        with path.open("rb") as file:
            return file.read(4 * yaml_text.LARGEST + 1).decode("utf-8-sig")
    except FileNotFoundError:
        problem = "no such file; `lakeingest init` writes one to start from"
    except IsADirectoryError:
        problem = "a folder; name the pipeline file within it"
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        problem = f"byte 0x{error.object[error.start]:02x} in line {line} is not UTF-8; save the file as UTF-8"
    except OSError as error:
        problem = f"cannot be read ({error.strerror}); check its path and permissions"
    raise failure(str(path), [f"{path}: {problem}"])


def _place(mistake: Mistake) -> str:
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in mistake.path).lstrip(".")
    return f"{path}: {mistake.text}" if path else mistake.text


def _parted(path: Path) -> tuple[Path, str | None]:
    """A file, and the topic that is named behind it."""
    name, colon, topic = path.name.rpartition(":")
    return (path.with_name(name), topic) if colon and name and not path.exists() else (path, None)


def _check(data: Any, environment: Mapping[str, str], folder: Path, topic: str | None = None) -> PipelineConfig:
    if data is None or data == {}:
        raise _Mistaken([Mistake((), "empty; `lakeingest init` writes a file to start from")])
    if not isinstance(data, Mapping):
        raise _Mistaken([Mistake((), "not a mapping of options; begin with a line such as 'name: flights'")])
    variables = Variables(environment, topic)
    values = variables.fill(data)
    if topic is not None:
        values["source"] = per_topic.of_one(values["source"], topic)
    _resolve_suite(values, folder)
    unread = [variables.as_written(m, values) for m in _read_schemas(values, folder)]
    missing = variables.missing + [m for m in unread if m.path not in {other.path for other in variables.missing}]
    try:
        pipeline = PipelineConfig.model_validate(values)
    except ValidationError as error:
        unset = {m.path for m in missing}
        of_values = [m for m in mistakes.of(error, values, variables.filled) if m.path not in unset]
        paths = unset | {m.path for m in of_values}
        of_values += [m for m in _disagreements(values) if m.path not in paths]
        raise _Mistaken([*missing, *(variables.as_written(m, values) for m in of_values)]) from None
    if missing:
        raise _Mistaken(missing)
    return pipeline


def _resolve_suite(values: dict[str, Any], folder: Path) -> None:
    gate = values.get("gate")
    if isinstance(gate, dict) and isinstance(gate.get("suite"), str) and gate["suite"].strip():
        gate["suite"] = str(folder / gate["suite"].strip())


def _read_schemas(values: dict[str, Any], folder: Path) -> Iterator[Mistake]:
    """Put what Avro schema files hold in the place of their paths; a file that cannot be read is a mistake."""
    decode = values.get("decode")
    for side in ("value", "key"):
        part = decode.get(side) if isinstance(decode, dict) else None
        written = part.get("schema_file") if isinstance(part, dict) else None
        if not isinstance(part, dict) or not isinstance(written, str) or not written.strip():
            continue
        path = folder / written.strip()
        part["schema_file"] = str(path)
        try:
            part["schema_file"] = SchemaFile(str(path), text(path))
        except OSError as error:
            problem = f'"{path}" cannot be read ({error.strerror}); the path is relative to the pipeline file'
            yield Mistake(("decode", side, "schema_file"), problem)
        except UnicodeDecodeError:
            yield Mistake(("decode", side, "schema_file"), f'"{path}" is not UTF-8; save the file as UTF-8')
        except ValueError:
            yield Mistake(("decode", side, "schema_file"), "no path, for it has a NUL character; write a path")


def _disagreements(values: dict[str, Any]) -> Iterator[Mistake]:
    """Contradictions between the parts that are right in themselves, although others are wrong."""
    partition = values.get("partition")
    listed = [_valid(parts.Partition, p) for p in partition] if isinstance(partition, list) else []
    file = consistency.Parts(
        decode=_valid(parts.Decode, values.get("decode", {})),
        schema=_valid(parts.Schema, values.get("schema", {})),
        partition={i: part for i, part in enumerate(listed) if part is not None},
        table=_valid(parts.Table, values.get("table")),
        quarantine=_valid(parts.Quarantine, values.get("quarantine", {})),
        gate=_valid(parts.Gate, values.get("gate")),
        storage=_valid(Storage, values.get("storage", {})),
        readers=_valid(tuple[Reader, ...], values.get("readers", ())) or (),
        transform=_valid(tuple[Transform, ...], values.get("transform", ())) or (),
        registry=_valid(Registry, values.get("registry", {})),
        contract=_valid(Contract, values["contract"]) if "contract" in values else None,
        trigger=_valid(parts.Trigger, values.get("trigger", {})),
        source=_valid(Source, _own_options(Source, values.get("source"))),
        maintenance=_valid(Maintenance, values.get("maintenance", {})),
        retention=_valid(RetentionOptions, values.get("retention", {})),
    )
    return consistency.mistakes(file)


def _own_options(kind: type[Part], value: Any) -> Any:
    """The values of a part's own options: what another one is missing for is told beside an unknown one."""
    return {k: v for k, v in value.items() if k in kind.model_fields} if isinstance(value, dict) else value


def _valid(kind: Any, value: Any) -> Any:
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return None
