"""The kind of iptables that a node uses, by the chains that are there."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.xtables_chains import ChainName
from kubeproxy.dataplane.xtables_kind import kind_of, use_kind_of_node
from kubeproxy.linux.tools import RuleKind
from kubeproxy.linux.xtables import KIND, find_program

HINT = ChainName("mangle", "KUBE-IPTABLES-HINT")
CANARY = ChainName("mangle", "KUBE-KUBELET-CANARY")
OTHERS = [ChainName("filter", f"cali-{number}") for number in range(3)]


@pytest.mark.parametrize(
    ("nft", "legacy", "expected"),
    [
        pytest.param([HINT], OTHERS, RuleKind.NFT, id="the-hint-counts-more-than-other-chains"),
        pytest.param(OTHERS, [HINT], RuleKind.LEGACY, id="the-hint-in-legacy"),
        pytest.param([], [CANARY], RuleKind.LEGACY, id="the-canary-of-older-kubelets"),
        pytest.param([HINT], [HINT], RuleKind.NFT, id="a-kubelet-that-was-moved-to-nft"),
        pytest.param(OTHERS, OTHERS[:1], RuleKind.NFT, id="more-chains-in-nft"),
        pytest.param(OTHERS[:1], OTHERS, RuleKind.LEGACY, id="more-chains-in-legacy"),
        pytest.param([], [], RuleKind.NFT, id="no-chains"),
    ],
)
def test_the_kubelet_says_it_else_where_most_chains_are(
    nft: Sequence[ChainName], legacy: Sequence[ChainName], expected: RuleKind
) -> None:
    kind, why = kind_of({RuleKind.NFT: nft, RuleKind.LEGACY: legacy})
    assert expected == kind
    assert why


@pytest.mark.parametrize("kind", ["nft", "legacy"])
def test_programs_are_of_the_kind_that_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv(KIND, kind)
    for family, stem in ((Family.IPV4, "iptables"), (Family.IPV6, "ip6tables")):
        program = find_program(family, "-save")
        assert program is not None
        assert Path(program).name == f"{stem}-{kind}-save"


def test_a_kind_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KIND, "ebtables")
    with pytest.raises(OperatorError, match="KUBE_PROXY_IPTABLES=ebtables: want legacy, nft or n"):
        use_kind_of_node()


def test_without_the_variable_nothing_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KIND, raising=False)
    assert use_kind_of_node() == ""
    assert KIND not in os.environ
