"""What clients notice, for changes that people make."""

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.plan.outcome import Effect
from kubeproxy.plan.wire import Change, Notice, Plan
from plan.sides import FLAGS, change_of, only, plan_of, setup_in, side_of, switch_of
from world import (
    CLUSTER_IP,
    EXTERNAL_IP,
    NODE_PORT,
    VIP,
    Document,
    Mode,
    endpoint_slice,
    everywhere,
    service,
)

CART, BOTH = service(), endpoint_slice("L1 R1")
HERE, AWAY = endpoint_slice("L1"), endpoint_slice("R1")
LOCAL = {"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}
UDP = {"ports": [{"name": "http", "protocol": "UDP", "port": 53}]}
UDP_SLICE = {"ports": [{"name": "http", "protocol": "UDP", "port": 5353}]}


def told(plan: Plan) -> list[tuple[str, str, tuple[str, ...]]]:
    """Effects, places and clients."""
    return [
        (notice.effect.value, notice.place, notice.clients)
        for each in plan.services
        for notice in each.notices
    ]


def effects(plan: Plan) -> set[Effect]:
    return {notice.effect for each in plan.services for notice in each.notices}


def notices(plan: Plan, effect: Effect) -> list[Notice]:
    return [each for one in plan.services for each in one.notices if each.effect is effect]


def annotated(name: str, value: str) -> Document:
    metadata = {
        "namespace": "shop",
        "name": "cart",
        "annotations": {f"kubeproxy.io/{name}": value},
    }
    return {**CART, "metadata": metadata}


EVERYBODY = ("pods", "this node", "outside")


def test_no_change_is_an_empty_plan() -> None:
    found = change_of([CART, BOTH], [CART, BOTH])
    assert (found.services, found.addresses, found.noticed, found.objects) == ((), (), False, 0)
    assert found.of_services == 1


def test_a_service_without_endpoints_refuses() -> None:
    found = change_of([CART, BOTH], [CART, endpoint_slice("L1:unready R1:unready")])
    one = only(found)
    assert one.change is Change.CHANGED
    assert {notice.effect for notice in one.notices} == {Effect.REFUSED}
    assert {at for notice in one.notices for at in notice.at} == {f"{CLUSTER_IP}:80/TCP"}
    assert sorted(each for n in one.notices for each in n.clients) == sorted(EVERYBODY)
    assert one.endpoints_removed == ("10.64.3.11:8080", "10.65.7.21:8080")
    assert found.noticed
    assert found.objects > 0


def test_a_new_service_is_served_and_a_removed_one_is_not() -> None:
    found = change_of([], [CART, BOTH])
    assert only(found).change is Change.ADDED
    assert only(found).frontends_added == (f"{CLUSTER_IP}:80/TCP",)
    assert effects(found) == {Effect.SERVED}
    gone = change_of([CART, BOTH], [BOTH])
    assert only(gone).change is Change.REMOVED
    assert effects(gone) == {Effect.UNSERVED}  # the cluster has no service range


def test_one_more_endpoint_and_one_less() -> None:
    more = change_of([CART, endpoint_slice("L1")], [CART, BOTH])
    assert effects(more) == {Effect.MORE}
    assert notices(more, Effect.MORE)[0].gained == ("10.65.7.21:8080",)
    fewer = change_of([CART, BOTH], [CART, endpoint_slice("L1")])
    assert effects(fewer) == {Effect.FEWER}
    assert notices(fewer, Effect.FEWER)[0].lost == ("10.65.7.21:8080",)
    others = change_of([CART, endpoint_slice("L1")], [CART, endpoint_slice("R1")])
    assert effects(others) == {Effect.ELSEWHERE}


def test_a_policy_of_local_shows_clients_and_drops_where_nothing_is_local() -> None:
    here = change_of(
        [everywhere(), endpoint_slice("L1")], [everywhere(LOCAL), endpoint_slice("L1")]
    )
    assert ("source-shown", "load-balancer IP", ("pods", "outside")) in told(here)
    assert only(here).policies == ("external traffic policy: Cluster -> Local",)
    away = change_of(
        [everywhere(), endpoint_slice("R1")], [everywhere(LOCAL), endpoint_slice("R1")]
    )
    assert ("dropped", "load-balancer IP", ("outside",)) in told(away)
    back = change_of(
        [everywhere(LOCAL), endpoint_slice("L1")], [everywhere(), endpoint_slice("L1")]
    )
    assert ("source-hidden", "external IP", ("pods", "outside")) in told(back)


def test_source_ranges_are_told_apart_at_their_boundaries() -> None:
    before = everywhere({"loadBalancerSourceRanges": ["192.0.2.0/24"]})
    after = everywhere({"loadBalancerSourceRanges": ["192.0.2.0/25", "198.51.0.0/16"]})
    found = change_of([before, BOTH], [after, BOTH])
    ranged = {(n.effect, client) for n in only(found).notices for client in n.clients}
    assert (Effect.DROPPED, "outside (in 192.0.2.0/24)") in ranged
    assert (Effect.SERVED, "outside (in 198.51.0.0/16)") in ranged
    assert not any("192.0.2.0/25" in client for _, client in ranged)
    assert only(found).policies == ("source ranges: 192.0.2.0/24 -> 192.0.2.0/25 198.51.0.0/16",)


def test_affinity_that_is_lost_gained_or_of_another_time() -> None:
    sticky = service({"sessionAffinity": "ClientIP"})
    short = service(
        {
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
        }
    )
    assert effects(change_of([sticky, BOTH], [CART, BOTH])) == {Effect.AFFINITY_LOST}
    assert effects(change_of([CART, BOTH], [sticky, BOTH])) == {Effect.AFFINITY_CHANGED}
    changed = change_of([sticky, BOTH], [short, BOTH])
    assert effects(changed) == {Effect.AFFINITY_CHANGED}
    assert only(changed).policies == ("session affinity: 10800 s -> 60 s",)


def test_udp_flows_are_cut_where_their_endpoint_or_frontend_goes() -> None:
    dns, slice_ = service(UDP), endpoint_slice("L1 R1", UDP_SLICE)
    less = change_of([dns, slice_], [dns, endpoint_slice("L1", UDP_SLICE)])
    assert [each.lost for each in notices(less, Effect.FLOWS_CUT)] == [("10.65.7.21:5353",)]
    gone = change_of([dns, slice_], [slice_])
    assert [len(each.lost) for each in notices(gone, Effect.FLOWS_CUT)] == [2]
    more = change_of([dns, endpoint_slice("L1", UDP_SLICE)], [dns, slice_])
    assert notices(more, Effect.FLOWS_CUT) == []
    moved = service({**UDP, "clusterIP": "10.112.0.99"})
    assert [
        len(e.lost) for e in notices(change_of([dns, slice_], [moved, slice_]), Effect.FLOWS_CUT)
    ] == [2]


def test_load_balancers_notice_that_the_last_local_endpoint_goes() -> None:
    near = everywhere(LOCAL)
    gone = change_of([near, endpoint_slice("L1 R1")], [near, endpoint_slice("R1")])
    assert [each.at for each in notices(gone, Effect.UNHEALTHY)] == [("port 32000",)]
    come = change_of([near, endpoint_slice("R1")], [near, endpoint_slice("L1 R1")])
    assert [each.clients for each in notices(come, Effect.HEALTHY)] == [("load balancers",)]


def test_a_change_that_only_the_health_check_shows() -> None:
    ports = [{"name": "http", "port": 80}]
    near = {"type": "LoadBalancer", "ports": ports, **LOCAL}
    one = change_of(
        [service(near), endpoint_slice("L1:draining")], [service(near), endpoint_slice("L1")]
    )
    assert Effect.HEALTHY in effects(one)


def test_a_conflict_is_named_and_the_winner_keeps_the_address() -> None:
    rival = service({"clusterIP": "10.112.0.30", "externalIPs": [EXTERNAL_IP]}, name="rival")
    own = service({"externalIPs": [EXTERNAL_IP]})
    found = change_of([own, BOTH], [own, BOTH, rival])
    (each,) = found.services
    assert each.service == "rival"
    assert each.conflicts == (
        f"{EXTERNAL_IP}:80/TCP is claimed by shop/rival:http and served by shop/cart:http",
    )


def test_a_conflict_that_there_was_before_is_not_news() -> None:
    rival = service({"clusterIP": "10.112.0.30", "externalIPs": [EXTERNAL_IP]}, name="rival")
    own = service({"externalIPs": [EXTERNAL_IP]})
    found = change_of([own, rival, BOTH], [own, rival, HERE])
    assert [each.service for each in found.services] == ["cart"]


def test_a_number_that_a_node_port_has_matters_to_those_who_dial_it_in_ipvs_mode() -> None:
    other = {"type": "NodePort", "clusterIP": "10.112.0.30"}
    before, after = (
        service({**other, "ports": [{"name": "http", "port": 90, "nodePort": port}]}, name="other")
        for port in (31000, 80)
    )
    dns = service({**UDP, "clusterIP": "10.112.0.40"}, name="dns")
    found = change_of([CART, BOTH, dns, before], [CART, BOTH, dns, after], Mode.IPVS)
    assert {each.service for each in found.services} == {"other", "cart"}


def test_a_service_that_cannot_be_served_is_said_to_be_left_out() -> None:
    before, after = side_of([CART, BOTH]), side_of([CART, BOTH])
    after.left_out[ObjectKey("shop", "cart")] = "it asks for too much"  # type: ignore[index]  # a dict
    assert only(plan_of(before, after)).left_out == "it asks for too much"
    assert plan_of(after, after).services == ()


def test_an_address_of_the_node_that_a_service_takes_shadows_a_node_port() -> None:
    victim = everywhere()
    ports = [{"name": "http", "port": NODE_PORT}]
    thief = service(
        {"clusterIP": "10.112.0.30", "externalIPs": ["198.51.100.10"], "ports": ports},
        name="thief",
    )
    found = change_of([victim, BOTH], [victim, BOTH, thief])
    cart = next(each for each in found.services if each.service == "cart")
    assert cart.change is Change.SAME
    assert {each.effect for each in cart.notices} == {Effect.REFUSED}
    assert cart.notices[0].at == (f"198.51.100.10:{NODE_PORT}/TCP",)


def test_a_balance_is_told_where_the_mode_has_the_choice() -> None:
    other = {
        **CART,
        "metadata": {
            "namespace": "shop",
            "name": "cart",
            "annotations": {"kubeproxy.io/balance": "round-robin"},
        },
    }
    assert effects(change_of([CART, BOTH], [other, BOTH])) == {Effect.CHOSEN_OTHERWISE}
    assert effects(change_of([CART, BOTH], [other, BOTH], Mode.IPTABLES)) == set()


def test_healing_is_told() -> None:
    healed = {
        **CART,
        "metadata": {
            "namespace": "shop",
            "name": "cart",
            "annotations": {"kubeproxy.io/healing": "all"},
        },
    }
    assert effects(change_of([CART, BOTH], [healed, BOTH])) == {Effect.HEALED_OTHERWISE}


# --- modes ------------------------------------------------------------------------------------


def test_loopback_node_ports_and_those_of_other_addresses_end_with_nftables_mode() -> None:
    found = switch_of([everywhere(), BOTH], Mode.IPTABLES, Mode.NFTABLES)
    ended = {at for each in notices(found, Effect.UNSERVED) for at in each.at}
    assert ended == {
        f"127.0.0.1:{NODE_PORT}/TCP",
        f"127.0.0.2:{NODE_PORT}/TCP",
        f"198.51.100.77:{NODE_PORT}/TCP",
    }
    assert [each.subject for each in found.settings] == ["nodePortAddresses"]
    assert [each.subject for each in found.habits] == ["firewalls of the node"]


def test_pings_and_unknown_ports_of_cluster_ips_are_refused_by_nftables_mode() -> None:
    found = switch_of([CART, BOTH], Mode.IPTABLES, Mode.NFTABLES)
    assert {(each.effect, each.place, each.at) for each in found.addresses} == {
        (Effect.BLOCKED, "ports that no Service has", (f"{CLUSTER_IP}:7/TCP",)),
        (Effect.BLOCKED, "ping", (CLUSTER_IP,)),
    }


def test_clients_with_affinity_may_get_another_endpoint_in_another_mode() -> None:
    sticky = service({"sessionAffinity": "ClientIP"})
    found = switch_of([sticky, BOTH], Mode.NFTABLES, Mode.IPTABLES)
    assert [each.place for each in notices(found, Effect.AFFINITY_LOST)] == ["affinity"]
    assert (
        effects(switch_of([sticky, endpoint_slice("L1")], Mode.NFTABLES, Mode.IPTABLES)) == set()
    )


def test_ipvs_mode_sends_what_others_refuse_and_binds_addresses() -> None:
    near = everywhere({"externalTrafficPolicy": "Local"})
    found = switch_of([near, endpoint_slice("R1")], Mode.IPVS, Mode.NFTABLES)
    dropped = [each for each in notices(found, Effect.DROPPED) if "outside" in each.clients]
    assert {each.place for each in dropped} == {"load-balancer IP", "external IP", "node port"}
    assert {each.subject for each in found.habits} == {
        "choice of endpoints",
        "addresses of Services",
        "established connections",
        "firewalls of the node",
    }
    assert any(VIP in at for each in found.addresses for at in each.at)


def test_an_endpoint_that_names_no_node_reaches_itself_in_iptables_mode_alone() -> None:
    nameless = endpoint_slice("", {"endpoints": [{"addresses": ["10.64.3.11"]}]})
    found = switch_of([CART, nameless], Mode.IPTABLES, Mode.NFTABLES)
    assert ("source-shown", "cluster IP", ("endpoint 10.64.3.11 itself",)) in told(found)


def test_an_endpoint_that_moves_to_this_node_reaches_itself() -> None:
    away = endpoint_slice("", {"endpoints": [{"addresses": ["10.64.3.11"], "nodeName": "heron"}]})
    found = change_of([CART, away], [CART, endpoint_slice("L1")])
    assert told(found) == [("source-hidden", "cluster IP", ("endpoint 10.64.3.11 itself",))]


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
def test_a_node_port_number_matters_to_cluster_ips_in_ipvs_mode_alone(mode: Mode) -> None:
    ports = [{"name": "http", "port": 80, "nodePort": 80}]
    other = service({"clusterIP": "10.112.0.30", "type": "NodePort", "ports": ports}, name="other")
    found = change_of([CART, BOTH], [CART, BOTH, other], mode)
    carts = [each for each in found.services if each.service == "cart"]
    assert [each.change for each in carts] == ([Change.SAME] if mode is Mode.IPVS else [])


def test_modes_that_share_chains_leave_each_others_rules() -> None:
    (remark,) = switch_of([CART], Mode.IPVS, Mode.IPTABLES).remarks
    assert "removed with kube-proxy --cleanup before iptables mode starts" in remark
    assert switch_of([CART], Mode.IPVS, Mode.NFTABLES).remarks == ()
    assert switch_of([CART], Mode.IPVS, Mode.IPVS).remarks == ()


# --- configurations ---------------------------------------------------------------------------


def test_another_pod_range_makes_pods_of_clients() -> None:
    before, after = setup_in(), setup_in(Mode.NFTABLES, "--cluster-cidr=192.0.2.0/24")
    found = plan_of(side_of([CART, BOTH], before), side_of([CART, BOTH], after))
    effects_of = {(each.effect, each.clients) for each in only(found).notices}
    assert (Effect.HIDDEN, ("pods",)) in effects_of
    assert (Effect.SHOWN, ("pods",)) in effects_of
    assert [each.subject for each in found.settings] == ["clusterCIDR"]


@pytest.mark.parametrize(
    "flags",
    [
        ("--detect-local-mode=BridgeInterface", "--pod-bridge-interface=cni0"),
        ("--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth"),
    ],
)
def test_pods_that_are_known_by_their_interface(flags: tuple[str, ...]) -> None:
    setup = setup_in(Mode.NFTABLES, *flags)
    ranged = everywhere({"loadBalancerSourceRanges": ["192.0.2.0/24"]})
    found = plan_of(side_of([ranged], setup), side_of([ranged, BOTH], setup))
    assert "pods" in {client for each in only(found).notices for client in each.clients}


def test_without_addresses_of_the_node_those_of_its_object_count() -> None:
    setup = setup_in(addresses=None)
    found = plan_of(side_of([everywhere()], setup), side_of([everywhere(), BOTH], setup))
    assert f"198.51.100.10:{NODE_PORT}/TCP" in {a for n in only(found).notices for a in n.at}


def test_a_node_without_addresses_sends_nothing() -> None:
    setup = setup_in(addresses=dict.fromkeys(Family, ()))
    found = plan_of(side_of([CART], setup), side_of([CART, BOTH], setup))
    assert "this node" not in {client for each in only(found).notices for client in each.clients}


def test_node_ports_of_the_loopback_address_by_the_proxy_itself() -> None:
    gate = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true"
    before = setup_in(Mode.IPTABLES)
    flags = (*FLAGS, gate, "--nodeport-addresses=primary,localhost")
    after = setup_in(Mode.NFTABLES, *flags)
    found = plan_of(side_of([everywhere(), BOTH], before), side_of([everywhere(), BOTH], after))
    (moved,) = notices(found, Effect.BY_OTHER_MEANS)
    assert moved.at == (f"127.0.0.1:{NODE_PORT}/TCP",)
    assert "by the proxy's own process" in moved.after
    assert f"127.0.0.2:{NODE_PORT}/TCP" in {
        a for n in notices(found, Effect.UNSERVED) for a in n.at
    }


def test_the_node_is_no_client_outside() -> None:
    narrow = everywhere({"loadBalancerSourceRanges": ["198.51.100.10/32"]})
    found = change_of([narrow], [narrow, BOTH])
    served = {client for each in notices(found, Effect.SERVED) for client in each.clients}
    assert "outside (in 198.51.100.10/32)" not in served


def test_where_services_have_the_ports_that_nobody_has() -> None:
    def ports(*numbers: int) -> Document:
        return service({"ports": [{"name": f"p{n}", "port": n} for n in numbers]})

    some = switch_of([ports(7)], Mode.IPTABLES, Mode.NFTABLES)
    assert (f"{CLUSTER_IP}:9/TCP",) in {each.at for each in some.addresses}
    every = switch_of([ports(7, 9, 13, 17, 19, 1, 2, 3)], Mode.IPTABLES, Mode.NFTABLES)
    assert {each.place for each in every.addresses} == {"ping"}


def test_node_ports_of_ipv6() -> None:
    both = {"clusterIPs": [CLUSTER_IP, "fd12::21"], "ipFamilies": ["IPv4", "IPv6"]}
    six = everywhere({**both, "externalIPs": []})
    slice_ = endpoint_slice(
        "", {"addressType": "IPv6", "endpoints": [{"addresses": ["fd40::11"]}]}
    )
    found = change_of([six], [six, slice_])
    served = {at for each in notices(found, Effect.SERVED) for at in each.at}
    assert served == {f"[2001:db8:aa::10]:{NODE_PORT}/TCP", "[fd12::21]:80/TCP"}
