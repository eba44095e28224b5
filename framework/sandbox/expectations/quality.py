"""Expected counts of expectations."""

from __future__ import annotations

from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import nearest_hint
from framework.foundation.wording import counted
from framework.run.flows.quality_counts import ExpectationCount, QualityCounts
from framework.sandbox.expectations.examined import Examined, declared, flows_into, last_update


def check_quality(sandbox: Examined, dataset: str, expectation: str, *, passed: int | None, failed: int | None) -> None:
    """Check how many rows met an expectation and how many failed it in the last update.

    Raises:
        AssertionError: it has other counts, or was not checked.
        UserError: TEST_NO_UPDATE, TEST_EXPECTATION_UNKNOWN, TEST_QUALITY_WITHOUT_COUNT.
    """
    __tracebackhide__ = True
    if passed is None and failed is None:
        raise UserError("TEST_QUALITY_WITHOUT_COUNT", expectation=expectation)
    name = sandbox.dataset(dataset)
    counts = _counts(sandbox, name)
    _check_declared(sandbox, name, expectation)
    what = f"The expectation {expectation!r} of {dataset}"
    count = next((each for each in counts if each.name == expectation), None)
    if count is None:
        text = f"{what} was not checked in the last update. {_why(sandbox, name)}"
        raise AssertionError(text)
    wanted = [(passed, count.passed, "passed"), (failed, count.failed, "failed")]
    if any(expected not in (None, found) for expected, found, _ in wanted):
        stated = " and ".join(f"{counted(each, 'row')} {word}" for each, _, word in wanted if each is not None)
        text = f"{what}: {stated} expected, {_text(count)}.{_others(counts, expectation)}"
        raise AssertionError(text)


def _counts(sandbox: Examined, dataset: QualifiedName) -> tuple[ExpectationCount, ...]:
    """Return the counts of a dataset's expectations in the last update, from all flows into it."""
    found = QualityCounts()
    for flow in last_update(sandbox).flows:
        own = tuple(count for count in flow.expectations if count.dataset == dataset)
        found = found.plus(QualityCounts(expectations=own))
    return found.expectations


def _check_declared(sandbox: Examined, dataset: QualifiedName, expectation: str) -> None:
    names = [each.name for each in declared(sandbox, dataset).expectations]
    if expectation in names:
        return
    known = f"it has {', '.join(map(repr, names))}" if names else "it has none"
    owners = [
        str(spec.name)
        for spec in sandbox.pipeline.definitions.registry.datasets
        if expectation in [each.name for each in spec.expectations]
    ]
    hint = f" It is an expectation of {', '.join(owners)}." if owners else nearest_hint(expectation, names)
    raise UserError("TEST_EXPECTATION_UNKNOWN", dataset=dataset, expectation=expectation, known=known, hint=hint)


def _why(sandbox: Examined, dataset: QualifiedName) -> str:
    """Return why nothing was checked, as far as the flows of the update say."""
    flows = list(flows_into(sandbox, dataset))
    if not flows:
        return "The update did not include the dataset."
    return " ".join(f"Flow {flow.flow} is {flow.state.value}: {flow.reason}." for flow in flows)


def _text(count: ExpectationCount) -> str:
    return f"{count.passed:,} passed and {count.failed:,} failed"


def _others(counts: tuple[ExpectationCount, ...], expectation: str) -> str:
    """Return the counts of the other expectations of a dataset, one a line."""
    return "".join(f"\n  {each.name!r}: {_text(each)}" for each in counts if each.name != expectation)
