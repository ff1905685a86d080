"""Records of many schemas in one table: may this one be written, as what, and what changes. Pure.

check, explain   Confluent's rules to the letter: a verdict, and where it was come to        verdict.py
decide           what a Delta table does with it: write, project, evolve, quarantine         decision.py
with_column_names which column takes which field of a record, by name or alias               naming.py
changes          the difference of two schemas, field by field                               changes.py
merge            the union of two schemas, and what Delta can widen                          widening.py
"""

from lakeingest.schema.compatibility.changes import Change, changes
from lakeingest.schema.compatibility.decision import Action, Decision, decide
from lakeingest.schema.compatibility.verdict import Mode, PlacedVerdict, Verdict, check, explain, structural
from lakeingest.schema.compatibility.widening import NotAdditive, merge

__all__ = [
    "Action",
    "Change",
    "Decision",
    "Mode",
    "NotAdditive",
    "PlacedVerdict",
    "Verdict",
    "changes",
    "check",
    "decide",
    "explain",
    "merge",
    "structural",
]
