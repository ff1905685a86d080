"""The memory of deleted keys, with several jobs at once: each step of `ingest.latest_batch`, in any order, for one key.

A run and a backfill take their batches, each with numbers of its own; two processes may do the same job, and any of
them may end behind any step. Delta refuses a merge if another commit changed a row since it began; a commit that
changed none does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

CURES = frozenset({"remember", "remember first", "look behind the commit", "settle"})
"""What keeps the table right; each can be taken out."""


class Change(NamedTuple):
    """A record of the key: its place in the order, and whether it deletes."""

    order: int
    deletes: bool = False


class Jobs(NamedTuple):
    """What is to be done: the batches of each job, and how many processes may begin it."""

    run: tuple[tuple[Change, ...], ...]
    backfill: tuple[tuple[Change, ...], ...] = ()
    runs: int = 1
    backfills: int = 1
    cures: frozenset[str] = CURES

    def batches(self, job: str) -> tuple[tuple[Change, ...], ...]:
        return self.run if job == "run" else self.backfill

    @property
    def expected(self) -> int | None:
        """The order of the row that there has to be at last; None for no row."""
        newest = max(change for batch in (*self.run, *self.backfill) for change in batch)
        return None if newest.deletes else newest.order


class Delete(NamedTuple):
    """A row of the table of deleted keys."""

    job: str
    batch: int
    order: int


class Commit(NamedTuple):
    """Of the table: a batch's, or one that takes a row out, which has no job."""

    job: str
    batch: int
    remembered: int
    changes: bool


class Process(NamedTuple):
    """One that does a job, before its step `at`; the others are what it has seen."""

    job: str
    at: str = "settle"
    batch: int = 0
    remembered: int = 0
    newest_delete: int = -1
    snapshot: int = 0


class State(NamedTuple):
    """The tables, and who is at work."""

    jobs: Jobs
    row: int | None = None
    memory: frozenset[Delete] = frozenset()
    writes: int = 0
    commits: tuple[Commit, ...] = ()
    processes: tuple[Process, ...] = ()
    killed: bool = False

    def done(self, job: str) -> int:
        """How many batches of a job are committed."""
        return sum(commit.job == job for commit in self.commits)

    def remember(self, job: str, batch: int) -> State:
        """With what the batch deletes in memory, if its latest record deletes."""
        newest = max(self.jobs.batches(job)[batch])
        if not newest.deletes or "remember" not in self.jobs.cures:
            return self
        delete = Delete(job, batch, newest.order)
        return self._replace(memory=self.memory | {delete}, writes=self.writes + 1)

    def take_out(self, job: str, batch: int) -> State:
        """Without the row, if it is of the batch, and older than a delete that is committed."""
        known = [d for d in self.memory if d.job != "run" or d.batch < self.done("run")]
        orders = [change.order for change in self.jobs.batches(job)[batch]]
        if self.row not in orders or all(delete.order < self.row for delete in known):
            return self
        return self._replace(row=None, commits=(*self.commits, Commit("", 0, 0, changes=True)))

    def merged(self, process: Process) -> State:
        """Behind the merge of a process's batch."""
        newest, row = max(self.jobs.batches(process.job)[process.batch]), self.row
        if newest.order >= process.newest_delete and (row is None or newest.order > row):
            row = None if newest.deletes else newest.order
        commit = Commit(process.job, process.batch, process.remembered, changes=row != self.row)
        return self._replace(row=row, commits=(*self.commits, commit))


def step(state: State, process: Process) -> tuple[State, Process | None]:
    """What a process does next: the tables behind it, and the process; None where it has ended."""
    return _STEPS[process.at](state, process)


def _settle(state: State, process: Process) -> tuple[State, Process | None]:
    own = [commit for commit in state.commits if commit.job == process.job]
    if own and "settle" in state.jobs.cures and state.writes != own[-1].remembered:
        state = state.take_out(process.job, own[-1].batch)
    return state, process._replace(at="take")


