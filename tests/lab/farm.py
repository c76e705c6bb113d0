"""Endpoints by the thousand: one process answers for every address of two ranges."""

import json
import os
import subprocess
import sys
from pathlib import Path

from kubeproxy.base.inet import Family, unpack
from kubeproxy.table.entries import Backend
from lab.network import Network

PORT = 9000
RANGES = {Family.IPV4: "100.64.0.0/16", Family.IPV6: "fd64::/64"}
_FIRST = {
    Family.IPV4: bytes([100, 64, 0, 0]),
    Family.IPV6: bytes([0xFD, 0x64]) + bytes(14),
}
_TESTS = Path(__file__).parents[1]


def crop(number: int, family: Family = Family.IPV4) -> Backend:
    """The endpoint with that number, from 0 to 65,534."""
    first = _FIRST[family]
    address = int.from_bytes(first, "big") + number + 1
    return Backend(unpack(address.to_bytes(len(first), "big")), PORT)


class Farm:
    """The farm lies in the world behind kestrel's default route."""

    def __init__(self, network: Network) -> None:
        self._namespace = network.namespaces["W"]
        for prefix in RANGES.values():
            self._namespace.run(["ip", "route", "add", "local", prefix, "dev", "lo"])
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "lab.responder"),
                json.dumps([[("farm", str(self._namespace.path), [PORT], [])], [], 0]),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(_TESTS)},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the farm did not start"

    def close(self) -> None:
        """End the process, and give the ranges back."""
        self._process.communicate(timeout=60)
        for prefix in RANGES.values():
            self._namespace.run(["ip", "route", "del", "local", prefix, "dev", "lo"])
