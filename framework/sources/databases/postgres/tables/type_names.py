"""Names of column types in SQL, for the catalog and for the check of each chunk: both must name a type the same way."""

from __future__ import annotations

TYPE_NAME = """CASE t.typnamespace
               WHEN 'pg_catalog'::regnamespace THEN regexp_replace(format_type(t.oid, f.modifier), '^pg_catalog\\.', '')
               ELSE quote_ident(n.nspname) || '.' || quote_ident(t.typname)
           END || repeat('[]', f.dims)"""
"""The name of the type of the column `a`, in the form of `SourceColumn.type_name`."""

FROM_RESOLVED = """FROM final AS f
    JOIN pg_attribute AS a ON a.attrelid = f.attrelid AND a.attnum = f.attnum
    JOIN pg_type AS t ON t.oid = f.type
    JOIN pg_namespace AS n ON n.oid = t.typnamespace"""

# A domain is resolved to its base type, an array to its element type. `dims` counts the resolved arrays.
_RESOLVED = """resolved AS (
        SELECT a.attrelid, a.attnum, a.atttypid AS type, a.atttypmod AS modifier, 0 AS dims, 0 AS depth
        FROM pg_attribute AS a
        WHERE :condition AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT r.attrelid, r.attnum,
               CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.typelem END,
               CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE r.modifier END,
               r.dims + CASE t.typtype WHEN 'd' THEN 0 ELSE 1 END,
               r.depth + 1
        FROM resolved AS r
        JOIN pg_type AS t ON t.oid = r.type
        WHERE t.typtype = 'd' OR t.typoutput = 'pg_catalog.array_out'::regproc
    ), final AS (
        SELECT DISTINCT ON (attrelid, attnum) * FROM resolved ORDER BY attrelid, attnum, depth DESC
    )"""


def resolved_types(condition: str) -> str:
    """Return the common table expressions, for WITH RECURSIVE, that `FROM_RESOLVED` reads.

    Args:
        condition: a condition on `a`, a row of pg_attribute.
    """
    return _RESOLVED.replace(":condition", condition)
