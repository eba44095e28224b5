"""The cost of a way out: rows lost, repeated and read again, as numbers where positions and logs have them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A number of rows.

    Args:
        rows: the number; None if it is unknown.
        note: what the rows are, or why the number is unknown; may be empty.
        at_most: whether the number is an upper bound.
        is_gone: whether no way out can recover the rows: the sources deleted them before the target had them.
    """

    rows: int | None
    note: str = ""
    at_most: bool = False
    is_gone: bool = False

    def __str__(self) -> str:
        """The amount as text.

        Examples:
            >>> str(Amount(rows=0)), str(Amount(rows=1)), str(Amount(rows=None, note="the files are gone"))
            ('none', '1 row', 'unknown: the files are gone')
            >>> str(Amount(rows=3, at_most=True, note="of an open batch"))
            'at most 3 rows: of an open batch'
        """
        if self.rows is None:
            number = "unknown"
        elif self.rows == 0:
            number = "none"
        else:
            number = f"{'at most ' if self.at_most else ''}{self.rows:,} row{'' if self.rows == 1 else 's'}"
        return f"{number}: {self.note}" if self.note else number

    def plus(self, other: Amount) -> Amount:
        """Return the sum, with both notes; unknown if either amount is unknown."""
        notes = dict.fromkeys(note for note in (self.note, other.note) if note)
        return Amount(
            rows=None if self.rows is None or other.rows is None else self.rows + other.rows,
            note="; ".join(notes),
            at_most=self.at_most or other.at_most,
            is_gone=all(each.is_gone for each in (self, other) if each.rows != 0) and (self.is_gone or other.is_gone),
        )


NONE = Amount(rows=0)


def unknown(why: str, *, is_gone: bool = False) -> Amount:
    """Return an unknown amount, with the reason."""
    return Amount(rows=None, note=why, is_gone=is_gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The effect of a way out on rows.

    Args:
        lost: rows of the sources that will be missing in the target, or rows that the target loses.
        repeated: rows that will be twice in the target.
        reread: rows that are read again, whether or not they become duplicates.
    """

    lost: Amount = NONE
    repeated: Amount = NONE
    reread: Amount = NONE

    @property
    def severity(self) -> tuple[bool, bool, bool]:
        """The sort key of ways out, least harm first: are rows lost, are rows repeated, is a number unknown.

        Rows that no way out can recover do not count, because each way out loses them.

        Examples:
            >>> Cost(repeated=unknown("why")).severity < Cost(lost=Amount(rows=1)).severity
            True
            >>> Cost(lost=unknown("deleted by Kafka", is_gone=True)).severity < Cost(lost=Amount(rows=1)).severity
            True
        """
        is_unknown = self.lost.rows is None or self.repeated.rows is None
        return self.lost.rows != 0 and not self.lost.is_gone, self.repeated.rows != 0, is_unknown


FREE = Cost()
