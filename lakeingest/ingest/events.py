"""What a run tells whoever started it."""

from __future__ import annotations

from dataclasses import dataclass

from lakeingest.delta.receipt import Counts
from lakeingest.errors import LakeingestError


@dataclass(frozen=True)
class Progress:
    """What a run tells after each commit.

    Attributes:
        sequence, version: the batch's number, and the table version that holds it.
        counts: what became of its records.
        seconds: how long the batch took.
        lag: offsets beyond the frontier, as Kafka stood when the batch began.
        accepted_held: whether the gate would have held the batch, and was told to let it through.
    """

    sequence: int
    version: int
    counts: Counts
    seconds: float = 0
    lag: int = 0
    accepted_held: bool = False


@dataclass(frozen=True)
class Look:
    """What a run tells each time that it has looked for new records, before it takes a batch of them.

    Attributes:
        sequence: the number of the last batch; 0 if there is none yet.
        partitions: how many it looked at.
        lag: offsets that are not committed yet; 0 if it has to wait.
    """

    sequence: int
    partitions: int
    lag: int


@dataclass(frozen=True)
class CatalogUpdate:
    """What a run tells when it has brought the table's entry in a catalog up to date, or could not; it goes on.

    Attributes:
        name: the table's, in the catalog.
        failure: why it could not; None if it has. The next batch tries again; the same failure is told once.
    """

    name: str
    failure: LakeingestError | None = None
