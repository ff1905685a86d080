"""The commit protocol as a model: two tables' logs, Kafka's retention, runs, replays, backfills at any of their steps.

A state is a value; `steps` gives every state that can follow it. `explore` goes through all of them, and from each one
demands that whatever was going on may be killed there: one more run, backfill and replay bring every record to where it
belongs, once. It owes lakeingest nothing but the protocol's rules; tests/unit/test_protocol_model.py holds these
against the real code.

The model has one partition. A record's kind is a letter: g is good, b is refused, d is dropped, r is refused by runs
and passes when it is replayed, and c is refused by the first batch and passes later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

CURES = frozenset(
    {
        "no span backwards",
        "number first",
        "own rows",
        "settle what is left",
        "marks by coordinates",
        "withdraw",
        "rows before logs",
        "rows by their batch",
        "undo replays",
        "look",
        "undo",
        "undo beyond",
        "read again what quarantine lost",
        "how far quarantine had come",
        "how many are left",
        "look behind the account",
        "numbers of its own",
    }
)
"""What keeps the scenarios of tests/integration/test_attacks.py from happening: each can be taken out."""
BATCH = 2
"""Most records of a batch."""


class Stopped(Exception):
    """A command ends with an error; nothing of it was written."""


class Commit(NamedTuple):
    """A version of a table: a batch of [start, end), of a run or a backfill, a replay, or a RESTORE to a version."""

    kind: str
    number: int
    rows: tuple[int, ...] = ()
    start: int = 0
    end: int = 0
    gap: tuple[int, ...] = ()
    base: int = 0
    """How many versions the table had when the batch was decided."""
    aside: int = 0
    """The newest account that quarantine had then."""

    @property
    def taken(self) -> range:
        return range(self.start, self.end)


class Refused(NamedTuple):
    """A row of quarantine; `moved` is the replay that moved it, 0 for none; `number` the account that brought it."""

    pipeline: str
    offset: int
    moved: int = 0
    discarded: bool = False
    kind: str = "batch"
    number: int = 0


class Account(NamedTuple):
    """A version of quarantine: a batch's receipt (kind batch or backfill), the marks of a replay, what another command
    changed, or a RESTORE to the version with that number.
    """

    pipeline: str
    kind: str
    number: int
    refused: int = 0
    dropped: int = 0
    lost: tuple[int, ...] = ()
    of: int = 0
    """The batch, where that is another number: it was settled when quarantine had later ones."""
    base: int = 0
    """How many versions quarantine had when the batch was decided."""
    open: int = 0
    """How many batches are left that have no account any more."""


class Run(NamedTuple):
    """A run, or a backfill, between two steps: what it has read, and what it is about to do."""

    pipeline: str
    goal: int
    kind: str = "batch"
    step: str = "begin"
    frontier: int = 0
    sequence: int = 0
    loose: tuple[Refused, ...] = ()
    """Rows of quarantine that are to be withdrawn."""
    looked: bool = False
    """Whether it has looked for such rows."""
    existing: range = range(0)
    """Of a backfill: between which offsets a table has records of what is left."""
    left: tuple[int, ...] = ()
    """Of a backfill: what is not taken yet."""
    batch: Commit | None = None
    refused: tuple[int, ...] = ()
    account: Account | None = None
    version: int = 0
    aside: int = 0
    """The newest account in quarantine."""
    shelf: int = 0
    """How many versions quarantine has."""
    seen: int = 0
    """The last number of an account in it, also of those that a RESTORE took back."""


class Replay(NamedTuple):
    """A replay between two steps."""

    pipeline: str
    step: str = "settle"
    number: int = 0
    rows: tuple[int, ...] = ()
    base: int = 0
    frontier: int = 0


@dataclass(frozen=True)
class Bounds:
    """How often each thing may happen."""

    kinds: str
    pipelines: str = "A"
    produced: int = 2
    runs: int = 2
    replays: int = 0
    kills: int = 1
    retries: int = 0
    restores: int = 0
    asides: int = 0
    """RESTOREs of quarantine."""
    anew: int = 0
    """How often somebody deletes quarantine, while nobody is at work."""
    expiries: int = 0
    returns: int = 0
    """How often Kafka has again what expired, as from a copy."""
    accepts: bool = False
    """Whether runs go on over what expired."""
    discards: int = 0
    backfills: int = 0
    history: int = 0
    """Where the first run begins."""


@dataclass(frozen=True)
class State:
    """Both logs, Kafka, and who is at work."""

    bounds: Bounds
    cures: frozenset[str] = CURES
    last: int = 0
    first: int = 0
    tables: tuple[tuple[str, tuple[Commit, ...]], ...] = ()
    quarantine: tuple[Refused, ...] = ()
    accounts: tuple[Account, ...] = ()
    before: tuple[tuple[Refused, ...], ...] = ()
    """What quarantine held before each of its versions, as long as a RESTORE of it is to come."""
    works: tuple[Run | Replay, ...] = field(default=())

    # What the tables say ------------------------------------------------------------------------------------------

    def log(self, pipeline: str) -> tuple[Commit, ...]:
        return dict(self.tables).get(pipeline, ())

    def rows(self, pipeline: str, version: int | None = None) -> tuple[int, ...]:
        """The table's rows."""
        found: list[tuple[int, ...]] = [()]
        for commit in self.log(pipeline)[:version]:
            found.append(found[commit.number] if commit.kind == "restore" else (*found[-1], *commit.rows))
        return found[-1]

    def valid(self, pipeline: str, kind: str) -> tuple[list[Commit], int, bool]:
        """The commits that no RESTORE took back, oldest first; the last number of all; if some newer ones were."""
        log, upto, kept, last, back = self.log(pipeline), None, [], 0, False
        for version in range(len(log), 0, -1):
            commit = log[version - 1]
            if commit.kind == "restore" and (upto is None or version <= upto):
                upto = commit.number
            if commit.kind == kind:
                last = max(last, commit.number)
                if upto is None or version <= upto:
                    kept.append(commit)
                elif not kept:
                    back = True
        return kept[::-1], last, back

    def consumed(self, pipeline: str, but: Commit | None = None) -> set[int]:
        """The offsets that receipts name; `but` one is not counted."""
        both = (self.valid(pipeline, kind)[0] for kind in ("batch", "backfill"))
        return {offset for commits in both for c in commits if c != but for offset in c.taken}

    def frontier(self, pipeline: str) -> int:
        batches = self.valid(pipeline, "batch")[0]
        return batches[-1].end if batches else self.bounds.history

    def restored(self, pipeline: str) -> bool:
        """Whether a RESTORE came since the newest batch."""
        batches, log = self.valid(pipeline, "batch")[0], self.log(pipeline)
        newest = log.index(batches[-1]) if batches else -1
        return any(commit.kind == "restore" for commit in log[newest + 1 :])

    def over_a_restore(self, pipeline: str, kind: str = "batch") -> int:
        """From which version on all is to be taken back: the newest batch was committed over a RESTORE; else 0."""
        batches, log = self.valid(pipeline, kind)[0], self.log(pipeline)
        if not batches:
            return 0
        standing = {c for each in ("batch", "backfill", "replay") for c in self.valid(pipeline, each)[0]}
        return self._over(log, len(log) - log[::-1].index(batches[-1]), standing)

    def _over(self, log: tuple[Commit, ...], version: int, standing: set[Commit]) -> int:
        """Over a RESTORE, or over a backfill's batch that was."""
        between, first = range(log[version - 1].base + 1, version), 0
        if any(log[at - 1].kind == "restore" for at in between):
            first = version
        for at in between:
            kind = log[at - 1].kind
            undone = (kind == "backfill" and "undo beyond" in self.cures) or (
                kind == "replay" and "undo replays" in self.cures
            )
            if undone and log[at - 1] in standing and (theirs := self._over(log, at, standing)):
                return theirs
        return first

    def mine(self, pipeline: str) -> list[Refused]:
        """The pipeline's rows of quarantine that no replay moved."""
        every = "own rows" not in self.cures
        return [row for row in self.quarantine if (every or row.pipeline == pipeline) and not row.moved]

    def standing(self, pipeline: str, kind: str) -> list[Account]:
        """The accounts that no RESTORE of quarantine took back, oldest first."""
        upto, kept = None, []
        for version in range(len(self.accounts), 0, -1):
            account = self.accounts[version - 1]
            if account.kind == "restore" and (upto is None or version <= upto):
                upto = account.number
            if (account.pipeline, account.kind) == (pipeline, kind) and (upto is None or version <= upto):
                kept.append(account)
        return kept[::-1]

    def withdrawn(self, pipeline: str, kind: str) -> bool:
        """Whether quarantine may have lost accounts of batches that stand."""
        batches, there = self.valid(pipeline, kind)[0], self.standing(pipeline, kind)
        newest = self.accounts.index(there[-1]) + 1 if there else 0
        if not batches or "read again what quarantine lost" not in self.cures:
            return False
        fewer = batches[-1].aside > (there[-1].number if there else 0)
        if "how far quarantine had come" not in self.cures:
            fewer = False
        behind = any(a.kind == "restore" for a in self.accounts[newest:])
        if there and "look behind the account" in self.cures:
            behind |= any(a.kind == "restore" for a in self.accounts[there[-1].base : newest])
        left = bool(there) and there[-1].open > 0 and "how many are left" in self.cures
        return fewer or behind or left

    def last_batch(self, pipeline: str, kind: str) -> int:
        """The last batch that an account was about; without the cure, its last number."""
        if "numbers of its own" not in self.cures:
            return self.accounted(pipeline, kind)
        return max((a.of or a.number for a in self.accounts if (a.pipeline, a.kind) == (pipeline, kind)), default=0)

    def accounted(self, pipeline: str, kind: str = "batch") -> int:
        return max((a.number for a in self.accounts if (a.pipeline, a.kind) == (pipeline, kind)), default=0)

    def kind(self, offset: int) -> str:
        return self.bounds.kinds[offset % len(self.bounds.kinds)]

    # What is done to them -----------------------------------------------------------------------------------------

    def commit(self, pipeline: str, commit: Commit) -> State:
        """Append to the table; a number that Delta has seen is refused."""
        if commit.kind != "restore" and commit.number <= self.valid(pipeline, commit.kind)[1]:
            raise Stopped("fenced")
        tables = {**dict(self.tables), pipeline: (*self.log(pipeline), commit)}
        return replace(self, tables=tuple(sorted(tables.items())))

    def refuse(self, pipeline: str, offsets: tuple[int, ...], account: Account, seen: int) -> State:
        """Append a batch's account, under its own number, or the one behind the last that was `seen` in quarantine."""
        if account.number <= seen:
            account = account._replace(number=seen + 1, of=account.of or account.number)
        if account.number <= self.accounted(pipeline, account.kind):
            raise Stopped("fenced")
        rows = tuple(Refused(pipeline, offset, kind=account.kind, number=account.number) for offset in offsets)
        return self.set_aside((*self.quarantine, *rows), account)

    def set_aside(self, rows: tuple[Refused, ...], account: Account) -> State:
        """Append to quarantine's log: it holds these rows then."""
        before = (*self.before, self.quarantine) if self.bounds.asides else ()
        return replace(self, quarantine=rows, accounts=(*self.accounts, account), before=before)

    def without(self, rows: tuple[Refused, ...]) -> State:
        left = tuple(row for row in self.quarantine if row not in rows)
        if left == self.quarantine or not self.bounds.asides:
            return replace(self, quarantine=left)
        return self.set_aside(left, Account("", "update", 0))

    def update(
        self, when: Callable[[Refused], bool], change: Callable[[Refused], Refused], account: Account | None = None
    ) -> State:
        rows = tuple(change(row) if when(row) else row for row in self.quarantine)
        if account is None and (rows == self.quarantine or not self.bounds.asides):
            return replace(self, quarantine=rows)
        return self.set_aside(rows, account or Account("", "update", 0))


