"""In which modes the tests run, and what a test says where a mode differs.

A test that uses `lab` runs with every variant of the mode that `--mode` names; nothing else has to
be written. The exceptions are said in the test:

- `@differs("ipvs", reason="...")`: shown as skipped in that mode, with the reason.
- `@only("nftables", reason="...")`: for tests that are about something else than a Service, and
  need one mode only. They are left out of the runs of other modes.

A file `test_MODE_*.py` is about that mode. All other tests run once, in the run of nftables mode.
"""

from collections.abc import Iterable

import pytest

from lab.ipvs import IPVS
from lab.stage import NFTABLES, USERSPACE, Variant
from lab.xtables import IPTABLES
from world import Mode

VARIANTS: tuple[Variant, ...] = (NFTABLES, *IPTABLES.values(), IPVS, USERSPACE)
CHOICES = tuple(dict.fromkeys(name for each in VARIANTS for name in (each.mode.value, each.name)))
_TEST_KERNEL = "test_uml_"
"""Files about the test kernel, which runs ipvs mode."""


def only(*modes: str, reason: str) -> pytest.MarkDecorator:
    """The test runs in these modes or variants alone."""
    _check(modes, reason)
    return pytest.mark.only_in(modes, reason)


def differs(*modes: str, reason: str) -> pytest.MarkDecorator:
    """The test is not true in these modes or variants."""
    _check(modes, reason)
    return pytest.mark.differs_in(modes, reason)


def _check(modes: Iterable[str], reason: str) -> None:
    assert reason, "say why"
    assert set(modes) <= set(CHOICES), f"not all of these are modes: {modes}"


sampled = differs("ipvs", reason="the test kernel is slow: only some of these run there")
"""For those of many similar cases that show nothing new in ipvs mode."""


def chosen(name: str) -> list[Variant]:
    """The variants of a mode, or the one of that name."""
    return [each for each in VARIANTS if _is_in(each, [name])]


def is_selected(item: pytest.Function, name: str) -> bool:
    """Whether a test runs in that mode."""
    variant = variant_of(item)
    variants = chosen(name) if variant is None else [variant]
    modes = {each.mode for each in variants}
    about = _about(item.path.name)
    if about is not None:
        return about in modes and all(_allows(item, each) for each in variants)
    if variant is None:
        return Mode.NFTABLES in modes
    return _allows(item, variant)


def difference(item: pytest.Function) -> str:
    """Why a test is not true in its mode; "" if it is."""
    variant = variant_of(item)
    if variant is None:
        return ""
    marks = (mark.args for mark in item.iter_markers("differs_in"))
    return next((reason for modes, reason in marks if _is_in(variant, modes)), "")


def variant_of(item: pytest.Function) -> Variant | None:
    """The variant that a test runs with, if it uses a lab."""
    found = item.callspec.params.get("stage") if hasattr(item, "callspec") else None
    return found if isinstance(found, Variant) else None


def _about(file: str) -> Mode | None:
    """The mode that a file of tests is about."""
    if file.startswith(_TEST_KERNEL):
        return Mode.IPVS
    return next((mode for mode in Mode if file.startswith(f"test_{mode.value}_")), None)


def _allows(item: pytest.Function, variant: Variant) -> bool:
    return all(_is_in(variant, mark.args[0]) for mark in item.iter_markers("only_in"))


def _is_in(variant: Variant, names: Iterable[str]) -> bool:
    return not {variant.name, variant.mode.value}.isdisjoint(names)
