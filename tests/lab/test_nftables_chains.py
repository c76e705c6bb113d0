"""The chains of choices while endpoints come and go, in a real kernel."""

from collections.abc import Iterator

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.idle import MOST_IDLE
from kubeproxy.table.entries import Entry
from kubeproxy.table.policy import Policy
from lab.entries import exposed, served
from lab.farm import crop
from lab.listing import KEYWORD, blocks, list_table
from lab.plane import Plane
from lab.stage import Lab

LONGEST = 150


def churned(family: Family) -> Iterator[Entry]:
    """A service under each kind of policy whose endpoints grow in number, and leave."""
    backends = tuple(crop(number, family) for number in range(LONGEST))
    for count in range(1, LONGEST + 1):
        entry = exposed(served(1, backends[:count], family), 1, family)
        yield msgspec.structs.replace(
            entry,
            external=Policy.EXTERNAL_LOCAL if count % 2 else Policy.EXTERNAL_CLUSTER,
            affinity_seconds=60 * (count % 3),
        )


def chains(lab: Lab, family: Family) -> set[str]:
    listed = lab.network.node.run(["nft", "list", "chains", KEYWORD[family]])
    return {line.split()[1] for line in listed.splitlines() if line.startswith("\tchain ")}


def test_endpoints_that_come_and_go_leave_few_chains(
    kestrel: Plane, lab: Lab, family: Family
) -> None:
    other = served(2, [crop(0, family)], family)
    kestrel.put([other])
    least = len(chains(lab, family))
    most = 0
    for entry in churned(family):
        assert kestrel.put([other, entry]).failed == {}
        most = max(most, len(chains(lab, family)))
    wanted = blocks(kestrel.text())
    assert least + MOST_IDLE <= most <= least + MOST_IDLE + 12  # of the one that is in use
    assert kestrel.kernel.refused == []
    found = blocks(list_table(lab.network.node, family))
    assert wanted == {head: found.get(head) for head in wanted}
