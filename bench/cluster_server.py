"""The API server's process, seen from the one that measures."""

import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from bench.apiprocess import Command, Listening, Sent, Wait
from bench.changes import Plan
from bench.clusters import Size
from lab.namespaces import Namespace

_Answer = TypeVar("_Answer")


def kubeconfig(listening: Listening) -> bytes:
    """The file that leads to an API server."""
    cluster = {"server": listening.url, "certificate-authority": listening.authority}
    document = {
        "kind": "Config",
        "apiVersion": "v1",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": "anything"}}],
    }
    return msgspec.json.encode(document)


class ClusterServer:
    """Serves a cluster in a namespace for as long as the context lasts."""

    def __init__(self, namespace: Namespace, size: Size) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="bench-")
        self.directory = Path(self._directory.name)
        with namespace.entered():
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "bench.apiprocess"),
                    f"{size.services}x{size.endpoints}",
                    str(self.directory),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        self.kubeconfig = self.directory / "kubeconfig"

    def __enter__(self) -> Self:
        self.kubeconfig.write_bytes(kubeconfig(self._answer(Listening)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._directory.cleanup()

    def prepare(self, plan: Plan) -> None:
        """Have the changes of a plan made, to be sent later."""
        self._ask(Command(prepare=plan.changes))

    def begin_sending(self) -> None:
        """Have what is prepared sent, while the kernel is being watched."""
        self._send(Command(send=True))

    def sent(self) -> Sent:
        """When that was; waits until it is done."""
        return self._answer(Sent)

    def wait_left(self) -> None:
        """Wait until no watch is open, and all is ready for the next."""
        self._ask(Command(wait=Wait.CLOSED))

    def wait_synced(self) -> None:
        """Wait until a client watches and has been sent all objects."""
        self._ask(Command(wait=Wait.SYNCED))

    def _ask(self, command: Command) -> None:
        self._send(command)
        self._answer(Sent)

    def _send(self, command: Command) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(command) + b"\n")
        self._process.stdin.flush()

    def _answer(self, type_: type[_Answer]) -> _Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the API server's process ended; its error stands above")
        return msgspec.json.decode(line, type=type_)
