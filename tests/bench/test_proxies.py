import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from bench.proxies import Proxy, Running

if TYPE_CHECKING:
    from bench.proxies import Cluster

    from lab.namespaces import Namespace


def test_the_memory_of_the_bench_is_not_that_of_a_proxy(tmp_path: Path) -> None:
    small = tmp_path / "kube-proxy"
    small.write_text("#!/bin/sh\nexec sleep 60\n")
    small.chmod(0o755)
    cluster = SimpleNamespace(directory=tmp_path, kubeconfig=tmp_path / "kubeconfig")
    here = SimpleNamespace(entered=contextlib.nullcontext)
    running = Running(
        Proxy("small", str(small)), cast("Namespace", here), cast("Cluster", cluster)
    )
    assert running.stop() == 0.0
    assert running.stop() == 0.0
