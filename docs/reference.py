"""Writes the documentation's pages into a folder: those of docs/ as they are, and the reference, made from the code.

    python docs/reference.py build/docs

The reference is not committed: `make docs` makes it each time. So it is never out of date, and a change of the code
needs no commit of a page. No list stands here that the code knows: options come from the model of the pipeline file,
commands from the command line, errors from the runbook that `lakeingest explain` reads, columns and receipt from the
modules that write them, faults from the tests that make them.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import typer
from packaging.requirements import Requirement
from pyspark.sql.types import BinaryType, StructType
from ruamel.yaml import YAML

import lakeingest
from lakeingest import cli, errors, pipeline, record, testing
from lakeingest.cli.explain import RUNBOOK
from lakeingest.config import file as pipeline_file
from lakeingest.config import options
from lakeingest.decode import Shape
from lakeingest.delta import completeness, quarantine
from lakeingest.delta import receipt as receipts
from lakeingest.gate import expectations as known
from lakeingest.gate import results
from lakeingest.ingest import shape
from lakeingest.local import artifacts
from lakeingest.operations import connect
from lakeingest.schema import ddl

ROOT = Path(__file__).parent.parent
PIPELINE = getattr(pipeline, inspect.signature(lakeingest.load).return_annotation)
"""What `lakeingest.load` gives."""
MEANINGS = {
    record.TOPIC: "the record's topic",
    record.PARTITION: "its Kafka partition",
    record.OFFSET: "its offset; topic, partition and offset are the record's coordinates",
    record.TIMESTAMP: "its own timestamp; null outside of the years 0001 to 9999",
    record.KEY: "its key, as `decode.key` says; BINARY by default",
    record.HEADERS: "its headers; not with `decode.headers: false`",
    record.SCHEMA_ID: "the registry's id of the schema that the value was written with, in AWS Glue the version's "
    "UUID (a text); only where a registry has it",
    record.RESCUED: "fields that no column takes, as a JSON object, or null; not for the formats string and bytes",
}
"""The columns that lakeingest adds to a table; a test compares the names with `record.RESERVED`."""


STORED = {
    "lakeingest": receipts.FORM,
    "pipeline": "flights",
    "sequence": 8,
    "run": {"id": "4f0c…", "host": "host-2", "pid": 4711, "started": "2026-11-24T20:00:00.000+00:00"},
    "cluster": "5L6g3nShT-eMCtK--X86sw",
    "topics": {"flights": "y2Gq…"},
    "offsets": {"flights": {"0": [5000, 6000], "1": [4100, 5000]}},
    "quarantine": "s3a://lake/flights_quarantine",
    "job": {
        "name": "run",
        "gaps": {"flights": {"0": [4000, 5000]}},
        "accepted": {"who": "ada on host-2", "why": "holiday", "broken": ["expect_table_row_count_to_be_between"]},
        "adopted": {
            "version": 12,
            "rows": 336776,
            "without": 336776,
            "how": "the coordinates topic='flights', partition=part, offset=off",
            "who": "ada on host-2",
        },
        "remaining": 20000,
        "read_from": {"table": "s3a://lake/bronze", "version": 41, "id": "5f3c…", "since": 40},
        "late": {"flights": {"0": [310, 412]}},
        "dropped_topics": {"flights_old": "kP0d…"},
        "moved": {"flights": {"0": "eNoTFAMAADoAKA=="}},
    },
    "account": {
        "counts": {"consumed": 1900, "accepted": 1898, "refused": 1, "dropped": 1},
        "left_out": {"flown": 1},
        "lost": 1000,
        "gaps": {"flights": {"0": [5000, 6000]}},
        "settles": 7,
        "open": 1,
        "table": {"rows": 1898, "mixed": "2b1f0c53a97d4e68", "placed": "0000000000002e"},
        "deletes": 3,
        "ties": 1,
        "remembered": 41,
        "refused": {"flights": {"0": "eNrrVgcAAT8Asw=="}},
    },
    "schemas": {"digest": "82ca8c7044ae762a"},
    "decided": {"version": 12, "account": 6},
    "before": {
        "sequence": 7,
        "table": {"rows": 2000, "mixed": "19c4e2b7035fa8d1", "placed": "00000000000051"},
        "quarantine": None,
    },
    "log_ends": {"shop.public.orders": {"0": [24012344, 24012400, 0, 1764490000000000]}},
}
"""A receipt as it is stored, of which a real one has some of the fields."""

EXTRAS = {
    "spark": "Spark and Delta started by lakeingest; what reads tables without Spark",
    "sql": "what reads tables without Spark, alone: `sql`, `status`, `quarantine list`",
    "connect": "a client of Spark Connect",
    "gate": "expectations of batches",
    "report": "the page of `report`",
    "database": "`lakeingest compare`; the database's driver comes beside it",
    "metrics": "`run --listen`: metrics, and a page",
    "lineage": "OpenLineage's events",
    "protobuf": "records in Protobuf",
    "glue": "tables in AWS Glue's catalog, schemas in its registry",
    "msk": "MSK with IAM: the signer of librdkafka's tokens",
    "local": "the embedded Kafka, S3 server and registry",
    "testing": "tests of your own pipelines",
    "demo": "the flights of the demo",
    "notebook": "the notebooks",
    "docs": "these pages",
}
"""What pyproject.toml lets one install, but for what only developers of lakeingest need."""


def write(folder: Path) -> None:
    """Lay all pages into the folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (folder / "reference").mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (folder / "reference" / f"{name}.md").write_text("\n".join(make()).strip() + "\n", encoding="utf-8")