# A run ---------------------------------------------------------------------------------------------------------------


def begin(state: State, run: Run, *, accept_gap: bool = False) -> Run:
    """Read both logs, and see what a crash has left open."""
    batches, last, _ = state.valid(run.pipeline, run.kind)
    newest, there = batches[-1] if batches else None, state.standing(run.pipeline, run.kind)
    run = run._replace(
        step="batch",
        looked=False,
        frontier=newest.end if newest else state.bounds.history,
        sequence=max(last, state.last_batch(run.pipeline, run.kind)),
        version=len(state.log(run.pipeline)),
        aside=there[-1].number if there else 0,
        shelf=len(state.accounts),
        seen=state.accounted(run.pipeline, run.kind),
    )
    if run.kind == "backfill":
        run = left_to(state, run)
    looked, done = state.withdrawn(run.pipeline, run.kind), {a.of or a.number for a in there}
    open_ = [c for c in batches if len(c.rows) != len(c.taken) and c.number not in done]
    if not looked:
        open_ = [c for c in open_ if c == newest]
    if open_:
        return to_settle(state, run, open_[0], len(open_) - 1, accept_gap=accept_gap)
    if looked:
        nothing = Account(run.pipeline, run.kind, run.seen + 1, of=-1, base=run.shelf)
        return run._replace(step="settle", refused=(), account=nothing)
    return run


