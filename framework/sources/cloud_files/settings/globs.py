"""Globs of the names of files."""

from __future__ import annotations

import re


def glob_pattern(glob: str) -> re.Pattern[str]:
    r"""Return the regular expression of one name's glob, with Hadoop's `*`, `?`, `[abc]`, `[^a-c]`, `{a,b}` and `\\`.

    Examples:
        >>> bool(glob_pattern("*.{json,csv}").fullmatch("a.csv")), bool(glob_pattern("[^a]?").fullmatch("ab"))
        (True, False)
    """
    text, depth, at = "", 0, 0
    while at < len(glob):
        character = glob[at]
        at += 1
        if character == "\\" and at < len(glob):
            text += re.escape(glob[at])
            at += 1
        elif character == "[" and "]" in glob[at + 1 :]:
            end = glob.index("]", at + 1)
            inside = glob[at:end]
            negated = inside[:1] in {"^", "!"}
            text += f"[{'^' if negated else ''}{inside[negated:].replace('[', '')}]"
            at = end + 1
        elif character in "{}":
            depth += 1 if character == "{" else -1
            text += "(?:" if character == "{" else ")"
        elif character == "," and depth:
            text += "|"
        else:
            text += {"*": ".*", "?": "."}.get(character, re.escape(character))
    return re.compile(text, re.DOTALL)
