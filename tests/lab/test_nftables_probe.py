"""The question to the kernel at the start: what is missing is named, and nothing is written."""

import subprocess

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables import expressions
from kubeproxy.dataplane.nftables.probe import KernelTooOldError, probe
from kubeproxy.linux.nfnetlink import Nfnetlink
from world import Mode, node


@pytest.mark.parametrize("family", Family)
def test_this_kernel_can_do_everything_and_nothing_is_written(family: Family) -> None:
    with Nfnetlink() as kernel:
        before = kernel.generation()
        probe(kernel, node(Mode.NFTABLES, family))
        assert before == kernel.generation()
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    assert "probe" not in tables.stdout


def test_an_expression_that_the_kernel_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    known = expressions.expression

    def lacking(name: str, *parts: bytes) -> bytes:
        return known("numgen-of-the-future" if name == "numgen" else name, *parts)

    monkeypatch.setattr(expressions, "expression", lacking)
    with Nfnetlink() as kernel, pytest.raises(KernelTooOldError) as caught:
        probe(kernel, node(Mode.NFTABLES))
    assert "refuses the rule 'meta priority set numgen random mod 2" in str(caught.value)