def to_settle(state: State, run: Run, batch: Commit, left: int, *, accept_gap: bool) -> Run:
    """What a batch without an account needs; so many of them are left behind it."""
    known = {*state.rows(run.pipeline), *(row.offset for row in state.mine(run.pipeline))}
    if "settle what is left" not in state.cures and batch.start < state.first:
        raise Stopped("the batch cannot be read from Kafka")
    lost = tuple(o for o in batch.taken if o < state.first and o not in known)
    if lost and not accept_gap:
        raise Stopped("offsets lost")
    unknown = [o for o in batch.taken if o >= state.first and o not in known]
    missing = tuple(o for o in unknown if state.kind(o) != "d")
    there = len(known & {*batch.taken} - {*batch.rows})
    counts = {"refused": len(missing) + there, "dropped": len(unknown) - len(missing), "lost": lost}
    account = Account(run.pipeline, run.kind, batch.number, **counts, of=batch.number, base=run.shelf, open=left)
    return run._replace(step="settle", refused=missing, account=account)


def left_to(state: State, run: Run) -> Run:
    """What a backfill is to take, and how far the tables' rows reach there."""
    if not state.valid(run.pipeline, "batch")[0]:
        return run._replace(left=())
    behind = range(state.first, state.frontier(run.pipeline))
    left = tuple(o for o in behind if o not in state.consumed(run.pipeline))
    there = [o for o in left if o in state.rows(run.pipeline) or o in {r.offset for r in state.mine(run.pipeline)}]
    return run._replace(left=left, existing=range(there[0], there[-1] + 1) if there else range(0))


