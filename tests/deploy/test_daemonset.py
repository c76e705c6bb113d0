"""The DaemonSet fits the program that it starts."""

from pathlib import PurePath

import pytest

from deploy.objects import Container, DaemonSet, daemon_set
from deploy.overlays import API_SERVER, FOLDERS, MODES, config_file, overlay
from kubeproxy.cluster.client.kubeconfig import SERVICE_ACCOUNT, choose_access
from kubeproxy.cluster.client.kubeconfigfile import parse_kubeconfig
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import complete
from kubeproxy.dataplane import modes
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.routes import Listeners
from serve.status.living import Rig

MOUNTED = "/var/lib/kube-proxy"


def proxy_of(folder: str) -> Container:
    (container,) = daemon_set(overlay(folder)).pod.containers
    return container


@pytest.mark.parametrize("folder", FOLDERS)
def test_arguments_are_flags_that_we_know(folder: str) -> None:
    pod = daemon_set(overlay(folder)).pod
    first, proxy = (parse_flags(each.args) for each in (*pod.init_containers, *pod.containers))
    assert (first.value("init-only", bool), proxy.value("init-only", bool)) == (True, False)
    for parsed in (first, proxy):
        assert parsed.value("config", str) == f"{MOUNTED}/config.conf"
        assert parsed.value("hostname-override", str) == "$(NODE_NAME)"
    for container in (*pod.init_containers, *pod.containers):
        names = {each.name: each.value_from.field_ref.field_path for each in container.env}
        assert names == {"NODE_NAME": "spec.nodeName"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_ports_are_those_of_the_configuration(folder: str) -> None:
    found = overlay(folder)
    config = complete(parse_flags([]), config_file(found), modes.MODES).config
    ports = {port.name: port.container_port for port in proxy_of(folder).ports}
    bound = {"healthz": config.healthz_bind_address, "metrics": config.metrics_bind_address}
    assert bound == {name: f"{bound[name].rpartition(':')[0]}:{ports[name]}" for name in bound}
    assert config.healthz_bind_address.startswith("0.0.0.0:")  # probes come to the node's address


def test_probes_ask_for_pages_that_there_are() -> None:
    page = Rig().page(Listeners.HEALTH)
    proxy = proxy_of("nftables")
    assert len(proxy.probes) == 3
    for probe in proxy.probes:
        answer = page(Request("GET", probe.http_get.path))
        assert isinstance(answer, Answer)
        assert (answer.status, probe.http_get.port) == (200, "healthz")


def test_a_node_that_is_about_to_go_does_not_fail_a_probe() -> None:
    page = Rig(eligible=False).page(Listeners.HEALTH)
    for probe in proxy_of("nftables").probes:
        answer = page(Request("GET", probe.http_get.path))
        assert isinstance(answer, Answer)
        assert answer.status == 200


@pytest.mark.parametrize("folder", FOLDERS)
def test_mounts_and_volumes_fit(folder: str) -> None:
    pod = daemon_set(overlay(folder)).pod
    volumes = {volume.name for volume in pod.volumes}
    used = {
        mount.name
        for container in (*pod.init_containers, *pod.containers)
        for mount in container.volume_mounts
    }
    assert volumes == used
    for container in (*pod.init_containers, *pod.containers):
        places = {mount.mount_path: mount for mount in container.volume_mounts}
        assert len(places) == len(container.volume_mounts)
        assert places[MOUNTED].read_only


@pytest.mark.parametrize("mode", MODES)
def test_only_the_lock_and_the_sockets_directory_can_be_written(mode: str) -> None:
    mounts = proxy_of(mode).volume_mounts
    writable = [mount.mount_path for mount in mounts if not mount.read_only]
    config = complete(parse_flags([]), config_file(overlay(mode)), modes.MODES).config
    own = str(PurePath(config.status_socket).parent)
    assert writable == ([own] if mode == "nftables" else [own, "/run/xtables.lock"])


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        pytest.param("nftables", ("NET_ADMIN",), id="nftables"),
        pytest.param("monitoring", ("NET_ADMIN",), id="monitoring"),
        pytest.param("iptables", ("NET_ADMIN", "NET_RAW"), id="iptables"),
        pytest.param("ipvs", ("NET_ADMIN", "NET_RAW"), id="ipvs"),
        pytest.param("trial", ("NET_ADMIN", "NET_RAW"), id="trial"),
    ],
)
def test_the_proxy_has_no_more_rights_than_it_needs(
    folder: str, expected: tuple[str, ...]
) -> None:
    """That it needs these is shown in the lab (test_capabilities)."""
    context = proxy_of(folder).security_context
    assert context.capabilities is not None
    assert (expected, ("ALL",)) == (context.capabilities.add, context.capabilities.drop)
    assert context.seccomp_profile is not None
    assert context.seccomp_profile.type == "RuntimeDefault"
    assert not context.privileged
    assert context.allow_privilege_escalation is False
    assert context.read_only_root_filesystem


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_daemon_set_selects_its_own_pods(folder: str) -> None:
    daemon: DaemonSet = daemon_set(overlay(folder))
    assert daemon.spec.selector.match_labels == daemon.spec.template.metadata.labels
    assert daemon.pod.host_network
    assert [each.operator for each in daemon.pod.tolerations] == ["Exists"]
    assert daemon.metadata.namespace == "kube-system"  # where that priority class may be used


def test_the_kubeconfig_is_the_one_that_the_configuration_names() -> None:
    found = overlay("nftables")
    config = complete(parse_flags([]), config_file(found), modes.MODES).config
    assert config.client_connection.kubeconfig == f"{MOUNTED}/kubeconfig.conf"
    document = parse_kubeconfig(config_file(found, "kubeconfig.conf"), MOUNTED)
    access = choose_access(document, "", lambda _: None)
    assert access.server == API_SERVER
    assert access.uses_tls
    assert access.cluster.certificate_authority == f"{SERVICE_ACCOUNT}/ca.crt"
    assert access.user.token_file == f"{SERVICE_ACCOUNT}/token"
