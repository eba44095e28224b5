"""Jinja's environment for templates of YAML: a sandbox in which no value can become structure.

`Markup` marks text that is already YAML: what the filter `yaml` returns, and what macros and blocks have rendered.
Jinja's own rule is for HTML: it escapes quotes and `&`, and lets a newline and a colon pass.
Here, text beside YAML must be safe in YAML, and what operators and filters make of YAML is text again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, nodes, pass_environment, pass_eval_context
from jinja2.compiler import CodeGenerator
from jinja2.filters import do_indent, make_attrgetter
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from framework.foundation.secrets.secrecy import hide_in_text

if TYPE_CHECKING:
    from jinja2 import BaseLoader
    from jinja2.compiler import Frame
    from jinja2.nodes import EvalContext
    from jinja2.runtime import Context

# Plain text that YAML reads as the same text at any position of a scalar or a part of one.
_PLAIN = re.compile(r"[A-Za-z_/][\w./@+-]*", re.ASCII)
_YAML_KEYWORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_SEPARATOR = re.compile(r"[\s,:|-]*")
_GLOBALS = ("range", "dict", "namespace")
_NONDETERMINISTIC_FILTERS = ("random", "pprint")
# They mark any text as safe, by the rules of HTML or by none.
_FILTERS_OF_HTML = ("safe", "e", "escape", "forceescape", "urlize", "xmlattr")
_FILTERS_OF_TEXT = (
    "capitalize",
    "center",
    "format",
    "lower",
    "replace",
    "reverse",
    "sum",
    "title",
    "trim",
    "truncate",
    "upper",
    "wordwrap",
)


class _Code(CodeGenerator):
    """The code of a template: `~` and blocks obey the rules of YAML, not of HTML."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._checked: list[bool] = []

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - the name of the class of nodes
        """Write a call of `joined`; literals are the template's own."""
        self.write("environment.joined((")
        for value in node.nodes:
            self.visit(value, frame)
            self.write(", ")
        self.write(f"), {tuple(isinstance(value, nodes.Const) for value in node.nodes)})")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802 - as above
        """Write a slice of a text; Jinja's own is one of `Markup`."""
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.as_text(")
        self.visit(node.node, frame)
        self.write(")[")
        self.visit(node.arg, frame)
        self.write("]")

    def visit_AssignBlock(self, node: nodes.AssignBlock, frame: Frame) -> None:  # noqa: N802 - as above
        """Refuse a filter of the block, whose result Jinja takes for safe."""
        if node.filter is not None:
            self.fail("a filter of a `set` block has no effect here; use it where the value is used", node.lineno)
        super().visit_AssignBlock(node, frame)

    def start_write(self, frame: Frame, node: nodes.Node | None = None) -> None:
        """Begin output; `filter` and `call` blocks are checked as `{{ }}` is."""
        super().start_write(frame, node)
        self._checked.append(isinstance(node, nodes.FilterBlock | nodes.CallBlock))
        if self._checked[-1]:
            self.write("environment.checked(")

    def end_write(self, frame: Frame) -> None:
        """End output."""
        if self._checked.pop():
            self.write(")")
        super().end_write(frame)


class YamlEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox of templates: plain values, an error for an undefined name, and the filter `yaml`.

    Args:
        loader: returns the templates by name.
    """

    code_generator_class = _Code

    def __init__(self, loader: BaseLoader) -> None:
        super().__init__(
            loader=loader,
            undefined=StrictUndefined,
            autoescape=True,  # macros and blocks return `Markup`
            finalize=_finalize,
            optimized=False,  # the optimizer folds `~` of constants by its own rule
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self.intercepted_binops = frozenset({"+", "*", "%"})
        for name in (*_NONDETERMINISTIC_FILTERS, *_FILTERS_OF_HTML):
            self.filters.pop(name, None)
        for name in _FILTERS_OF_TEXT:
            self.filters[name] = _of_text(self.filters[name])
        self.filters |= {"yaml": as_yaml, "join": _join, "indent": _indent}
        self.globals = {name: self.globals[name] for name in _GLOBALS}

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Return the result of an operator; for YAML it is text, which must be safe where it is output."""
        return super().call_binop(context, operator, _as_text(left), _as_text(right))

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute; for YAML, of its text."""
        return super().getattr(_as_text(obj), attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item; for YAML, of its text, because a part of a quoted text is not quoted."""
        return super().getitem(_as_text(obj), argument)

    def as_text(self, value: Any) -> Any:
        """Return the text of YAML; any other value itself."""
        return _as_text(value)

    def joined(self, values: Sequence[Any], literal: Sequence[bool]) -> str:
        """Return the result of `~`: YAML if one value is YAML and the others are literals or safe, else text.

        Raises:
            ValueError: a value beside YAML is not safe.
        """
        if not any(isinstance(value, Markup) for value in values):
            return "".join(map(str, values))
        pairs = zip(values, literal, strict=True)
        texts = [str(value) if is_literal else self.checked(value) for value, is_literal in pairs]
        return Markup("".join(texts))  # noqa: S704 - literals of the template and what is checked

    def checked(self, value: Any) -> Markup:
        """Return a value as YAML.

        Raises:
            ValueError: YAML would not read its text unchanged.
        """
        if isinstance(value, Markup):
            return value
        text = str(value)  # an undefined name raises here
        if isinstance(value, bool):
            return Markup(text.lower())  # noqa: S704 - true or false
        if isinstance(value, int | float) or _is_plain_yaml(value):
            return Markup(text)  # noqa: S704 - a number, or what the pattern lets through
        message = f"{hide_in_text(text)!r:.80} would not be read unchanged from YAML; use the filter `| yaml`"
        raise ValueError(message)


def as_yaml(value: Any) -> Markup:
    r"""Return a plain value as one line of YAML; the filter `yaml` of templates.

    Examples:
        >>> str(as_yaml("on: call")), str(as_yaml(["a", 1])), str(as_yaml("\x85"))
        ('"on: call"', '["a", 1]', '"\\u0085"')
    """
    if _is_plain_yaml(value):
        return Markup(value)  # noqa: S704 - the pattern lets through only what YAML reads as this text
    text = json.dumps(value, ensure_ascii=False)
    # YAML has no place for some letters of JSON, and reads others as the end of a line.
    escaped = "".join(each if each.isprintable() else _escape(each) for each in text)
    return Markup(escaped)  # noqa: S704 - with these escapes, JSON is YAML


def _escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


def _is_plain_yaml(value: Any) -> bool:
    return isinstance(value, str) and bool(_PLAIN.fullmatch(value)) and value.lower() not in _YAML_KEYWORDS


def _as_text(value: Any) -> Any:
    """Return the text of YAML; any other value itself, the items of a list as texts."""
    if isinstance(value, Markup):
        return str.__str__(value)
    return [_as_text(each) for each in value] if isinstance(value, list | tuple) else value


def _of_text(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that gets the text of YAML."""

    @wraps(apply)  # with the mark that it gets the context
    def filtered(*args: Any, **kwargs: Any) -> Any:
        return apply(*map(_as_text, args), **{name: _as_text(value) for name, value in kwargs.items()})

    return filtered


@pass_eval_context
def _finalize(context: EvalContext, value: Any) -> Markup:
    """Return the output of `{{ }}`.

    The parameter keeps Jinja from folding constants at compile time, which would bypass this function.
    """
    found: Markup = context.environment.checked(value)  # type: ignore[attr-defined]
    return found


@pass_environment
def _join(environment: YamlEnvironment, values: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    """Join values with a separator, by the rule of `~`; between YAML it is punctuation."""
    found = list(values if attribute is None else map(make_attrgetter(environment, attribute), values))
    if not any(isinstance(each, Markup) for each in found):
        return str(d).join(map(str, found))
    separator = Markup(d) if _SEPARATOR.fullmatch(str(d)) else environment.checked(d)  # noqa: S704 - punctuation
    return separator.join(map(environment.checked, found))


def _indent(text: str, width: int = 4, first: bool = False, blank: bool = False) -> str:  # noqa: FBT001, FBT002 - Jinja's
    """Indent by a number of spaces; a text of the caller's choice would be a part of the YAML."""
    return do_indent(text, int(width), first, blank)
