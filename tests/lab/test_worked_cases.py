"""The clusters of the worked cases, in both families, with every pair of source and frontend.

So the chain is closed: what the semantics say by hand, `decide`, and the kernel.
"""

import pytest

from lab.documents import dual_stack
from lab.stage import Lab
from table.test_worked_cases import CASES
from world import Document, endpoint_slice, packet, shorthand

# The same cluster serves many cases.
CLUSTERS: dict[str, tuple[Document, str]] = {}
for case in CASES:
    number, cluster = case[0], (case[2], case[3])
    if cluster not in CLUSTERS.values():
        CLUSTERS[f"{number}-{cluster[1].replace(' ', '-') or 'no-endpoint'}"] = cluster


@pytest.mark.parametrize("name", CLUSTERS)
def test_worked_case(lab: Lab, name: str) -> None:
    service, endpoints = CLUSTERS[name]
    lab.run(documents=dual_stack([service, endpoint_slice(endpoints)]))
    expected = lab.expectation()
    for _, modes, svc, eps, sent, verdict in CASES:
        if (svc, eps) == (service, endpoints) and lab.variant.mode in modes:
            assert shorthand(expected.verdict(packet(sent))) == verdict
    lab.compare()
