"""A fast path that is as a test says."""

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import FastPathState


class FakeFastPath:
    """It has these connections; with `breaks` the kernel does not say how many."""

    def __init__(self, state: FastPathState, **connections: int) -> None:
        self.state = state
        self.breaks = False
        self._connections = connections

    def connections(self) -> dict[Family, int]:
        if self.breaks:
            raise KernelError("it changes faster than it can be listed")
        return {Family(name): count for name, count in self._connections.items()}

    async def run(self) -> None: ...
