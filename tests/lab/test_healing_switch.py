"""Healing is switched on and off in a table in use, of which nothing else is lost."""

import re
from collections.abc import Iterable, Mapping

import pytest

from kubeproxy.dataplane.nftables.names import CHAINS_OF_HEALING, GONE_ANY, OF_HEALING
from lab.attempts import OUTSIDE, POD, WAYS, Attempt, attempt
from lab.deploy import Address, affinity, deploy, everywhere
from lab.failures import REFUSES, failing
from lab.healed import PORTS, Healer, annotated, healed, of_pods, talks
from lab.listing import KEYWORD, blocks, list_table, without_idle_choices
from lab.modes import only
from lab.outcome import Probe
from lab.plan import crowd, vip
from world import Document

CLIENTS = 8
FOUR = "L1 L2 R1 R2"

pytestmark = only("nftables", reason="other modes do not heal")


def plain(endpoints: str = FOUR) -> list[Document]:
    """A Service with pins, that is not healed."""
    documents = deploy("web", everywhere(21), endpoints, PORTS, affinity())
    return annotated(of_pods(documents), balance="round-robin")


def with_healing(endpoints: str = FOUR) -> list[Document]:
    return healed(plain(endpoints))


def pinned(kernel: Healer) -> list[Attempt]:
    """What each of the clients gets at once."""
    family = kernel.family
    probes = (Probe("X", crowd(n, family), vip(21, family), 80) for n in range(CLIENTS))
    return attempt(kernel.network, probes)


def nft(kernel: Healer, *words: str) -> str:
    return kernel.network.node.run(["nft", *words])


def table(kernel: Healer) -> str:
    """The number that the kernel gave our table: another table has another one."""
    found = re.search(
        rf"table {KEYWORD[kernel.family]} kube-proxy .*# handle (\d+)",
        nft(kernel, "-a", "list", "table", KEYWORD[kernel.family], "kube-proxy"),
    )
    assert found
    return found[1]


def counted(kernel: Healer) -> int:
    """Connections that clients have made to the load balancer's address."""
    listed = nft(
        kernel, "list", "set", KEYWORD[kernel.family], "kube-proxy", "service-connections"
    )
    found = re.search(rf"{vip(21, kernel.family)} \. tcp \. 80 counter packets (\d+)", listed)
    assert found
    return int(found[1])


def parts_of_healing(kernel: Healer) -> set[str]:
    """The sets and chains of healing that there are."""
    listed = blocks(list_table(kernel.network.node, kernel.family))
    found = {head.partition(" ")[2] for head in listed}
    return found & (CHAINS_OF_HEALING | OF_HEALING)


def check_listed(kernel: Healer) -> None:
    """The kernel has what we would write, but for what packets leave behind."""
    wanted = without_counts(blocks(kernel.plane.text()))
    found = without_counts(blocks(list_table(kernel.network.node, kernel.family)))
    assert without_idle_choices(found, wanted) == wanted