def _take(state: State, process: Process) -> tuple[State, Process | None]:
    batch = state.done(process.job)
    more = batch < len(state.jobs.batches(process.job))
    return state, process._replace(at="see", batch=batch) if more else None


def _see(state: State, process: Process) -> tuple[State, Process | None]:
    return state, process._replace(at="read", remembered=state.writes)


def _read(state: State, process: Process) -> tuple[State, Process | None]:
    newest = max((delete.order for delete in state.memory), default=-1)
    at = "remember" if "remember first" in state.jobs.cures else "merge"
    return state, process._replace(at=at, newest_delete=newest)


def _remember(state: State, process: Process) -> tuple[State, Process | None]:
    behind = state.remember(process.job, process.batch)
    at = "merge" if "remember first" in state.jobs.cures else "look"
    # Another one's commit since "see" stays to be looked behind.
    seen = behind.writes if state.writes == process.remembered else process.remembered
    return behind, process._replace(at=at, remembered=seen)


def _merge(state: State, process: Process) -> tuple[State, Process | None]:
    return state, process._replace(at="commit", snapshot=len(state.commits))


def _commit(state: State, process: Process) -> tuple[State, Process | None]:
    if state.done(process.job) > process.batch:
        # Another one has committed its number.
        return state, None
    if any(commit.changes for commit in state.commits[process.snapshot :]):
        return state, Process(process.job)
    at = "look" if "remember first" in state.jobs.cures else "remember"
    return state.merged(process), process._replace(at=at)


def _look(state: State, process: Process) -> tuple[State, Process | None]:
    if "look behind the commit" in state.jobs.cures and state.writes != process.remembered:
        state = state.take_out(process.job, process.batch)
    return state, process._replace(at="take")


_STEPS: dict[str, Callable[[State, Process], tuple[State, Process | None]]] = {
    "settle": _settle,
    "take": _take,
    "see": _see,
    "read": _read,
    "remember": _remember,
    "merge": _merge,
    "commit": _commit,
    "look": _look,
}


def successors(state: State) -> Iterator[tuple[str, State]]:
    """What may happen next."""
    for at, process in enumerate(state.processes):
        others = state.processes[:at] + state.processes[at + 1 :]
        behind, moved = step(state, process)
        yield f"{process.job} {at}: {process.at}", behind._replace(processes=others + ((moved,) if moved else ()))
        yield f"{process.job} {at} is killed before: {process.at}", state._replace(processes=others, killed=True)
    for job, most in (("run", state.jobs.runs), ("backfill", state.jobs.backfills)):
        if state.jobs.batches(job) and getattr(state.jobs, job + "s") > 0:
            jobs = state.jobs._replace(**{job + "s": most - 1})
            yield f"{job} begins", state._replace(jobs=jobs, processes=(*state.processes, Process(job)))


def finished(state: State, order: tuple[str, ...]) -> int | None:
    """The row behind one more start of each job, one behind the other, where all that were at work have ended."""
    for job in order:
        process: Process | None = Process(job)
        while process is not None:
            state, process = step(state, process)
    return state.row


def is_right(state: State) -> bool:
    """Whether the table comes right, whoever ends here; and is right where everybody has come to the end."""
    jobs = state.jobs
    ended = not state.processes and all(state.done(job) == len(jobs.batches(job)) for job in ("run", "backfill"))
    if ended and not state.killed and state.row != jobs.expected:
        return False
    return all(finished(state, order) == jobs.expected for order in (("run", "backfill"), ("backfill", "run")))


def explore(jobs: Jobs) -> tuple[int, list[str] | None]:
    """How many states there are, and the way to one from which the table does not come right; None for none."""
    begin = State(jobs)
    ways: dict[State, tuple[State, str] | None] = {begin: None}
    todo = [begin]
    while todo:
        state = todo.pop()
        if not is_right(state):
            way, at = list[str](), ways[state]
            while at is not None:
                way.append(at[1])
                at = ways[at[0]]
            return len(ways), way[::-1]
        for name, successor in successors(state):
            if successor not in ways:
                ways[successor] = state, name
                todo.append(successor)
    return len(ways), None
