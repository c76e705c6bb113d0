import asyncio

from kubeproxy.serve.http.room import Turns


async def test_a_client_with_many_requests_delays_only_itself() -> None:
    turns = Turns()
    served: list[str] = []

    async def ask(client: str) -> None:
        await turns.wait(client)
        served.append(client)

    crowd = [asyncio.ensure_future(ask("greedy")) for _ in range(100)]
    await asyncio.gather(asyncio.ensure_future(ask("probe")))
    assert served.index("probe") < 8
    await asyncio.gather(*crowd)
    assert served.count("greedy") == 100


async def test_a_client_that_left_takes_no_turn() -> None:
    turns = Turns()
    waiting = [asyncio.ensure_future(turns.wait("greedy")) for _ in range(50)]
    last = asyncio.ensure_future(turns.wait("greedy"))
    await asyncio.sleep(0)
    for each in waiting:
        each.cancel()
    async with asyncio.timeout(10):
        await last
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not turns._queues
