"""As test_capabilities, for ipvs mode."""

from pathlib import Path

import pytest

from lab.containers import Pod
from lab.ipvs import IPVS
from lab.network import Network
from lab.test_capabilities import apart, check_refuses, check_works  # noqa: F401  # a fixture


def test_ipvs_mode_works_with_the_rights_of_its_manifest(
    apart: Network,  # noqa: F811  # the fixture
    tmp_path: Path,
) -> None:
    pod = Pod("ipvs", apart, tmp_path)
    check_works(pod, pod.lab(IPVS))


@pytest.mark.parametrize("missing", ["NET_ADMIN", "NET_RAW"])
def test_ipvs_mode_needs_each_of_its_rights(
    apart: Network,  # noqa: F811  # the fixture
    tmp_path: Path,
    missing: str,
) -> None:
    pod = Pod("ipvs", apart, tmp_path)
    assert pod.capabilities == ("NET_ADMIN", "NET_RAW")
    check_refuses(pod, missing)
