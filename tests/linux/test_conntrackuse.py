"""Reading how full the table of tracked connections is, and whether packets are forwarded."""

from pathlib import Path

import pytest

from kubeproxy.base.conntracktable import ConntrackUse
from kubeproxy.base.inet import Family
from kubeproxy.linux.conntrackuse import conntrack_use
from kubeproxy.linux.forwarding import forwards


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_use_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        sys__net__netfilter__nf_conntrack_count="812\n",
        sys__net__netfilter__nf_conntrack_max="1000\n",
        net__stat__nf_conntrack="entries insert_failed drop early_drop\n1 2 3 4\n1 a b c\n",
    )
    assert conntrack_use(tmp_path) == ConntrackUse(812, 1000, 12, 14)


def test_a_kernel_without_the_statistics(tmp_path: Path) -> None:
    write(
        tmp_path,
        sys__net__netfilter__nf_conntrack_count="812\n",
        sys__net__netfilter__nf_conntrack_max="1000\n",
    )
    assert conntrack_use(tmp_path) == ConntrackUse(812, 1000)


def test_nothing_is_tracked(tmp_path: Path) -> None:
    assert conntrack_use(tmp_path) is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"net__ipv4__ip_forward": "1\n"}, True, id="on"),
        pytest.param({"net__ipv4__ip_forward": "0\n"}, False, id="off"),
        pytest.param({}, True, id="a-kernel-without-the-family"),
        pytest.param(
            {
                "net__ipv4__ip_forward": "0\n",
                "net__ipv4__conf__eth0__forwarding": "1\n",
                "net__ipv4__conf__lo__forwarding": "0\n",
            },
            True,
            id="on-for-one-interface",
        ),
        pytest.param(
            {"net__ipv4__ip_forward": "0\n", "net__ipv4__conf__lo__forwarding": "0\n"},
            False,
            id="off-everywhere",
        ),
    ],
)
def test_forwarding(files: dict[str, str], expected: bool, tmp_path: Path) -> None:
    write(tmp_path, **files)
    assert forwards(Family.IPV4, tmp_path) == expected


def test_an_interface_that_goes_while_it_is_read(tmp_path: Path) -> None:
    write(tmp_path, net__ipv4__ip_forward="0\n")
    (tmp_path / "net/ipv4/conf/gone/forwarding").mkdir(parents=True)  # cannot be read either
    assert not forwards(Family.IPV4, tmp_path)
