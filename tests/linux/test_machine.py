import os
import re
from pathlib import Path

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.linux.machine import (
    count_cores,
    ensure_oom_score_adj,
    online_cores,
    supported_families,
    unsupported,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0\n", 1, id="one"),
        pytest.param("0-3\n", 4, id="a-range"),
        pytest.param("0-3,5,8-15\n", 13, id="ranges-and-single-ones"),
    ],
)
def test_a_list_of_cores_is_counted(text: str, expected: int) -> None:
    assert expected == count_cores(text)


@pytest.mark.parametrize(
    ("machine", "byte_order", "largest", "kind"),
    [
        pytest.param("s390x", "big", 2**63 - 1, "big-endian", id="64-bit-big-endian"),
        pytest.param("ppc", "big", 2**31 - 1, "big-endian", id="32-bit-big-endian"),
        pytest.param("armv7l", "little", 2**31 - 1, "32-bit", id="32-bit-little-endian"),
    ],
)
def test_machines_of_another_layout(
    machine: str, byte_order: str, largest: int, kind: str
) -> None:
    assert unsupported(machine, byte_order, largest) == (
        "kube-proxy supports 64-bit little-endian machines (x86-64, arm64), because it exchanges"
        f" data with the kernel in their layout; this process is {kind} (on {machine})"
    )


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_machines_of_our_layout(machine: str) -> None:
    assert unsupported(machine, "little", 2**63 - 1) == ""


@pytest.mark.parametrize("text", [None, "", "many"])
def test_what_cannot_be_read_counts_our_own_cores(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "online"
    if text is not None:
        file.write_text(text)
    assert online_cores(file) == len(os.sched_getaffinity(0))


def test_a_machine_has_at_least_the_cores_that_we_may_use() -> None:
    assert online_cores() >= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, (Family.IPV4,), id="no-ipv6-in-the-kernel"),
        pytest.param({"net/if_inet6": ""}, (Family.IPV4, Family.IPV6), id="ipv6"),
        pytest.param(
            {"net/if_inet6": "", "sys/net/ipv6/conf/all/disable_ipv6": "1\n"},
            (Family.IPV4,),
            id="turned-off",
        ),
        pytest.param(
            {"net/if_inet6": "", "sys/net/ipv6/conf/all/disable_ipv6": "0\n"},
            (Family.IPV4, Family.IPV6),
            id="not-turned-off",
        ),
    ],
)
def test_families(tmp_path: Path, files: dict[str, str], expected: tuple[Family, ...]) -> None:
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert expected == supported_families(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "oom_score_adj"
    file.write_text("0\n")
    return file


def test_another_score_is_written(file: Path) -> None:
    ensure_oom_score_adj(-999, file)
    assert file.read_text() == "-999"


def test_the_same_score_is_left_alone(file: Path) -> None:
    ensure_oom_score_adj(0, file)
    assert file.read_text() == "0\n"


def test_a_refusal_names_the_file_and_the_score(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(KernelError, match=re.escape(f"cannot set {gone} to -999")):
        ensure_oom_score_adj(-999, gone)