def without_counts(found: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """The blocks without what was counted, and without whether an endpoint has ever left."""
    return {
        head: frozenset(re.sub(r"counter packets \d+ bytes \d+", "", line) for line in lines)
        for head, lines in found.items()
        if head != f"set {GONE_ANY}"
    }


def test_healing_comes_and_goes(kernel: Healer) -> None:
    """Clients keep their endpoints, connections are counted on, and the table is the same."""
    kernel.put(plain())
    assert parts_of_healing(kernel) == set()
    first = pinned(kernel)
    before = table(kernel)
    for number in range(1, 4):
        kernel.put(with_healing())
        assert parts_of_healing(kernel) == CHAINS_OF_HEALING | OF_HEALING
        check_listed(kernel)
        assert pinned(kernel) == first
        kernel.put(plain())  # what nobody uses goes with the next full sync
        check_unused(kernel)
        kernel.plane.resync()
        assert parts_of_healing(kernel) == set()
        check_listed(kernel)
        assert pinned(kernel) == first
        assert counted(kernel) == (1 + 2 * number) * CLIENTS
    assert table(kernel) == before


def check_unused(kernel: Healer) -> None:
    """No frontend is healed."""
    for name in ("retry-refused-services", "retry-unanswered-nodeports", "reset-gone-services"):
        listed = nft(kernel, "list", "set", KEYWORD[kernel.family], "kube-proxy", name)
        assert "elements" not in listed


def test_a_restart_with_healing_writes_nothing(kernel: Healer) -> None:
    """Whatever packets have left in the sets."""
    kernel.put(with_healing())
    with failing(kernel.network, REFUSES, kernel.turn()[-1]):
        kernel.dial(times=4)
    kernel.put(with_healing("L1"))
    before = table(kernel)
    assert kernel.plane.restart().written == 0
    assert kernel.plane.kernel.sizes == []
    assert table(kernel) == before
    check_listed(kernel)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("flush chain {} kube-proxy healing", id="chain-flushed"),
        pytest.param("flush chain {} kube-proxy filter/prerouting-healing", id="hook-flushed"),
        pytest.param("insert rule {} kube-proxy retry counter", id="rule-inserted"),
        pytest.param(
            "flush chain {0} kube-proxy nat/input-healing;"
            "delete chain {0} kube-proxy nat/input-healing",
            id="hook-deleted",
        ),
        pytest.param("chain {} kube-proxy nat/input-healing {{ policy drop; }}", id="policy"),
        pytest.param("flush set {} kube-proxy retry-refused-services", id="frontends-flushed"),
    ],
)
def test_rules_that_others_changed_are_put_right(kernel: Healer, script: str) -> None:
    """These alone: clients keep their endpoints."""
    kernel.put(with_healing())
    first = pinned(kernel)
    before = table(kernel)
    nft(kernel, script.format(KEYWORD[kernel.family]))
    kernel.plane.resync()
    check_listed(kernel)
    assert parts_of_healing(kernel) == CHAINS_OF_HEALING | OF_HEALING
    assert pinned(kernel) == first
    assert table(kernel) == before


def test_rules_that_are_put_right_know_what_left_before(kernel: Healer) -> None:
    """What packets and departures have left in the sets stays there."""
    kernel.put(with_healing("L1 R1"))
    connections = [kernel.connect(POD), kernel.connect(OUTSIDE)]
    kernel.put(with_healing("L2"))
    nft(kernel, f"flush chain {KEYWORD[kernel.family]} kube-proxy filter/prerouting-healing")
    kernel.plane.resync()
    assert not any(map(talks, connections))
    assert kernel.plane.restart().written == 0


def test_one_service_of_two_is_healed(kernel: Healer) -> None:
    """By its annotation; the other is refused at once, on the same node."""
    other = annotated(deploy("other", Address(22), FOUR), balance="round-robin")
    kernel.put([*with_healing(), *other])
    with failing(kernel.network, REFUSES, *FOUR.split()):
        assert kernel.dial([POD, OUTSIDE]) == [Attempt("ECONNREFUSED", 1)] * 2
        probe = POD.probe(22, kernel.family, 0)
        assert attempt(kernel.network, [probe]) == [Attempt("ECONNREFUSED")]
        kernel.put([*plain(), *other])
        assert kernel.dial(WAYS) == [Attempt("ECONNREFUSED")] * 4


def test_a_part_alone(kernel: Healer) -> None:
    """Each of them is there without the others."""
    documents = plain()
    kernel.put(healed(documents, "resetGone"))
    with failing(kernel.network, REFUSES, *FOUR.split()):
        assert kernel.dial([POD]) == [Attempt("ECONNREFUSED")]
        kernel.put(healed(documents, "retryUnanswered"))
        assert kernel.dial([POD]) == [Attempt("ECONNREFUSED")]
        kernel.put(healed(documents, "retryRefused"))
        assert kernel.dial([POD]) == [Attempt("ECONNREFUSED", 1)]
