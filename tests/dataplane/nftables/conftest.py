from collections.abc import AsyncIterator

import pytest

from dataplane.nftables.plane import Plane
from fakes.nftables import FakeNftables
from kubeproxy.dataplane.nftables import pins


@pytest.fixture
async def plane(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Plane]:
    plane = Plane(FakeNftables())
    monkeypatch.setattr(pins, "Nfnetlink", lambda: FakeNftables(plane.kernel.ruleset))
    yield plane
    await plane.nftables.close()
    assert plane.kernel.closed
