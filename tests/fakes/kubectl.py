"""A `kubectl` for tests: the objects of a file, and commands that run in the place of pods.

It refuses what it does not know, so that a mistake in the arguments is one of the test. The real
one is given the same arguments in `tests/tools/kubectl/test_real_kubectl.py`.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

CLUSTER = "FAKE_KUBECTL_CLUSTER"
Object = Mapping[str, object]


class FakeCluster(msgspec.Struct):
    """What there is. `inside` are the words in front of a command that runs in a pod."""

    pods: list[Object]
    nodes: list[Object] = []
    inside: dict[str, list[str]] = {}
    raw: dict[str, str] = {}
    """What is at a path of the API server; where it begins with "Error", that is why not."""
    forbidden: list[str] = []
    """What may not be asked for, such as `nodes`."""
    calls: str = ""
    """A file to which the arguments of each call are added."""


def pod(name: str, node: str, **more: object) -> Object:
    """A pod of a proxy that runs."""
    labels = more.pop("labels", {"k8s-app": "kubeproxy"})
    status = {
        "phase": "Running",
        "containerStatuses": [{"name": "kube-proxy", "state": {"running": {}}}],
        "podIPs": [{"ip": "192.0.2.10"}],
    }
    image = more.pop("image", "registry.example/kubeproxy:0.1.0")
    return {
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            "containers": [{"name": "kube-proxy", "image": image}],
        },
        "status": status,
        **more,
    }


def node(name: str, ready: str = "True") -> Object:
    """A Node."""
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": name}, "status": {"conditions": conditions}}


def install(directory: Path, cluster: FakeCluster) -> dict[str, str]:
    """Write it with its cluster into a folder; the environment in which it is found."""
    program = directory / "kubectl"
    tests = Path(__file__).parents[1]
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(tests)!r})\n"
        "from fakes.kubectl import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    program.chmod(0o755)
    (directory / "cluster.json").write_bytes(msgspec.json.encode(cluster))
    return {
        "PATH": f"{directory}:{os.environ['PATH']}",
        CLUSTER: str(directory / "cluster.json"),
    }


# --- the program ------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Be kubectl."""
    cluster = msgspec.json.decode(Path(os.environ[CLUSTER]).read_bytes(), type=FakeCluster)
    if cluster.calls:
        with Path(cluster.calls).open("a") as calls:
            calls.write(json.dumps(arguments) + "\n")
    given = list(arguments)
    while given and given[0].startswith("--"):  # flags that name the cluster
        given.pop(0)
    verb, *rest = given
    return {"get": _get, "exec": _exec}[verb](cluster, rest)


def _refused(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 1


def _get(cluster: FakeCluster, words: Sequence[str]) -> int:
    flags = dict(_flag(word) for word in words if word.startswith("-"))
    names = [word for word in words if not word.startswith("-")]
    if "raw" in flags:
        found = cluster.raw.get(flags["raw"], "Error from server (NotFound): no such page")
        return _refused(found) if found.startswith("Error") else _said(found)
    if names[0] in cluster.forbidden:
        return _refused(f'Error from server (Forbidden): {names[0]} is forbidden: User "desk"')
    if flags.get("o", "").startswith("jsonpath="):
        assert names == ["pods"]
        assert "all-namespaces" in flags
        return _said("".join(map(_line, cluster.pods)))
    assert flags["output"] == "json"
    if names[0] == "pod":
        for each in cluster.pods:
            if (_meta(each)["namespace"], _meta(each)["name"]) == (flags["namespace"], names[1]):
                return _said(json.dumps(each))
        return _refused(f'Error from server (NotFound): pods "{names[1]}" not found')
    items = cluster.nodes
    if names[0] == "pods":
        namespace, selector = flags["namespace"], flags["selector"]
        items = [each for each in cluster.pods if fits(each, namespace, selector)]
    return _said(json.dumps({"items": items}))


def _flag(word: str) -> tuple[str, str]:
    name, _, value = word.lstrip("-").partition("=")
    return name, value


def fits(pod: Object, namespace: str, selector: str) -> bool:
    """Whether a pod is in the namespace, and has a label in `KEY in (ONE,OTHER)`."""
    key, _, values = selector.partition(" in ")
    label = _meta(pod).get("labels", {}).get(key)  # type: ignore[attr-defined]  # it is one
    return _meta(pod)["namespace"] == namespace and label in values.strip("()").split(",")


def _meta(of: Object) -> Object:
    meta = of["metadata"]
    assert isinstance(meta, Mapping)
    return meta


def _line(pod: Object) -> str:
    spec, status = pod["spec"], pod["status"]
    assert isinstance(spec, Mapping)
    assert isinstance(status, Mapping)
    host = "true" if spec.get("hostNetwork") else ""
    addresses = " ".join(each["ip"] for each in status["podIPs"])
    name = f"{_meta(pod)['namespace']}/{_meta(pod)['name']}"
    return f"{name}\t{host}\t{status['phase']}\t{addresses}\n"


def _said(text: str) -> int:
    sys.stdout.write(text)
    return 0


def _exec(cluster: FakeCluster, words: Sequence[str]) -> int:
    where = words.index("--")
    *flags, pod = words[:where]
    assert {"--namespace=kube-system", "--container=kube-proxy"} <= set(flags)
    if pod not in cluster.inside:
        return _refused(
            f'Error from server: error dialing backend: no route to the node of "{pod}"'
        )
    command = [*cluster.inside[pod], *words[where + 1 :]]
    sys.stdout.flush()
    return os.execvp(command[0], command)
