"""The clusters of the worked cases, in both families, with every pair of source and frontend."""

import pytest

from lab.documents import dual_stack
from lab.stage import Lab
from table.test_worked_cases import CASES
from world import Document, endpoint_slice

# The same cluster serves many cases.
CLUSTERS: dict[str, tuple[Document, str]] = {}
for case in CASES:
    number, cluster = case[0], (case[2], case[3])
    if cluster not in CLUSTERS.values():
        CLUSTERS[f"{number}-{cluster[1].replace(' ', '-') or 'nobody'}"] = cluster


@pytest.mark.parametrize("name", CLUSTERS)
def test_worked_case(lab: Lab, name: str) -> None:
    service, endpoints = CLUSTERS[name]
    lab.run(documents=dual_stack([service, endpoint_slice(endpoints)]))
    lab.compare()
