"""kube-proxy as a fork of this process, which has imported it already.

To start Python and to import ours costs seconds under emulation.
"""

import contextlib
import faulthandler
import os
import select
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence

from kubeproxy.app.cli import main
from lab.launch import SECONDS, Launcher, Program, Ran, Started
from lab.namespaces import die_with_parent

_MODE = "--proxy-mode"
_FAILED = 70
"""The exit code of a fork that did not get as far as kube-proxy's own."""


class Fork:
    """A process that runs kube-proxy, with these descriptors as its output and its errors."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], out: int, err: int
    ) -> None:
        with warnings.catch_warnings():  # about threads, none of which the child uses
            warnings.simplefilter("ignore")
            self.pid = os.fork()
        if not self.pid:
            _become(arguments, environment, out, err)
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; `subprocess.TimeoutExpired` when it does not end in time."""
        if self._code is None:
            descriptor = os.pidfd_open(self.pid)
            ended, _, _ = select.select([descriptor], [], [], timeout)
            os.close(descriptor)
            if not ended:
                raise subprocess.TimeoutExpired("kube-proxy", timeout or 0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, sig: int) -> None:
        """Send it a signal."""
        if self.poll() is None:
            os.kill(self.pid, sig)


class Forking:
    """Forks every time."""

    def daemon(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: int
    ) -> Started:
        """Start one that ends with us."""
        return Fork(arguments, environment, 1, log)

    def tool(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Ran:
        """Run one to its end."""
        with _file() as out, _file() as err:
            code = Fork(arguments, environment, out, err).wait(SECONDS)
            return Ran(code, _content(out), _content(err))


class Sparing:
    """Starts the program the first time, for the daemon in every mode, and forks from then on."""

    def __init__(self) -> None:
        self._started: set[str] = set()

    def daemon(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: int
    ) -> Started:
        """Start one that ends with us."""
        mode = [word for word in arguments if word.startswith(_MODE)]
        return self._way(f"daemon {mode}").daemon(arguments, environment, log)

    def tool(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Ran:
        """Run one to its end."""
        return self._way(arguments[0]).tool(arguments, environment)

    def _way(self, what: str) -> Launcher:
        is_first = what not in self._started
        self._started.add(what)
        return Program() if is_first else Forking()


@contextlib.contextmanager
def _file() -> Iterator[int]:
    descriptor = os.memfd_create("output")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode()


def _become(arguments: Sequence[str], environment: Mapping[str, str], out: int, err: int) -> None:
    """Be kube-proxy, as if this process had just been started; does not return."""
    code = _FAILED
    try:
        die_with_parent(signal.SIGKILL)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(environment)
        if environment.get("PYTHONWARNINGS") == "error":
            warnings.simplefilter("error")
        faulthandler.enable()
        code = main(arguments)
        sys.stdout.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001  # there is no caller
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
