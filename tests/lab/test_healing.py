"""Connections to endpoints that refuse or do not answer, healed by the kernel alone.

There is no daemon. Services take their endpoints in turn, so that it is known which ones an
attempt meets: with the last one failing, retries begin again with the first.
"""

from lab.attempts import HOST, OUTSIDE, OUTSIDE_TO_NODE, POD, WAYS, Attempt, retries
from lab.deploy import Port, deploy, everywhere
from lab.failures import IS_SILENT, REFUSES, failing
from lab.healed import PORTS, Healer, healed
from lab.modes import only

FOUR = "L1 L2 R1 R2"
REFUSED_AT_ONCE = Attempt("ECONNREFUSED")
REFUSED_TWICE = Attempt("ECONNREFUSED", 1)

pytestmark = only("nftables", reason="other modes do not heal")


def test_who_is_refused_by_one_of_four_gets_another(kernel: Healer) -> None:
    """Each of the refusals costs one retry, and the next in turn answers it."""
    kernel.put(healed(deploy("web", everywhere(21), FOUR, PORTS)))
    *others, last = kernel.turn()
    with failing(kernel.network, REFUSES, last) as failures:
        found = kernel.dial(times=4)
    assert {each.who for each in found} == {*others}
    assert failures[last].count == len(WAYS)
    assert sorted(each.retries for each in found) == [0] * 12 + [1] * 4


def test_who_gets_no_answer_from_one_of_two_gets_the_other(kernel: Healer) -> None:
    """Each of the SYNs that were not answered costs one retry."""
    kernel.put(healed(deploy("web", everywhere(21), "L1 R1", PORTS)))
    first, last = kernel.turn()
    with failing(kernel.network, IS_SILENT, last) as failures:
        # Node ports have a turn of their own; each other retry is the third of four.
        found = kernel.dial((POD, HOST, OUTSIDE_TO_NODE, OUTSIDE_TO_NODE))
        found += kernel.dial([OUTSIDE])
    assert {each.who for each in found} == {first}
    assert failures[last].count == 3
    assert sorted(each.retries for each in found) == [0, 0, 1, 1, 1]


def test_nobody_is_refused_at_once_when_chance_chooses(kernel: Healer) -> None:
    """Whoever meets the one that refuses is retried, however often that is."""
    kernel.put(healed(deploy("web", everywhere(21), FOUR, PORTS), balance="random"))
    with failing(kernel.network, REFUSES, "R1") as failures:
        found = kernel.dial(times=10)
    refused = [each for each in found if each.who == "ECONNREFUSED"]
    assert {each.who for each in found} <= {"L1", "L2", "R2", "ECONNREFUSED"}
    assert all(each.retries for each in refused)
    assert failures["R1"].count == retries(found) + len(refused)


def test_all_refuse(kernel: Healer) -> None:
    """The error comes with the answer to the second SYN."""
    kernel.put(healed(deploy("web", everywhere(21), FOUR, PORTS)))
    with failing(kernel.network, REFUSES, *FOUR.split()) as failures:
        assert kernel.dial(times=2) == [REFUSED_TWICE] * 8
    assert sum(each.count for each in failures.values()) == 16


def test_none_answers(kernel: Healer) -> None:
    """The client waits as long as it wants to, and is told nothing: as without healing."""
    kernel.put(healed(deploy("web", everywhere(21), FOUR, PORTS)))
    with failing(kernel.network, IS_SILENT, *FOUR.split()) as failures:
        found = kernel.dial(patience=2.5)
    assert {each.who for each in found} == {"ETIMEDOUT"}
    assert sum(each.count for each in failures.values()) == len(found) + retries(found)
    assert min(each.retries for each in found) >= 1


def test_the_only_endpoint_refuses(kernel: Healer) -> None:
    """There is no other that a retry could reach."""
    kernel.put(healed(deploy("web", everywhere(21), "L1", PORTS)))
    with failing(kernel.network, REFUSES, "L1"):
        assert kernel.dial() == [REFUSED_AT_ONCE] * 4


def test_without_healing_nothing_is_retried(kernel: Healer) -> None:
    """The Service beside a healed one."""
    kernel.put(
        [
            *deploy("web", everywhere(21), FOUR, PORTS),
            *healed(deploy("other", everywhere(22), FOUR, [Port(81, 8081)])),
        ]
    )
    with failing(kernel.network, REFUSES, *FOUR.split()):
        assert kernel.dial() == [REFUSED_AT_ONCE] * 4
