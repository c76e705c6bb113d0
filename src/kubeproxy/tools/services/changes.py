"""What is different between two lists of Services. Functions on values only."""

from collections.abc import Sequence

from msgspec.structs import replace

from kubeproxy.serve.status.wire import ServiceSummary


def changes(
    before: Sequence[ServiceSummary], now: Sequence[ServiceSummary]
) -> tuple[tuple[ServiceSummary, ...], tuple[ServiceSummary, ...]]:
    """Those that are new or other than before, and those that are gone; counts do not matter."""
    known = {_key(each): _still(each) for each in before}
    here = {_key(each) for each in now}
    changed = tuple(each for each in now if known.get(_key(each)) != _still(each))
    return changed, tuple(each for each in before if _key(each) not in here)


def _key(each: ServiceSummary) -> tuple[str, str]:
    return each.namespace, each.service


def _still(each: ServiceSummary) -> ServiceSummary:
    return replace(each, connections=None, per_second=None)