def take_left(state: State, run: Run) -> Run | None:
    """Read and decide the next batch of a backfill; None if there is none."""
    if not run.left:
        return None
    if run.left[0] < state.first:
        raise Stopped("offsets lost")
    taken = tuple(o for at, o in enumerate(run.left[:BATCH]) if o == run.left[0] + at)
    return decide(state, run, range(taken[0], taken[-1] + 1), ())


def take(state: State, run: Run, *, accept_gap: bool = False) -> Run | None:
    """Read and decide the next batch; None if there is none."""
    if run.kind == "backfill":
        return take_left(state, run)
    gap = tuple(range(run.frontier, state.first))
    if gap and not accept_gap:
        raise Stopped("offsets lost")
    start = max(run.frontier, state.first)
    end = min(run.goal, start + BATCH)
    if "no span backwards" in state.cures:
        end = max(start, end)
    if end == start and not gap:
        return None
    if not run.looked and "withdraw" in state.cures:
        run = run._replace(looked=True)
        loose = tuple(row for row in state.mine(run.pipeline) if row.offset >= start)
        if state.frontier(run.pipeline) != run.frontier and "rows before logs" in state.cures:
            loose = ()
        if loose:
            return run._replace(step="withdraw", loose=loose)
    return decide(state, run, range(start, end), gap)


def decide(state: State, run: Run, taken: range, gap: tuple[int, ...]) -> Run:
    """What becomes of a batch."""
    if "look" in state.cures and any(c.kind == "restore" for c in state.log(run.pipeline)[run.version :]):
        return run._replace(step="begin")
    start, end = taken.start, taken.stop
    number = run.sequence + 1
    passing, refusing = ("g", "brc") if number == 1 else ("gc", "br")
    held = {*state.rows(run.pipeline), *(row.offset for row in state.mine(run.pipeline))} & {*taken}
    if not {*run.existing} & {*taken}:
        held = set()
    fresh = [offset for offset in taken if offset not in held]
    rows = tuple(offset for offset in fresh if state.kind(offset) in passing)
    refused = tuple(offset for offset in fresh if state.kind(offset) in refusing)
    dropped = sum(state.kind(o) == "d" for o in fresh)
    account = Account(run.pipeline, run.kind, number, len(refused) + len(held), dropped, base=run.shelf)
    batch = Commit(run.kind, number, rows, start, end, gap, run.version, run.aside)
    return run._replace(
        step="commit", sequence=number, frontier=end, batch=batch, refused=refused,
        account=None if len(rows) == len(taken) else account, left=tuple(o for o in run.left if o not in taken),
    )  # fmt: skip