def misplaced(folder: Path) -> list[str]:
    """The pages that the navigation of mkdocs.yml lacks, and those that it names and that are not there."""

    def named(node: Any) -> Iterator[str]:
        if isinstance(node, str):
            yield node
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from named(child)

    listed = {*named(YAML(typ="safe").load(ROOT / "mkdocs.yml")["nav"])}
    return sorted(listed ^ {str(page.relative_to(folder)) for page in folder.rglob("*.md")})


def cell(text: object) -> str:
    """A text within a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def code(text: object) -> str:
    """A word as the file or the command line has it; nothing for nothing."""
    return f"`{text}`".replace("|", "\\|") if text not in (None, "") else ""


def rows(headings: str, lines: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; the headings are separated by bars."""
    yield from ("", f"| {headings} |", "|---" * (headings.count("|") + 1) + "|")
    yield from (f"| {' | '.join(line)} |" for line in lines)
    yield ""


def attributes(docstring: str | None) -> dict[str, str]:
    """The names that a docstring explains beneath Attributes, with what it says of each."""
    block = inspect.cleandoc(docstring or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^ {4}([\w, ]+): (.*(?:\n {5,}.*)*)", block, flags=re.MULTILINE)
    return {name: text for names, text in entries for name in names.split(", ")}


def columns(module: Any) -> Iterator[str]:
    """The columns of `module.COLUMNS`, with what lines such as `stage STRING    what refused it` say of them."""
    meanings: dict[str, str] = {}
    for line in (module.__doc__ or "").splitlines():
        declared, _, text = line.partition("   ")
        meanings |= dict.fromkeys(re.findall(r"(?:^|, )([_a-z]+) [A-Z]", declared), text.strip())
    lines = ((code(c.name), typed(str(c.type)), cell(meanings[c.name])) for c in ddl.parse(module.COLUMNS))
    return rows("column | type | meaning", lines)


def typed(text: str) -> str:
    """A type as DDL has it: its words in capitals, the names of fields as they are."""
    return code(re.sub(r"\b[a-z]+\b(?!:)", lambda word: word[0].upper(), text).replace(",", ", ").replace(":", ": "))


def prose(docstring: str | None) -> Iterator[str]:
    """A docstring as Markdown: its sections (Args, Returns, Raises, Attributes) as lists, its example as code."""
    text, _, example = inspect.cleandoc(docstring or "").partition("\nExample:\n")
    for line in text.split("\n"):
        if re.fullmatch(r"(Args|Returns|Raises|Attributes):", line):
            yield from (f"**{line.removesuffix(':')}**", "")
        elif found := re.fullmatch(r" {4}(\w[\w, ]*): (.+)", line):
            yield f"- `{found[1]}`: {found[2]}"
        else:
            yield line if line.startswith("        ") else line.removeprefix("    ")
    yield from ("", "```python", *(line.removeprefix("    ") for line in example.split("\n")), "```") if example else ()
    yield ""


def pipeline_options() -> Iterator[str]:
    """Every option of the pipeline file, part by part."""
    yield from ("# Every option of the pipeline file", "")
    yield "`lakeingest describe PART` shows the same, `lakeingest describe --json-schema` is for editors."
    yield "`${NAME}` and `${NAME:-default}` in a value are filled in from the environment; `$${` is a plain `${`."
    parts = [options.tree()]
    while parts:
        part = parts.pop(0)
        kinds = f"It is of one of these kinds; the option `{part.chooser}` tells which." if part.chooser else ""
        yield from ("", f"## {code(part.path) or 'The file'}", "", part.meaning, kinds)
        asked = sorted(part.options, key=lambda option: not option.required)
        lines = ((code(o.name), cell(o.type), "required" if o.required else code(o.default), example(o)) for o in asked)
        yield from rows("option | type | default | meaning", lines)
        parts = [option for option in part.options if option.options] + parts


def example(option: options.Option) -> str:
    """The meaning of an option, with an example."""
    return cell(option.meaning) + (f" For example {code(option.example)}." if option.example else "")


def commands() -> Iterator[str]:
    """Every command with its arguments and options, and the exit codes as the runbook has them."""
    yield from ("# Every command", "", "`--help` behind any command shows the same.", "")
    yield from command("lakeingest", typer.main.get_command(cli.app))
    table_of_codes = next(b for b in RUNBOOK.read_text(encoding="utf-8").split("\n\n") if b.startswith("| exit code"))
    yield from ("## Exit codes", "", table_of_codes)


def command(name: str, found: Any) -> Iterator[str]:
    """One command; of a group all that are in it."""
    for each, within in getattr(found, "commands", {}).items():
        yield from command(f"{name} {each}", within)
    if not hasattr(found, "commands"):
        text, _, examples = (found.help or "").partition("\f")[0].partition("Example")
        yield from (f"## {name}", "", text.strip())
        named = {p: p.opts[0] if p.opts[0].startswith("-") else p.name.upper() for p in found.params}
        lines = ((code(named[p]), default(p), cell(p.help)) for p in found.params)
        yield from rows("argument or option | default | meaning", lines)
        shown = [line.strip() for line in examples.lstrip("s:").splitlines() if line.strip()]
        yield from ("```sh", *shown, "```", "") if shown else ()


def default(parameter: Any) -> str:
    """What an argument or option is if it is left out."""
    return "required" if parameter.required else "" if parameter.default is False else code(parameter.default)


def runbook() -> Iterator[str]:
    """Every error with its cure: the runbook as it ships, with the tree of errors and each one's exit code."""
    yield "# Every error, and what to do"
    for block in RUNBOOK.read_text(encoding="utf-8").split("\n\n")[1:]:
        error = getattr(errors, block.removeprefix("## "), None)
        if block.startswith("A record that cannot be a row"):
            yield from ("", "## Reasons in quarantine")
        if block == "## UsageError":
            tree = inspect.cleandoc(errors.__doc__ or "").split("\n\n", 1)[1]
            yield from ("", "## The tree of errors", "", "```text", *tree.split("\n"), "```")
        yield from ("", block.replace("``DESC", "`` DESC"))
        if error:
            helps = "a later try may succeed" if error.retry_helps else "the same try would fail again"
            yield from ("", f"Exit code {error.exit_code}, stage `{error.stage}`; {helps}.")


def python() -> Iterator[str]:
    """The public names: of the package, of a pipeline and what its methods give, and of lakeingest.testing."""
    yield from ("# The Python API", "")
    for name in lakeingest.__all__:
        if getattr(lakeingest, name) is not PIPELINE:
            yield from api(f"lakeingest.{name}", getattr(lakeingest, name))
    yield from api(PIPELINE.__name__, PIPELINE)
    methods = [m for name, m in vars(PIPELINE).items() if inspect.isfunction(m) and name[0] != "_"]
    for method in methods:
        yield from api(f"{PIPELINE.__name__}.{method.__name__}", method)
    words = dict.fromkeys(re.findall(r"[A-Z]\w+", " ".join(str(inspect.signature(method)) for method in methods)))
    for given in filter(inspect.isclass, (getattr(pipeline, word, None) for word in words)):
        if given.__module__.startswith("lakeingest") and given is not PIPELINE:
            yield from api(given.__name__, given)
    for file in sorted(Path(testing.__file__).parent.glob("[a-z]*.py")):
        module = ast.parse(file.read_text(encoding="utf-8"))
        yield from (
            f"## lakeingest.testing.{file.stem}",
            "",
            *prose((ast.get_docstring(module) or "").split("\n\n")[0]),
        )
        for node in public(module):
            yield from (f"### {node.name}", "", *prose(ast.get_docstring(node)))
            yield from (
                f"- `{each.name}`: {(ast.get_docstring(each) or '').partition(chr(10))[0]}" for each in public(node)
            )
            yield ""


def api(name: str, found: Any) -> Iterator[str]:
    """A class or function with its signature and its docstring."""
    yield from (f"## {name}", "")
    if inspect.isfunction(found):
        signature = re.sub(r"<function .*?>( at \w+>)?", "…", str(inspect.signature(found))).replace("'", "")
        yield from (
            "```python",
            f"{found.__name__}{signature}".replace("(self, ", "(").replace("(self)", "()"),
            "```",
            "",
        )
    yield from prose(found.__doc__)


def public(node: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """The classes and functions of a module, or the methods of a class, that explain themselves."""
    found = (n for n in ast.iter_child_nodes(node) if isinstance(n, ast.ClassDef | ast.FunctionDef))
    return (n for n in found if not n.name.startswith("_") and ast.get_docstring(n))


def tables() -> Iterator[str]:
    """The columns of the tables of a pipeline."""
    example = pipeline_file.read(ROOT / "pipelines" / "weather.yaml", {})
    types = {
        f.name: f.dataType.simpleString() for f in shape.table_columns(example, Shape(StructType(), BinaryType(), {}))
    }
    lines = [(code(name), typed(types[name]), cell(text)) for name, text in MEANINGS.items()]
    lines += [("the value's", "", "as declared, or as the records' schema has them; `value` for string and bytes")]
    lines += [("of partitions", "", "as [the partition says](../how-to/partitions.md)")]
    yield from ("# The columns of the tables", "", "## The table", *rows("column | type | meaning", lines))
    yield from ("## The quarantine", *columns(quarantine), "## The results of the gate", *columns(results))
    yield from ("## Completeness", *columns(completeness))


CALLED = {
    "ranges": "offsets",
    "ledger": "schemas.digest",
    "schemas": "schemas.seen, schemas.current, schemas.tables",
    "base": "decided.version",
    "aside": "decided.account",
}
"""What attributes of a receipt are called in the JSON, where that is another name."""


def receipt() -> Iterator[str]:
    """What a commit says of itself, with an example that the code has read and written."""
    made = receipts.Receipt.from_json(json.dumps(STORED))
    assert made is not None
    written = json.loads(made.to_json())
    assert written == STORED
    yield from (
        "# The receipt",
        "",
        "Each commit of lakeingest carries one as its `userMetadata`: JSON in the table's log,",
    )
    yield "which `DESCRIBE HISTORY` shows. This one has every field but the schemas; what is empty is left out."
    yield from ("", "```json", json.dumps(written, indent=2, ensure_ascii=False), "```")
    first = (
        "`lakeingest`",
        f"the receipt's form, {receipts.FORM} today; a reader refuses a newer one, and reads the older ones",
    )
    lines = [(code(name), cell(text)) for name, text in _fields(receipts.Receipt, written)]
    yield from rows("in the JSON | meaning", [first, *lines])
    for part, name in ((receipts.JobFields, "job"), (receipts.Account, "account")):
        yield f"## `{name}`"
        yield from rows("in the JSON | meaning", [(code(n), cell(t)) for n, t in _fields(part, written[name])])
    yield "A sum of coordinates has `rows` (how many), `mixed` and `placed` (texts of hexadecimal digits): see"
    yield "[how exactly once works](../explanation/exactly-once.md#the-sums-of-coordinates). Null is a sum that nobody"
    yield "knows any more."
    yield ""
    yield "Offsets have the form `{topic: {partition: [first, one past the last]}}`. Form 1 had the fields of `job` and"
    yield "`account` beside the others, `left` for `job.dropped_topics`, and `ledger`, `base` and"
    yield "`aside` for `schemas.digest`, `decided.version` and `decided.account`."


def _fields(part: type, written: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a part of a receipt is called in the JSON, and what it means."""
    meanings = {CALLED.get(name, name): text for name, text in attributes(part.__doc__).items()}
    assert {name.partition(".")[0] for name in meanings} == written.keys() - {"lakeingest"}
    yield from meanings.items()


def expectations() -> Iterator[str]:
    """The expectations of Great Expectations that a suite may have."""
    yield from ("# Every expectation that a suite may have", "")
    yield "How each is evaluated decides what it costs, and whether it can refuse single records: see"
    yield "[Expectations](../how-to/gates.md)."
    of_batch = known.KNOWN.keys() - known.ROWWISE - known.WITHOUT_SPARK.keys()
    titles = {
        "Of each record, in the pass that writes the batch": known.ROWWISE,
        "Of a batch, before its commit": of_batch,
    }
    for title, names in titles.items():
        listed = ((name, *(", ".join(map(code, sorted(some))) for some in known.KNOWN[name])) for name in sorted(names))
        lines = ((code(name), needs, may) for name, needs, may in listed)
        yield from (f"## {title}", *rows("expectation | requires | may have", lines))
    instead = ((code(name), cell(why)) for name, why in known.WITHOUT_SPARK.items())
    yield from ("## Not possible", *rows("expectation | why, or what to use", instead))


def modules() -> Iterator[str]:
    """Every module with the first sentence of what it says of itself."""
    yield from (
        "# Every module, in one sentence",
        "",
        "In the order of the names; [Architecture](../architecture.md) has",
    )
    yield "the order in which they call each other."
    package = Path(lakeingest.__file__).parent
    folders = sorted({file.parent for file in package.rglob("*.py")})
    for folder in folders:
        files = sorted(folder.glob("*.py"))
        said = {file: ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "" for file in files}
        lines = (
            (code(file.stem), cell(text.partition("\n\n")[0])) for file, text in said.items() if file.stem[0] != "_"
        )
        yield from (f"## {folder.relative_to(package.parent)}", "", said[folder / "__init__.py"].partition("\n\n")[0])
        yield from rows("module | what it does", lines)


def faults() -> Iterator[str]:
    """The matrix of faults, from the tests that make them."""
    yield from ("# The matrix of faults", "", "Real servers, real processes; how to run it is said in")
    yield from ("[What is rehearsed](../explanation/reliability.md).", "")
    for file in sorted((ROOT / "tests").rglob("test_faults_*.py")):
        module = ast.parse(file.read_text(encoding="utf-8"))
        cases = [n for n in public(module) if n.name.startswith("test_") and "shorter_choice" not in n.name]
        lines = ((n.name.removeprefix("test_").replace("_", " "), cell(ast.get_docstring(n))) for n in cases)
        yield from (f"## {(ast.get_docstring(module) or '').rstrip('.')}", *rows("fault | what holds", lines))


def readers() -> Iterator[str]:
    """What other readers of Delta read of the tables, as the test of the matrix expects it."""
    folder = ROOT / "tests" / "readers"
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    pins = [line for file in sorted(folder.glob("requirements*.txt")) for line in file.read_text().splitlines()]
    trino = re.findall(r"(trino-server):([0-9]+)", (folder / "environments.py").read_text(encoding="utf-8"))
    versions = [*("==".join(each) for each in trino), *dict.fromkeys(pin for pin in pins if "==" in pin)]
    yield from ("# What reads the tables", "")
    yield "`make test-readers` lets lakeingest write these tables into S3 (those that begin with *theirs* somebody then"
    yield "changed with Spark), reads each with each reader, and compares columns and values with what Spark reads. It"
    yield "fails where a reader reads less than stands here, or more. **Bold**: not what Spark reads, and no error."
    yield from reader_tables(expected["reads"])
    yield from ("## Why", "", *(f"- {code(reader)}: {why}" for reader, why in expected["why"].items()), "")
    yield "A table that was rewritten (`schema.widening: rewrite`) is read like any other. One that was widened by"
    yield "metadata before that keeps Delta's feature typeWidening, and some refuse it. `ALTER TABLE … DROP FEATURE"
    yield "typeWidening` ends that, and the pipeline goes on."
    yield from ("", "## Versions", "", ", ".join(map(code, versions)))


def connectors() -> Iterator[str]:
    """What becomes of each documented option of the sinks, as the import tells it."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.pipelines import connectors as known

    def told(name: str, options: Mapping[str, str]) -> connect.ConnectorOption:
        return next(option for option in connect.translate(options).options if option.name == name)

    yield from ("# A connector's options, and what becomes of them", "")
    yield "What `lakeingest import-confluent` tells of every documented option of Confluent's S3 sink and of Connect,"
    yield "with the values that make a difference. How it is used is said in"
    yield "[Migrate from Confluent's S3 sink](../how-to/confluent.md)."
    yield "*Carried* means the same here; *changed* the same for what it is for; *impossible* has to be done otherwise;"
    yield "*ignored* has no meaning here."
    found = ((option, value, told(option, config)) for option, value, config in known.cases())
    lines = ((code(o), code(v), f.outcome, code(f.becomes), cell(f.why)) for o, v, f in found)
    yield from ("", "## Options", *rows("option | value | outcome | becomes | why", lines))
    made = ((kind, told("transforms.t.type", known.with_transform(given))) for kind, given in known.TRANSFORMS.items())
    steps = ((cell(kind), found.outcome, code(found.becomes), cell(found.why)) for kind, found in made)
    yield from ("## Single message transforms", *rows("transform | outcome | becomes | why", steps))
    for sink, config in known.EXAMPLES.items():
        each = connect.translate(config).options
        lines = ((code(o.name), code(o.value), o.outcome, code(o.becomes), cell(o.why)) for o in each)
        yield from (f"## Example: {sink.replace('_', ' ')}", *rows("option | value | outcome | becomes | why", lines))


def reader_tables(reads: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """One word for each table and reader, then all that is not `all`, in full.

    Args:
        reads: reader → table → what it reads.
    """
    tables = next(iter(reads.values()))
    lines = [(cell(table), *(_in_a_word(read[table]) for read in reads.values())) for table in tables]
    yield from rows(f"table | {' | '.join(reads)}", lines)
    found: dict[tuple[str, str], list[str]] = {}
    for reader, read in reads.items():
        for table, what in read.items():
            found.setdefault((reader, what), []).append(table)
    parts = [(reader, ", ".join(where), cell(what)) for (reader, what), where in found.items() if what != "all"]
    yield from rows("reader | tables | what is other", parts)


def _in_a_word(read: str) -> str:
    if read == "all" or read.startswith("refused"):
        return read.partition(":")[0]
    return "**fewer columns**" if read.startswith("without") else "**other values**"


def installed(extras: Iterable[str]) -> dict[str, float]:
    """The packages that lakeingest with these extras needs, those that they need too, and their sizes in MB."""
    found: dict[str, float] = {}
    asked = [Requirement(f"lakeingest[{','.join(extras)}]")]
    seen = set[str]()
    while asked:
        wanted = asked.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        held = metadata.distribution(wanted.name)
        files = [held.locate_file(file) for file in held.files or () if file.suffix != ".pyc"]
        found[held.name] = sum(os.stat(file).st_size for file in files if os.path.exists(file)) / 1e6
        for each in map(Requirement, held.requires or ()):
            if any(each.marker is None or each.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                asked.append(each)
    del found["lakeingest"]
    return found


def installation() -> Iterator[str]:
    """What an installation takes, as it lies where this page is made."""
    yield from ("# What is installed, and how large it is", "")
    yield f"Sizes of the files, without compiled Python: {platform.system()}, {platform.machine()}, Python"
    yield f"{platform.python_version()}, the versions of `constraints.txt`. A package counts with all that it needs."

    def line(name: str, extras: Sequence[str], purpose: str) -> tuple[str, ...]:
        sizes = installed(extras)
        largest = sorted(sizes, key=lambda package: -sizes[package])[:4]
        each = ", ".join(f"{package} {sizes[package]:.0f}" for package in largest)
        return code(name), cell(purpose), str(len(sizes)), f"{sum(sizes.values()):.0f}", each

    lines = [line("pip install .", [], "config, registry, command line; Spark is there already (Databricks, EMR)")]
    lines += [line(f".[{extra}]", [extra], purpose) for extra, purpose in EXTRAS.items()]
    lines += [line("make demo", ["gate", "local", "demo"], "the demo and the tutorial")]
    yield from rows("what | for | packages | MB | the largest, MB", lines)
    yield "## What is fetched when it is first needed"
    yield ""
    yield "Into the cache (`LAKEINGEST_CACHE`, else the user's cache folder), once, held against the checksums in"
    yield "`lakeingest/local/artifacts.txt`:"
    fetched = {
        "Spark's jars for Kafka, Delta and S3": ("spark", "a session that lakeingest starts itself", "34"),
        "Kafka's": ("kafka", "`stack up`", "43"),
        "the schema registry's": ("registry", "`stack up`", "109, and 115 when it is unpacked"),
    }
    counted = ((what, why, str(len(artifacts.listed(part))), mb) for what, (part, why, mb) in fetched.items())
    yield from rows("what | for | files | MB", counted)
    yield "Each machine writes there an archive of the classes that Spark loads (230 MB), too: with it Spark starts in"
    yield "half the time. One that no session used for two weeks is deleted."
    yield from ("", "## What was left out", "")
    yield "- `make demo` and `make venv` let Python compile a module when it is first imported, not all of them at"
    yield "  once: 22 seconds instead of 45 from pip's cache, and 150 MB less."
    yield "- pyspark is mostly jars, for everything that Spark can do, and cannot be had smaller. Where Spark"
    yield "  is there, `pip install .` takes none. For Spark Connect alone there is `pyspark-client`, 2 MB: it has the"
    yield "  same files, so that the two cannot be installed together. lakeingest was not tried with it."
    yield "- Great Expectations brings scipy, pandas and numpy, most of what `gate` takes. Without that extra a"
    yield "  pipeline without a suite runs as well."
    yield "- hadoop-aws asks for one jar with the AWS SDK for every service (642 MB). Only S3's part is fetched."


def measurements() -> Iterator[str]:
    """What the benchmarks measured, as their script wrote it, without its links into the repository."""
    file = ROOT / "benchmarks" / "RESULTS.md"
    yield re.sub(r"\[([^\]]+)\]\((?!http)[^)]*\)", r"\1", file.read_text(encoding="utf-8"))


PAGES: dict[str, Callable[[], Iterable[str]]] = {
    "options": pipeline_options,
    "commands": commands,
    "errors": runbook,
    "python": python,
    "tables": tables,
    "receipt": receipt,
    "expectations": expectations,
    "modules": modules,
    "faults": faults,
    "readers": readers,
    "connectors": connectors,
    "measurements": measurements,
    "installation": installation,
}

if __name__ == "__main__":
    write(Path(sys.argv[1]))
    if wrong := misplaced(Path(sys.argv[1])):
        sys.exit(f"mkdocs.yml and the pages disagree on {', '.join(wrong)}")
