"""The example of CONTRIBUTING: a mode is a folder and a line in the registry."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dataplane import example_mode
from kubeproxy.app.cli import main
from kubeproxy.app.daemon import Daemon
from kubeproxy.app.wiring import setup_of
from kubeproxy.base import klog
from kubeproxy.base.inet import Family
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import load
from kubeproxy.config.validate import validate
from kubeproxy.dataplane import cleanup
from kubeproxy.dataplane.modes import MODES, MODULES, load_mode
from tools.manifests import SHOP, write
from waiting import until


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The one line; and the daemon's log is as it was afterwards."""
    monkeypatch.setitem(MODULES, "memory", "dataplane.example_mode")
    monkeypatch.setattr(klog, "bridge_logging", lambda: None)
    yield
    klog.configure(klog.LogSettings())
    example_mode.RULES.clear()


async def synced(manifests: Path) -> None:
    """Run the daemon from its command line until both families are programmed."""
    flags = ("--proxy-mode=memory", "--hostname-override=kestrel", f"--manifests={manifests}")
    parsed = parse_flags(flags)
    loaded = load(parsed, MODES)
    validate(loaded.config, loaded.gates, MODES)
    setup = replace(
        setup_of(parsed, loaded, b""),
        families=tuple(Family),
        cleans_flows=False,
        serves=False,
        prepare=None,
        remove_other_modes=None,  # those of this machine stay
    )
    daemon = Daemon(setup)
    running = asyncio.ensure_future(daemon.run())
    await until(lambda: all(sync.node is not None for sync in daemon.parts.syncs.values()))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_from_the_configuration_to_the_cleanup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, SHOP)
    asyncio.run(synced(tmp_path))
    capsys.readouterr()
    assert main(["render", f"--manifests={tmp_path}", "--mode=memory"]) == 0
    rendered = capsys.readouterr().out
    assert "10.112.0.21:80/TCP" in rendered
    assert [str(example_mode.RULES[family.value]) for family in Family] == rendered.splitlines()

    monkeypatch.setattr(cleanup, "_has_nf_tables", lambda: False)
    monkeypatch.setattr(cleanup, "all_modes", lambda: [load_mode("memory")])
    assert main(["--cleanup"]) == 0
    assert example_mode.RULES == {}
    assert '"Removed" what="IPv4 rules"' in capsys.readouterr().err


def test_contributing_shows_this_code() -> None:
    root = Path(__file__).parents[2]
    code = (root / "tests/dataplane/example_mode.py").read_text()
    assert f"```python\n{code}```\n" in (root / "CONTRIBUTING.md").read_text()
