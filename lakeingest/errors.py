"""The tree of errors: one root, one sentence a class, by whose fault it was.

    LakeingestError               anything that lakeingest refuses or cannot do
    ├── UsageError                what was asked for makes no sense
    │   ├── PipelineFileError     the pipeline file is wrong (every mistake at once)
    │   └── NotComputed           an expression fails for a record, and ends the batch
    ├── SetupError                this machine lacks something: Java, a port, disk, a running stack
    ├── SourceError               the Kafka side
    │   ├── SourceUnreachable     the broker does not answer                            (a retry helps)
    │   ├── SourceRefused         the broker denies access to a topic, or to the cluster
    │   ├── RegistryUnreachable   the schema registry does not answer                   (a retry helps)
    │   ├── RegistryRefused       the schema registry denies access, or is not trusted
    │   ├── SourceChanged         not the topics or the cluster that the table was fed from
    │   └── OffsetsLost           the broker no longer has offsets that were never read
    ├── StorageError              the table side
    │   ├── StorageUnreachable    the object store does not answer, or denies access    (a retry helps)
    │   ├── StorageRefused        the object store names a right, a role or a key that is missing
    │   ├── UnsafeStore           the object store cannot commit safely
    │   ├── FilesLost             a data file is gone that the table's log names
    │   ├── TableChanged          the table was changed while a batch was on its way        (a retry helps)
    │   ├── CatalogUnreachable    the catalog does not answer, or denies access         (a retry helps)
    │   └── TableMismatch         the table is not the one that the pipeline file describes
    ├── BatchHeld                 a batch breaks an expectation, and is kept back
    ├── Fenced                    another writer holds the pipeline
    ├── NotConserved              an audit found records missing or double
    ├── NotForgotten              an object of a table still holds what was to be forgotten
    └── NotComplete               a period of the table is not complete yet                 (a retry helps)

Bad data is no error here: a refused record is a row of the quarantine table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


def printable(text: str) -> str:
    """A text in one line that a terminal only shows: what is no printable character stands as an escape, as in \\x1b.

    Whoever produces a record could else clear the screen, fill the clipboard, or write lines that look like ours.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def number_of(count: int, noun: str) -> str:
    """A count with its noun, as in 1 commit and 2,000 commits."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class LakeingestError(Exception):
    """Root of the tree.

    Attributes:
        what: what is wrong, with the value that is wrong.
        cure: what to do about it, as an imperative sentence.
        stage: where on the way of a record it was noticed.
        retry_helps: whether the same call may succeed later, unchanged.
        exit_code: what the command line ends with: 1 a broken promise of the data, 2 usage,
            3 lost fence, 4 an outside service or this machine.
    """

    stage: ClassVar[str] = "lakeingest"
    retry_helps: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, cure: str) -> None:
        super().__init__(what, cure)
        self.what = what
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.what}\n  cure: {self.cure}"


class UsageError(LakeingestError):
    """What was asked for makes no sense."""

    stage = "usage"
    exit_code = 2


class PipelineFileError(UsageError):
    """The pipeline file is wrong; `problems` holds every mistake, in the order of the file."""

    stage = "pipeline file"

    def __init__(self, what: str, *, cure: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(what, cure=cure)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join([self.what, *(f"  {problem}" for problem in self.problems), f"  cure: {self.cure}"])


class NotComputed(UsageError):
    """An expression fails for a record, and ends the batch; what Spark says of it, the value among it, is not shown."""

    stage = "transform"


class SetupError(LakeingestError):
    """This machine lacks something: Java, a port, disk, a running stack."""

    stage = "setup"
    exit_code = 4


class SourceError(LakeingestError):
    """The Kafka side."""

    stage = "source"


class SourceUnreachable(SourceError):
    """The broker does not answer."""

    retry_helps = True
    exit_code = 4


class SourceRefused(SourceError):
    """The broker denies access to a topic, or to the cluster."""

    exit_code = 4


class RegistryUnreachable(SourceError):
    """The schema registry does not answer; no record was refused for that."""

    retry_helps = True
    exit_code = 4


class RegistryRefused(SourceError):
    """The schema registry denies access, or is not trusted."""

    exit_code = 4


class SourceChanged(SourceError):
    """Not the topics or the cluster that the table was fed from."""


class OffsetsLost(SourceError):
    """The broker no longer has offsets that were never read."""


class StorageError(LakeingestError):
    """The table side."""

    stage = "storage"


class StorageUnreachable(StorageError):
    """The object store does not answer, or denies access."""

    retry_helps = True
    exit_code = 4


class StorageRefused(StorageError):
    """The object store names a right, a role or a key that is missing; waiting helps nothing."""

    exit_code = 4


class UnsafeStore(StorageError):
    """The object store cannot commit safely."""


class FilesLost(StorageError):
    """A data file is gone that the table's log names."""


class TableChanged(StorageError):
    """The table was changed while a batch was on its way; the batch is begun anew."""

    retry_helps = True


class CatalogUnreachable(StorageError):
    """The catalog does not answer, or denies access; the run goes on."""

    stage = "catalog"
    retry_helps = True
    exit_code = 4


class TableMismatch(StorageError):
    """The table is not the one that the pipeline file describes."""


class BatchHeld(LakeingestError):
    """A batch breaks an expectation, and is kept back.

    Attributes:
        found: what each expectation found, as gate.evaluate.Result.
        broken: why it is kept back, without values of records: the names of expectations, and how many are refused.
    """

    stage = "gate"

    def __init__(self, what: str, *, cure: str, found: Sequence[Any] = (), broken: Sequence[str] = ()) -> None:
        super().__init__(what, cure=cure)
        self.found = tuple(found)
        self.broken = tuple(broken)


class Fenced(LakeingestError):
    """Another writer holds the pipeline."""

    stage = "commit"
    exit_code = 3


class NotConserved(LakeingestError):
    """An audit found records missing or double."""

    stage = "audit"


class NotForgotten(LakeingestError):
    """An object of a table still holds what was to be forgotten."""

    stage = "forget"


class NotComplete(LakeingestError):
    """A period of the table is not complete yet."""

    stage = "wait"
    retry_helps = True
