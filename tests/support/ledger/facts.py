"""What a ledger's faults mean and how they end."""

from __future__ import annotations

from framework.foundation.conditions import register_conditions
from framework.foundation.conditions.entry import Condition
from framework.sources.databases.facts import DialectFacts, GapEnd, Remedy, SourceDiagnosis

HELD = "DATABASE_POSITION_LOST.LEDGER_HELD"
CONDITIONS = {
    HELD: Condition(
        "Somebody holds the ledger, read by {reader} up to {position}: {reason}.",
        "When it may be read again, run: `DELETE FROM ledger_holds`. Nothing is lost.",
    )
}
FACTS = DialectFacts(
    diagnoses=(
        SourceDiagnosis(
            name="LEDGER_HELD",
            meaning="Somebody holds the ledger. Its changes are kept.",
            conditions=(HELD,),
            remedies=(Remedy.FOLLOW,),
        ),
    ),
    gap_ends={HELD: GapEnd(statement="DELETE FROM ledger_holds")},
)
register_conditions(CONDITIONS)