def run_on(  # noqa: PLR0911
    state: State, run: Run, *, accept_gap: bool = False
) -> tuple[State, Run | None]:
    """The next step of a run.

    Raises:
        Stopped: it ends with an error.
    """
    name, log = run.pipeline, state.log(run.pipeline)
    if run.step == "begin":
        while "undo" in state.cures and (version := undone(state, run)):
            state = state.commit(name, Commit("restore", version - 1))
        if state.restored(name) or state.withdrawn(name, run.kind):
            state = settle(state, name)
        return state, begin(state, run, accept_gap=accept_gap)
    if run.step == "withdraw":
        return withdraw(state, run), run._replace(step="batch", loose=())
    if run.step in ("settle", "set aside"):
        # No process is held up between this look and the commit for as long as another one's whole batch takes.
        if "look" in state.cures and any(commit.kind == "restore" for commit in log[run.version :]):
            return state, run._replace(step="begin")
        assert run.account is not None
        after = state.refuse(name, run.refused, run.account, run.seen)
        over = any(account.kind == "restore" for account in state.accounts[run.account.base :])
        again = run.account.open or (over and "look behind the account" in state.cures)
        number = after.accounts[-1].number
        if "numbers of its own" not in state.cures:
            run = run._replace(sequence=max(run.sequence, number))
        run = run._replace(aside=number, seen=number, shelf=len(after.accounts), account=None)
        return after, run._replace(step="begin" if again else "batch")
    if run.step == "batch":
        return state, take(state, run, accept_gap=accept_gap)
    if run.step == "commit":
        assert run.batch is not None
        return state.commit(name, run.batch), run._replace(step="confirm", batch=None, version=len(log) + 1)
    if "undo" in state.cures and state.over_a_restore(name, run.kind):
        return state, run._replace(step="begin")
    return state, run._replace(step="set aside" if run.account else "batch")


def withdraw(state: State, run: Run) -> State:
    """Mark them, so that they are in quarantine no more: these rows, and none that came since for the same records."""
    if "rows by their batch" in state.cures:
        return state.without(run.loose)
    offsets = {row.offset for row in run.loose}
    return state.without(tuple(row for row in state.mine(run.pipeline) if row.offset in offsets))


def undone(state: State, run: Run) -> int:
    """The version to be taken back, since it was committed over a RESTORE; 0 if there is none."""
    name = run.pipeline
    if version := state.over_a_restore(name, "batch"):
        return version
    version = state.over_a_restore(name, "replay") if "undo replays" in state.cures else 0
    if version and not any(commit.kind == "batch" for commit in state.log(name)[version:]):
        return version
    if run.kind == "batch" and "undo beyond" not in state.cures:
        return 0
    version = state.over_a_restore(name, "backfill")
    if not version:
        return 0
    newest = state.valid(name, "backfill")[0][-1]
    again = state.consumed(name, but=newest) & {*newest.taken}
    if not again and ("undo beyond" not in state.cures or newest.end <= state.frontier(name)):
        return 0
    if any(commit.kind == "batch" for commit in state.log(name)[version:]):
        raise Stopped("others have changed rows since")
    return version


# A replay ------------------------------------------------------------------------------------------------------------


def settle(state: State, pipeline: str) -> State:
    """Let quarantine's marks say what the tables say."""
    done, last, back = state.valid(pipeline, "replay")
    number = done[-1].number if done else 0
    marked = max((a.number for a in state.standing(pipeline, "marks")), default=0)
    there, old = set(state.rows(pipeline)), "marks by coordinates" not in state.cures
    every = "own rows" not in state.cures
    for each in done:
        if each.number <= marked:
            continue
        moved = there & {*each.rows}
        both = [row for row in state.mine(pipeline) if row.offset in moved and not (old and row.discarded)]
        if (old or every) and len(both) != len(each.rows):
            raise Stopped("not conserved")
        mark, account = partial(Refused._replace, moved=each.number), Account(pipeline, "marks", each.number)
        state = state.update(lambda row, both=both: row in both, mark, account)
    if back and last > number and not old:
        state = state.update(
            lambda row: row.pipeline == pipeline and row.moved > number and row.offset not in there,
            lambda row: row._replace(moved=0),
        )
    return state


