"""Types and values for random histories: the symbols of a history represent values of drawn types.

A history and the oracle use symbols only (`k`, `x`). Tables contain values of any type that Delta stores. A symbol is
written in any spelling of its value, and read back by the exact text of the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random

from pyspark.sql.types import DataType

from tests.support.cdc_types import CASES, KEY_CASES, Spelling, TypeCase, spelled, spellings_of, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Alphabet:
    """Symbols for values of one type.

    Args:
        case: the type.
        symbols: the index of the value of each symbol.
    """

    case: TypeCase
    symbols: Mapping[str, int]

    @classmethod
    def drawn(cls, random: Random, case: TypeCase, symbols: str) -> Alphabet:
        """Symbols for distinct values."""
        numbers = random.sample(range(len(case.values)), k=len(symbols))
        return cls(case=case, symbols=dict(zip(symbols, numbers, strict=True)))

    def __str__(self) -> str:
        told = ", ".join(f"{symbol}={self.case.values[number][0]}" for symbol, number in self.symbols.items())
        return f"{self.case.name}: {told}"

    def spellings(self, symbol: str) -> list[Spelling]:
        """How to write a symbol."""
        wanted = (self.case.name, self.symbols[symbol])
        return [spelling for spelling in spellings_of(self.case) if spelling.value == wanted]

    def numbers(self) -> Mapping[str, Iterator[int]]:
        """The spellings of each symbol in turn, for the rows of a batch."""
        return {symbol: cycle([each.number for each in self.spellings(symbol)]) for symbol in self.symbols}

    def written(self, number: str) -> str:
        """Return the SQL of the value in the spelling with the SQL `number`; NULL if that is NULL."""
        return spelled(number, [each for symbol in self.symbols for each in self.spellings(symbol)], self.case.ddl)

    def read(self, value: str, data_type: DataType) -> str:
        """The SQL of the symbol of a value; for a value without a symbol a question mark and its text."""
        told = text_of(value, data_type)
        branches = [
            f"WHEN {told} = {text_of(f'({each.sql})', data_type)} THEN '{symbol}'"
            for symbol in self.symbols
            for each in self.spellings(symbol)
        ]
        return f"CASE WHEN {value} IS NULL THEN NULL {' '.join(branches)} ELSE concat('? ', {told}) END"


def draw_alphabets(seed: int, *, table: int, values: int, structs: bool = True) -> tuple[Alphabet, ...]:
    """Return the alphabets of a table's key (k, m) and of its values (x, y); each table has other types.

    Args:
        seed: of the draw.
        table: the number of the table.
        values: the number of value columns.
        structs: whether a value may be a struct. Where nulls are ignored, each field of a struct is a separate value.
    """
    random = Random(seed)  # noqa: S311 - tests need choices that can be repeated, no secrets
    keys = random.sample(KEY_CASES, k=len(KEY_CASES))
    others = [case for case in random.sample(CASES, k=len(CASES)) if structs or not case.ddl.startswith("struct")]
    mine = others[table * values : (table + 1) * values]
    return (Alphabet.drawn(random, keys[table], "km"), *(Alphabet.drawn(random, case, "xy") for case in mine))


def numbered(alphabets: Sequence[Alphabet], rows: Sequence[Sequence[str | None]]) -> list[tuple[int | None, ...]]:
    """Rows of symbols as rows of spellings."""
    turns = [alphabet.numbers() for alphabet in alphabets]
    return [
        tuple(None if symbol is None else next(turn[symbol]) for turn, symbol in zip(turns, row, strict=True))
        for row in rows
    ]
