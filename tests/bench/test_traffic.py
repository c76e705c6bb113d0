import pytest
from bench.traffic import asking

from kubeproxy.serve.http.listening import listen


async def test_a_client_that_cannot_connect_is_not_waited_for(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(RuntimeError, match="the client ended without an answer"):
        async with asking("/", port, 0.0):
            pass
    assert "ConnectionRefusedError" in capfd.readouterr().err