def replay_on(state: State, replay: Replay) -> tuple[State, Replay | None]:
    """The next step of a replay.

    Raises:
        Stopped: it ends with an error.
    """
    name, first = replay.pipeline, "number first" in state.cures
    middle = ["number", "look"] if first else ["look", "number"]
    order = ["settle", *middle, "commit", "confirm", "mark"]
    then = order[order.index(replay.step) + 1] if replay.step != "mark" else ""
    match replay.step:
        case "settle":
            while "undo" in state.cures and (version := undone(state, Run(name, 0))):
                state = state.commit(name, Commit("restore", version - 1))
            state = settle(state, name)
            now = replay._replace(step=then, base=len(state.log(name)), frontier=state.frontier(name))
            return state, now
        case "number":
            return state, replay._replace(step=then, number=state.valid(name, "replay")[1] + 1)
        case "look":
            there = state.rows(name)
            open_ = {r.offset for r in state.quarantine if r.pipeline == name and not r.discarded}
            if "withdraw" in state.cures:
                open_ = {offset for offset in open_ if offset < replay.frontier}
            rows = tuple(sorted(o for o in open_ if o not in there and state.kind(o) in "rc"))
            return state, replay._replace(step=then, rows=rows) if rows else None
        case "commit":
            done = Commit("replay", replay.number, replay.rows, base=replay.base)
            return state.commit(name, done), replay._replace(step=then)
        case "confirm":
            again = "undo replays" in state.cures and state.over_a_restore(name, "replay")
            return state, Replay(name) if again else replay._replace(step=then)
        case _:
            return settle(state, name), None


def discard(state: State, pipeline: str) -> State:
    if "marks by coordinates" in state.cures:
        state = settle(state, pipeline)
    return state.update(
        lambda row: row.pipeline == pipeline and not row.moved and not row.discarded,
        lambda row: row._replace(discarded=True),
    )


# What may follow -----------------------------------------------------------------------------------------------------


def spent(state: State, **what: int) -> State:
    """That so much of the bounds is used up."""
    left = {name: getattr(state.bounds, name) - n for name, n in what.items()}
    return replace(state, bounds=replace(state.bounds, **left))


def steps(state: State) -> Iterator[tuple[str, State]]:
    """Whatever may happen next."""
    yield from _around(state)
    b = state.bounds
    for at, work in enumerate(state.works):
        others = (*state.works[:at], *state.works[at + 1 :])
        name = f"{work.kind if isinstance(work, Run) else 'replay'} {at}"
        try:
            if isinstance(work, Run):
                after, now = run_on(state, work, accept_gap=b.accepts)
            else:
                after, now = replay_on(state, work)
            yield f"{name}: {work.step}", replace(after, works=(*others, now) if now else others)
        except Stopped as why:
            yield f"{name}: {work.step} ({why})", replace(state, works=others)
        if b.kills:
            yield f"{name}: killed", replace(spent(state, kills=1), works=others)
        if b.retries and isinstance(work, Run) and work.step != "begin":
            again = Run(work.pipeline, work.goal, work.kind)
            yield f"{name}: tries again", replace(spent(state, retries=1), works=(*others, again))


def _around(state: State) -> Iterator[tuple[str, State]]:
    """What may happen besides the steps of those who are at work."""
    yield from _to_quarantine(state)
    b, spend = state.bounds, partial(spent, state)
    if b.produced:
        yield "produce", replace(spend(produced=1), last=state.last + BATCH)
    if b.expiries and state.first < state.last:
        yield "expire", replace(spend(expiries=1), first=state.last)
    if b.returns and state.first:
        yield "return", replace(spend(returns=1), first=0)
    for pipeline in b.pipelines:
        if b.runs and state.last:
            yield f"run {pipeline}", replace(spend(runs=1), works=(*state.works, Run(pipeline, state.last)))
        if b.backfills and state.log(pipeline):
            work = Run(pipeline, state.last, "backfill")
            yield f"backfill {pipeline}", replace(spend(backfills=1), works=(*state.works, work))
        if b.replays and state.quarantine:
            yield f"replay {pipeline}", replace(spend(replays=1), works=(*state.works, Replay(pipeline)))
        if b.discards and state.quarantine:
            yield f"discard {pipeline}", discard(spend(discards=1), pipeline)
        if b.restores:
            for version in range(len(state.log(pipeline))):
                yield f"restore {pipeline} {version}", spend(restores=1).commit(pipeline, Commit("restore", version))


