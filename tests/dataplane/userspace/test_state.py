"""What follows when a service port has something else."""

from kubeproxy.dataplane.userspace.listeners import ListKey, Place, listener_of
from kubeproxy.dataplane.userspace.orders import Close, Drop, Open, Targets
from kubeproxy.dataplane.userspace.rules import Element
from kubeproxy.dataplane.userspace.state import Change, Numbers, Opened, Part
from kubeproxy.table.entries import Entry
from kubeproxy.table.policy import Scope
from world import endpoint_slice, service, table_of

KEPT, GONE, COME = (Element("services", key, "a . 1") for key in ("kept", "gone", "come"))


def entry(endpoints: str) -> Entry:
    (found,) = table_of(service(), endpoint_slice(endpoints)).entries.values()
    return found


def part(endpoints: str, *elements: Element) -> Part:
    found = entry(endpoints)
    listener = listener_of(found, found.frontends[0], Scope.CLUSTER)
    return Part(
        found,
        service=1,
        listeners={listener: Opened(2, Place("0.0.0.0", 4711))},  # a value
        lists={ListKey(found.name, Scope.CLUSTER): 3},
        elements=frozenset(elements),
    )


def targets(*hosts: str) -> Targets:
    name = str(entry("L1").name)
    return Targets(3, 1, name, 0, tuple((host, 8080) for host in hosts))


def test_a_new_one() -> None:
    change = Change()
    change.replace(None, part("L1", COME))
    assert change.before == [targets("10.64.3.11"), Open(2, True, 3)]
    assert (change.after, change.gone, change.come) == ([], set(), {COME})
    assert change.size == 3


def test_other_endpoints() -> None:
    change = Change()
    change.replace(part("L1", KEPT, GONE), part("L1 R1", KEPT, COME))
    assert change.before == [targets("10.64.3.11", "10.65.7.21")]
    assert (change.after, change.gone, change.come) == ([], {GONE}, {COME})


def test_one_that_goes() -> None:
    change = Change()
    change.replace(part("L1", GONE), None)
    assert (change.before, change.after) == ([], [Close(2), Drop(3)])


def test_what_another_service_port_takes_over_stays() -> None:
    change = Change()
    change.replace(part("L1", KEPT), None)
    change.replace(None, part("R1", KEPT))
    assert (change.gone, change.come) == (set(), set())


def test_no_number_twice() -> None:
    numbers = Numbers()
    assert (numbers.new(), numbers.new()) == (1, 2)
