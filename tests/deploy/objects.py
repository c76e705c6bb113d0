"""The objects in deploy/ as types. A field that is not here, or misspelt, does not convert."""

import msgspec

from deploy.overlays import Found


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """All fields are known ones."""


class Metadata(Strict, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}


class FieldRef(Strict, frozen=True):
    field_path: str


class ValueFrom(Strict, frozen=True):
    field_ref: FieldRef


class Variable(Strict, frozen=True):
    name: str
    value_from: ValueFrom


class ContainerPort(Strict, frozen=True):
    name: str
    container_port: int


class HttpGet(Strict, frozen=True):
    path: str
    port: str


class Probe(Strict, frozen=True):
    http_get: HttpGet
    period_seconds: int
    timeout_seconds: int
    failure_threshold: int
    initial_delay_seconds: int = 0


class Resources(Strict, frozen=True):
    requests: dict[str, str]


class SeccompProfile(Strict, frozen=True):
    type: str


class Capabilities(Strict, frozen=True):
    drop: tuple[str, ...]
    add: tuple[str, ...]


class SecurityContext(Strict, frozen=True):
    read_only_root_filesystem: bool
    privileged: bool = False
    allow_privilege_escalation: bool | None = None
    seccomp_profile: SeccompProfile | None = None
    capabilities: Capabilities | None = None


class VolumeMount(Strict, frozen=True):
    name: str
    mount_path: str
    read_only: bool = False


class Container(Strict, frozen=True):
    name: str
    image: str
    args: tuple[str, ...]
    env: tuple[Variable, ...]
    security_context: SecurityContext
    volume_mounts: tuple[VolumeMount, ...]
    ports: tuple[ContainerPort, ...] = ()
    startup_probe: Probe | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    resources: Resources | None = None

    @property
    def probes(self) -> list[Probe]:
        found = (self.startup_probe, self.liveness_probe, self.readiness_probe)
        return [probe for probe in found if probe is not None]


class HostPath(Strict, frozen=True):
    path: str
    type: str = ""


class ConfigMapVolume(Strict, frozen=True):
    name: str


class EmptyDir(Strict, frozen=True):
    medium: str


class Volume(Strict, frozen=True):
    name: str
    host_path: HostPath | None = None
    config_map: ConfigMapVolume | None = None
    empty_dir: EmptyDir | None = None


class Toleration(Strict, frozen=True):
    operator: str


class Selector(Strict, frozen=True):
    match_labels: dict[str, str]


class AffinityTerm(Strict, frozen=True):
    topology_key: str
    label_selector: Selector


class PodAffinity(Strict, frozen=True):
    required: tuple[AffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Strict, frozen=True):
    pod_anti_affinity: PodAffinity


class PodSpec(Strict, frozen=True):
    service_account_name: str
    priority_class_name: str
    host_network: bool
    node_selector: dict[str, str]
    affinity: Affinity
    tolerations: tuple[Toleration, ...]
    termination_grace_period_seconds: int
    init_containers: tuple[Container]
    containers: tuple[Container]
    volumes: tuple[Volume, ...]


class Template(Strict, frozen=True):
    metadata: Metadata
    spec: PodSpec


class RollingUpdate(Strict, frozen=True):
    max_unavailable: str


class UpdateStrategy(Strict, frozen=True):
    type: str
    rolling_update: RollingUpdate


class DaemonSetSpec(Strict, frozen=True):
    selector: Selector
    update_strategy: UpdateStrategy
    template: Template


class DaemonSet(Strict, frozen=True):
    api_version: str
    kind: str
    metadata: Metadata
    spec: DaemonSetSpec

    @property
    def pod(self) -> PodSpec:
        return self.spec.template.spec


class RoleRef(Strict, frozen=True):
    api_group: str
    kind: str
    name: str


class Subject(Strict, frozen=True):
    kind: str
    name: str
    namespace: str


class ClusterRoleBinding(Strict, frozen=True):
    api_version: str
    kind: str
    metadata: Metadata
    role_ref: RoleRef
    subjects: tuple[Subject, ...]


class ServiceAccount(Strict, frozen=True):
    api_version: str
    kind: str
    metadata: Metadata


def daemon_set(found: Found) -> DaemonSet:
    """The only DaemonSet."""
    (document,) = (each for (kind, _), each in found.items() if kind == "DaemonSet")
    return msgspec.convert(document, DaemonSet)
