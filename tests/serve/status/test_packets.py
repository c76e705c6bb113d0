"""What the running daemon explains at once, and that others get their turn meanwhile."""

import asyncio

from kubeproxy.base import pace
from kubeproxy.base.steps import finish
from kubeproxy.serve.status.packets import MOST, explanations
from serve.status.living import Rig, programmed
from world import service


async def with_ports(count: int) -> Rig:
    """The cart, with so many ports."""
    ports = [{"name": f"p{number}", "port": 5000 + number} for number in range(count)]
    return await programmed(service({"ports": ports}))


async def test_some_packets_at_once() -> None:
    rig = await with_ports(MOST)
    found = finish(explanations(rig.live.state(), "outside", ["cart"]))
    assert isinstance(found, list)
    assert len(found) == MOST
    too_many = finish(explanations(rig.live.state(), "outside", ["cart:p0", "cart"]))
    assert str(too_many) == (
        "to cart: that makes 201 packets, and no more than 200 are explained at once; name a port"
    )


async def test_others_get_their_turn_between_packets() -> None:
    rig = await with_ports(100)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    others = asyncio.create_task(count())
    await pace.run(explanations(rig.live.state(), "outside", ["cart"]), moment=0.0)
    others.cancel()
    assert turns >= 100
