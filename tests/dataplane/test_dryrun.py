import re

import pytest

from kubeproxy.base import klog
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import SyncReport, Update
from kubeproxy.dataplane.dryrun import DryRun
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.table.build import Builder
from kubeproxy.table.diff import NO_CHANGES, Changes, diff
from kubeproxy.table.entries import Table
from world import Mode, cluster_of, endpoint_slice, node, seen_by, service, table_of

NFT = Mode.NFTABLES


def update(table: Table, changes: Changes, *, full: bool = False) -> Update:
    return Update(table, node(NFT, table.family), changes, full)


async def logged(what: Update, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The log lines without their heads."""
    assert SyncReport() == await DryRun(load_mode("nftables")).apply(what)
    return re.findall(r"^I.* dryrun\.py:\d+\] (.*)$", capsys.readouterr().err, re.MULTILINE)


async def test_the_number_of_changes_is_always_logged(capsys: pytest.CaptureFixture[str]) -> None:
    old, new = table_of(service(name="till")), table_of(service(), endpoint_slice("L1"))
    (line,) = await logged(update(new, diff(old, new)), capsys)
    assert line == (
        '"Dry run, nothing is written to the kernel" ipFamily="IPv4" servicePorts=1 '
        "added=1 changed=0 removed=1"
    )


async def test_no_change_is_logged_too(capsys: pytest.CaptureFixture[str]) -> None:
    table = table_of(service({"clusterIP": "fd12::1"}), family=Family.IPV6)
    (line,) = await logged(update(table, NO_CHANGES, full=True), capsys)
    assert line == (
        '"Dry run, nothing is written to the kernel" ipFamily="IPv6" servicePorts=1 '
        "added=0 changed=0 removed=0"
    )


async def test_each_change_is_logged_at_verbosity_2(capsys: pytest.CaptureFixture[str]) -> None:
    klog.configure(klog.LogSettings(verbosity=2))
    others = (
        service({"clusterIP": "10.112.0.22"}, name="bill"),
        service({"clusterIP": "10.112.0.23"}, name="till"),
    )
    old = table_of(service(), others[0], endpoint_slice("L1"))
    new = table_of(service(), others[1], endpoint_slice("L1 R1"))
    _, added, changed, removed = await logged(update(new, diff(old, new)), capsys)
    both = "10.64.3.11:8080 10.65.7.21:8080"
    assert added == (
        '"Would add" servicePort="shop/till:http" rows=['
        '"10.112.0.23:80/TCP pod - hairpin reject",'
        '"10.112.0.23:80/TCP host outside - always reject"]'
    )
    assert changed == (
        '"Would change" servicePort="shop/cart:http" rows=['
        f'"10.112.0.21:80/TCP pod {both} hairpin -",'
        f'"10.112.0.21:80/TCP host outside {both} always -"]'
    )
    assert removed == '"Would remove" servicePort="shop/bill:http"'


async def test_the_rows_are_those_of_the_mode(capsys: pytest.CaptureFixture[str]) -> None:
    klog.configure(klog.LogSettings(verbosity=2))
    cluster = cluster_of(service({"internalTrafficPolicy": "Local"}), endpoint_slice("R1"))
    builder = Builder(Family.IPV4)
    changes = builder.update(cluster, (), seen_by(cluster))
    await DryRun(load_mode("ipvs")).apply(update(builder.table, changes))
    assert "10.112.0.21:80/TCP pod - hairpin reject" in capsys.readouterr().err
    await DryRun(load_mode("nftables")).apply(update(builder.table, changes))
    assert "10.112.0.21:80/TCP pod - hairpin drop" in capsys.readouterr().err
