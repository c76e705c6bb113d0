"""The test API server by hand: serve until interrupted, with a kubeconfig for kubectl."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import yaml

from fakes.apiresources import RESOURCE_OF_KIND
from fakes.apiserver import FakeApiServer
from fakes.apistore import Body
from fakes.certs import ServerTLS, server_tls


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="fakes.apiserver", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--manifests", type=Path, help="a folder of YAML to start with")
    parser.add_argument("--tls", action="store_true", help="HTTPS with a fresh authority")
    parser.add_argument("--token", action="append", help="require this bearer token; repeatable")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        try:
            asyncio.run(_serve(arguments, Path(directory)))
        except KeyboardInterrupt:
            sys.exit(0)


async def _serve(arguments: argparse.Namespace, directory: Path) -> None:
    tls: ServerTLS | None = None
    cluster: dict[str, object] = {}
    if arguments.tls:
        tls, authority = server_tls(directory)
        cluster["certificate-authority"] = str(authority.cert)
    tokens = set(arguments.token) if arguments.token else None
    async with FakeApiServer(tls, tokens, port=arguments.port) as server:
        for document in _documents(arguments.manifests) if arguments.manifests else []:
            server.put(document)
        kubeconfig = directory / "kubeconfig"
        user = {"token": arguments.token[0]} if arguments.token else {}
        kubeconfig.write_text(_kubeconfig(cluster | {"server": server.url}, user))
        sys.stdout.write(f"serving {server.url}\nexport KUBECONFIG={kubeconfig}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def _documents(directory: Path) -> list[Body]:
    documents: list[Body] = []
    for path in sorted(directory.glob("*.y*ml")):
        for document in yaml.safe_load_all(path.read_text()):
            documents.extend(document.get("items", [document]) if document else [])
    return [document for document in documents if document.get("kind") in RESOURCE_OF_KIND]


def _kubeconfig(cluster: dict[str, object], user: dict[str, str]) -> str:
    return yaml.safe_dump(
        {
            "kind": "Config",
            "apiVersion": "v1",
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "fake", "user": user}],
        }
    )
