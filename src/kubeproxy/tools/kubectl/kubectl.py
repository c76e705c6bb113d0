"""Runs the user's `kubectl`, which has the kubeconfig, the credentials and the way there."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import IO, Final, TypeVar

import msgspec

from kubeproxy.base.errors import ApiServerError, OperatorError
from kubeproxy.tools.command import say
from kubeproxy.tools.kubectl.proxies import Proxy

T = TypeVar("T")

LATE: Final = -1
_LOG: Final = re.compile(r"[IWE]\d{4} \d\d:")
"""What kubectl logs, before it says the same to people."""
_SAID_ANYWAY: Final = (
    "Defaulted container",
    "command terminated with exit code",
    "Is it running on this node?",
)
_ERASE: Final = "\r\x1b[K"


class Done(msgspec.Struct, frozen=True):
    """What came of a `kubectl`; the code is `LATE` when it was ended because of its time limit."""

    code: int
    out: bytes
    err: str


class Kubectl(msgspec.Struct, frozen=True):
    """`kubectl` with the flags that name the cluster and the user."""

    program: str
    flags: tuple[str, ...]
    seconds: float

    def run(self, arguments: Sequence[str]) -> Done:
        """What came of it, within the time limit."""
        command = [self.program, *self.flags, *arguments]
        try:
            done = subprocess.run(  # noqa: S603  # the user's own program
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Done(LATE, b"", f"no answer within {self.seconds:g} s")
        return Done(done.returncode, done.stdout, _said(done.stderr))

    def read(self, arguments: Sequence[str]) -> bytes:
        """What it prints; an error when it fails."""
        done = self.run(arguments)
        if done.code:
            raise ApiServerError(f"kubectl {' '.join(arguments[:2])}: {done.err}")
        return done.out

    def get(self, type_: type[T], arguments: Sequence[str]) -> T:
        """Objects, decoded to the type."""
        data = self.read(["get", *arguments, "--output=json"])
        try:
            return msgspec.json.decode(data, type=type_)
        except msgspec.DecodeError as error:
            raise ApiServerError(f"kubectl get {arguments[0]}: {error}") from error

    def inside(self, proxy: Proxy, words: Sequence[str], *how: str) -> list[str]:
        """The arguments that run one of our commands in the pod of a proxy."""
        where = (f"--namespace={proxy.namespace}", f"--container={proxy.container}")
        return ["exec", *how, *where, proxy.pod, "--", "kube-proxy", *words]

    def start(self, arguments: Sequence[str]) -> subprocess.Popen[str]:
        """Start it, for what it prints while it runs."""
        return subprocess.Popen(  # noqa: S603  # as above
            [self.program, *self.flags, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def save(self, arguments: Sequence[str], file: IO[bytes]) -> int:
        """Write what it prints into a file, however long that takes; the exit code comes back."""
        command = [self.program, *self.flags, *arguments]
        return subprocess.run(  # noqa: S603  # as above
            command, stdin=subprocess.DEVNULL, stdout=file, check=False
        ).returncode

    def become(self, arguments: Sequence[str]) -> int:
        """Be it: it has the terminal, and its exit code is ours."""
        sys.stdout.flush()
        os.execv(self.program, [self.program, *self.flags, *arguments])  # noqa: S606  # as above


def find_kubectl(flags: Iterable[str], seconds: float) -> Kubectl:
    """The `kubectl` of PATH."""
    program = shutil.which("kubectl")
    if program is None:
        raise OperatorError("kubectl is not in PATH: this command runs it, to reach the cluster")
    return Kubectl(program, tuple(flags), seconds)


def _said(data: bytes) -> str:
    """What a program complained about, in one line, but for what is said in other words."""
    lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
    told = [line for line in lines if line and not line.startswith(_SAID_ANYWAY)]
    told = [line for line in told if not _LOG.match(line)] or told[-1:]
    text = "; ".join(told).replace(":; ", ": ").removeprefix("Error: ")
    return text or "it failed, and said nothing"


def at_once(
    jobs: Mapping[str, Callable[[], T]], limit: int, progress: Callable[[int], None]
) -> dict[str, T]:
    """The results of all jobs, so many at a time; Ctrl-C forgets those that have not begun."""
    pool = ThreadPoolExecutor(limit)
    running: dict[Future[T], str] = {pool.submit(job): name for name, job in jobs.items()}
    try:
        left = set(running)
        while left:
            progress(len(running) - len(left))
            _, left = wait(left, return_when=FIRST_COMPLETED)
        progress(len(running))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return {name: future.result() for future, name in running.items()}


def shown_progress(what: str, total: int) -> Callable[[int], None]:
    """A line that says how far it is, while that is of interest, and only in a terminal."""
    if not sys.stderr.isatty() or total <= 1:
        return lambda _: None

    def show(done: int) -> None:
        sys.stderr.write(_ERASE if done == total else f"{_ERASE}{what}: {done} of {total}")
        sys.stderr.flush()

    return show


def remark(text: str) -> None:
    """Print what is not part of the answer."""
    say(f"note: {text}", sys.stderr)
