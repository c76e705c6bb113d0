"""`make demo` without a terminal: all its claims hold, and a claim that does not is reported."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = (sys.executable, "-m", "demo")
WRONG = """
import sys
import demo.__main__ as demo
from demo.cluster import Cluster

served = Cluster.frontend
Cluster.frontend = lambda cluster, service, kind="cluster IP": served(cluster, "shop/web")
demo.ACTS = (demo.acts.rejection,)
sys.exit(demo.main())
"""
"""The act about a service without endpoints, played with one that has some."""


def start(*command: str, encoding: str = "utf-8") -> "subprocess.Popen[str]":
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tests"),
        "PYTHONIOENCODING": encoding,
    }
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


def output(*command: str, encoding: str = "utf-8") -> tuple[int, str]:
    """The exit code and all that the demo printed."""
    with start(*command, encoding=encoding) as process:
        try:
            text, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    return process.returncode, text


@pytest.mark.slow
def test_every_claim_holds() -> None:
    code, text = output(*DEMO)
    assert "Nothing is left behind." in text, text
    assert "NOT TRUE" not in text
    assert "\x1b" not in text
    assert "11  Pods that fail, and connections that heal" in text
    assert "nft is here, and is a witness" in text
    assert "nft lists the same numbers" in text
    assert code == 0


@pytest.mark.slow
def test_no_nft_is_needed() -> None:
    code, text = output("unshare", "--mount", "sh", "-c", without("nft"))
    assert "Nothing is left behind." in text, text
    assert "NOT TRUE" not in text
    assert "nft is not here; nothing needs it" in text
    assert "From `kube-proxy render`:" in text
    assert code == 0


def without(program: str) -> str:
    """A script that plays the demo where that program cannot be run."""
    return f"mount --bind /dev/null {shutil.which(program)} && {' '.join(DEMO)}"


def test_a_claim_that_does_not_hold_is_reported_also_in_ascii() -> None:
    code, text = output(sys.executable, "-c", WRONG, encoding="ascii")
    assert "WRONG pod shopper got an ICMP port unreachable" in text, text
    assert "NOT TRUE: L" in text or "NOT TRUE: R1" in text
    assert "1 of 3 claims did NOT hold" in text
    assert text.isascii()
    assert code == 1


def test_an_interrupt_ends_it_at_once_and_everything_with_it() -> None:
    with start(*DEMO) as process:
        assert process.stdout is not None
        while "service addresses are programmed" not in process.stdout.readline():
            assert process.poll() is None
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()  # ends when every process that holds the pipe has ended
    assert rest.endswith("Stopped. Nothing is left behind.\n")
    assert "Traceback" not in rest
    assert process.returncode == 128 + signal.SIGINT
    assert time.monotonic() - began < 5


def test_a_machine_without_namespaces_gets_one_sentence() -> None:
    script = f"echo 0 > /proc/sys/user/max_user_namespaces; {' '.join(DEMO)}"
    code, text = output("unshare", "--user", "--map-root-user", "sh", "-c", script)
    assert text.startswith("make demo: the demo builds its network in namespaces, which this")
    assert "(unshare: No space left on device)" in text.replace("\n", " ")
    assert text.count(". ") == 0
    assert code == 1


def test_a_machine_without_setpriv_gets_one_sentence() -> None:
    code, text = output("unshare", "--mount", "sh", "-c", without("setpriv"))
    wanted = "make demo: the demo needs programs that are missing; apt-get install util-linux\n"
    assert text == wanted
    assert code == 1