def _to_quarantine(state: State) -> Iterator[tuple[str, State]]:
    """A RESTORE of it, or it is deleted."""
    if state.bounds.asides:
        for version, rows in enumerate(state.before):
            account, after = Account("", "restore", version), spent(state, asides=1)
            yield f"restore quarantine {version}", after.set_aside(rows, account)
    if state.bounds.anew and not state.works:
        yield "quarantine made anew", replace(spent(state, anew=1), quarantine=(), accounts=(), before=())


# What must hold ------------------------------------------------------------------------------------------------------


def wrong(state: State) -> str | None:
    """What is not as it must be, if all that is at work is killed now; None if nothing is."""
    if any(c.end < c.start for pipeline in state.bounds.pipelines for c in state.log(pipeline)):
        return "a span goes backwards"
    state = replace(state, works=())
    for pipeline in state.bounds.pipelines:
        try:
            state = completed(state, pipeline)
            # The first backfill may have to take back its last batch, and with it what the run did since.
            for _ in range(2 if state.bounds.history or state.valid(pipeline, "backfill")[1] else 0):
                if state.valid(pipeline, "batch")[0]:
                    state = completed(completed(state, pipeline, "backfill"), pipeline)
            again: Replay | None = Replay(pipeline)
            while again:
                state, again = replay_on(state, again)
        except Stopped as why:
            return f"stopped for ever: {why}"
    return next((found for p in state.bounds.pipelines if (found := _unbalanced(state, p))), None)


def completed(state: State, pipeline: str, kind: str = "batch") -> State:
    """After a run, or a backfill, with --accept-gap."""
    run: Run | None = Run(pipeline, state.last, kind)
    while run:
        state, run = run_on(state, run, accept_gap=True)
    return state


def _unbalanced(state: State, pipeline: str) -> str | None:
    batches = [commit for kind in ("batch", "backfill") for commit in state.valid(pipeline, kind)[0]]
    accounts = {(k, a.of or a.number): a for k in ("batch", "backfill") for a in state.standing(pipeline, k)}
    gone = {o for c in batches for o in c.gap} | {o for a in accounts.values() for o in a.lost}
    begun = state.first if state.valid(pipeline, "batch")[0] else state.last
    gone |= {*range(min(begun, state.bounds.history))} - state.consumed(pipeline)
    there = state.rows(pipeline)
    open_ = [row.offset for row in state.quarantine if row.pipeline == pipeline and not row.moved]
    for offset in range(state.last):
        count = there.count(offset) + open_.count(offset)
        if count > 1:
            return f"doubled: offset {offset}"
        if not count and state.kind(offset) != "d" and offset not in gone:
            return f"lost: offset {offset}"
    return _unproved(batches, accounts, there, open_)


def _unproved(
    batches: list[Commit], accounts: dict[tuple[str, int], Account], there: tuple[int, ...], open_: list[int]
) -> str | None:
    """What the audit would find from the receipts alone."""
    consumed = dropped = 0
    for batch in batches:
        account = accounts.get((batch.kind, batch.number))
        if len(batch.rows) == len(batch.taken):
            consumed += len(batch.rows)
        elif account is None:
            return f"{batch.kind} {batch.number} has no account"
        else:
            consumed += len(batch.rows) + account.refused + account.dropped
            dropped += account.dropped
    gaps = {offset for batch in batches for offset in batch.gap} - {o for b in batches for o in b.taken}
    found = len({*there, *open_} - gaps)
    return (
        None if consumed - dropped == found else f"the audit counts {consumed - dropped} records, and {found} are there"
    )


def explore(state: State, most: int = 10**7) -> tuple[int, str | None, list[str]]:
    """Every state that can be reached, the nearest first.

    Returns:
        How many they are, what is wrong in the first that is wrong, and the way there; None and no way if none is.
    """
    came: dict[State, tuple[State, str] | None] = {state: None}
    waiting = deque([state])
    while waiting and len(came) < most:
        now = waiting.popleft()
        if found := wrong(now):
            return len(came), found, _way(came, now)
        for name, after in steps(now):
            if after not in came:
                came[after] = (now, name)
                waiting.append(after)
    return len(came), None, []


def _way(came: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    way, at = list[str](), came[state]
    while at is not None:
        way.append(at[1])
        at = came[at[0]]
    return way[::-1]
