"""What is wrong besides rules: connection tracking, forwarding, this node, the API server."""

import msgspec
import pytest

from kubeproxy.serve.status.surroundings import SILENCE, fill_text
from kubeproxy.serve.status.troubles import troubles
from kubeproxy.serve.status.wire import ConntrackState, DaemonStatus, ForeignChanges
from serve.status.web.samples import IPV4, STATUS

replace = msgspec.structs.replace


@pytest.mark.parametrize(
    ("status", "what", "severe"),
    [
        pytest.param(
            replace(STATUS, conntrack=ConntrackState(1000, 1000)),
            "Connection tracking is full",
            True,
            id="full",
        ),
        pytest.param(
            replace(STATUS, conntrack=ConntrackState(999, 1000)),
            "Connection tracking is filled to 99 %",
            False,
            id="nearly-full",
        ),
        pytest.param(
            replace(STATUS, conntrack=ConntrackState(1, 1000, 2, 0)),
            "Connection tracking loses packets of new connections",
            False,
            id="connections-that-were-not-added",
        ),
        pytest.param(
            replace(STATUS, node_found=False, node_eligible=False),
            "There is no Node kestrel",
            True,
            id="a-wrong-hostname",
        ),
        pytest.param(
            replace(STATUS, source_silent_seconds=SILENCE + 60),
            "Nothing has come from API server https://192.0.2.1:6443 for 11 min 0 s: rules may be"
            " stale",
            True,
            id="a-silent-server",
        ),
        pytest.param(
            replace(STATUS, families=(replace(IPV4, forwarded=False),)),
            "IPv4: the kernel does not forward packets",
            True,
            id="forwarding-off",
        ),
        pytest.param(
            replace(STATUS, families=(replace(IPV4, missing_address="192.0.2.9"),)),
            "IPv4: no interface has this node's address 192.0.2.9",
            False,
            id="an-address-of-nobody",
        ),
        pytest.param(
            replace(STATUS, families=(replace(IPV4, without_endpoint=("shop/a:http",)),)),
            "IPv4: 1 service port has no endpoint that can serve",
            False,
            id="nobody-serves",
        ),
    ],
)
def test_what_is_wrong(status: DaemonStatus, what: str, severe: bool) -> None:
    [found] = troubles(status)
    assert (found.what, found.severe) == (what, severe)
    assert found.advice


@pytest.mark.parametrize(
    "status",
    [
        replace(STATUS, conntrack=ConntrackState(899, 1000)),
        replace(STATUS, conntrack=ConntrackState(7, 0)),
        replace(STATUS, source_silent_seconds=SILENCE),
    ],
)
def test_nothing_is_wrong(status: DaemonStatus) -> None:
    assert troubles(status) == []


def test_losses_are_counted() -> None:
    status = replace(STATUS, conntrack=ConntrackState(1000, 1000, 0, 1234))
    full, loses = troubles(status)
    assert full.cases == (("connections", "1,000 of 1,000"),)
    assert loses.cases == (("packets dropped", "1,234 in the last minute"),)


def test_the_sysctl_of_the_family_is_named() -> None:
    family = replace(IPV4, ip_family="IPv6", forwarded=False)
    [found] = troubles(replace(STATUS, families=(family,)))
    assert "net.ipv6.conf.all.forwarding=1" in found.advice


def test_services_that_nobody_serves_come_last() -> None:
    family = replace(IPV4, without_endpoint=("shop/a:http", "shop/b:http"), missing_address="::9")
    found = troubles(replace(STATUS, families=(family,), node_eligible=False))
    assert found[-1].what == "IPv4: 2 service ports have no endpoint that can serve"
    assert [name for name, _ in found[-1].cases] == ["shop/a:http", "shop/b:http"]


def test_a_table_that_is_not_full_is_not_said_to_be() -> None:
    assert fill_text(ConntrackState(99_999, 100_000)) == "99 %"
    assert fill_text(ConntrackState(7, 0)) == "0 %"


@pytest.mark.parametrize(
    ("found", "what", "advice", "severe"),
    [
        pytest.param(
            ForeignChanges(12, 46, 11.0, 0.5, "kube-proxy", 29338),
            "IPv4: two proxies fight over the rules of this node",
            "look for a second DaemonSet",
            True,
            id="two-proxies",
        ),
        pytest.param(
            ForeignChanges(12, 46, 11.0, 0.5, "iptables-restor", 29338),
            "IPv4: another program changes the rules again and again",
            "another kube-proxy is on this node",
            True,
            id="a-program-that-proxies-run",
        ),
        pytest.param(
            ForeignChanges(12, 5, 11.0, 0.5),
            "IPv4: another program changes the rules again and again",
            "End it: while both write",
            True,
            id="nobody-knows-who",
        ),
        pytest.param(
            ForeignChanges(12, 4, 11.0, 0.5, "nft", 4711),
            "IPv4: another program changed the rules",
            "They were repaired.",
            False,
            id="somebody-now-and-then",
        ),
    ],
)
def test_who_changed_the_rules(
    found: ForeignChanges, what: str, advice: str, severe: bool
) -> None:
    family = replace(IPV4, foreign_changes=found)
    [trouble] = troubles(replace(STATUS, families=(family,)))
    assert (trouble.what, trouble.severe) == (what, severe)
    assert advice in trouble.advice
    by = f"{found.program} (pid {found.pid})" if found.program else "an unknown program"
    assert trouble.cases == (("repairs", f"{found.of_late} in 11 s, last by {by}"),)


def test_what_was_repaired_long_ago_is_no_trouble() -> None:
    family = replace(IPV4, foreign_changes=ForeignChanges(12, 0, 0.0, 300.0, "nft", 4711))
    assert troubles(replace(STATUS, families=(family,))) == []
