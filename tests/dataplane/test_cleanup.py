"""The removal of leftovers, with modes that only pretend. For real ones: the lab."""

import pytest
from msgspec.structs import replace

from dataplane.example_mode import MODE
from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane import cleanup
from kubeproxy.dataplane.cleanup import NotAllRemoved, clean_up, remove_other_modes
from kubeproxy.dataplane.leftovers import Cleanup
from kubeproxy.dataplane.mode import Mode


def mode(name: str, *, uses_iptables: bool = False, fails: bool = False) -> Mode:
    def remove(cleanup: Cleanup) -> None:
        with cleanup.step():
            if fails:
                raise KernelError(f"{name} is in use")
            cleanup.note(f"rules of {name}")
        cleanup.keep("Counters stay", mode=name)

    return replace(MODE, name=name, uses_iptables=uses_iptables, clean_up=remove)


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[Mode]:
    found = [mode("one"), mode("two", uses_iptables=True), mode("three", uses_iptables=True)]
    monkeypatch.setattr(cleanup, "all_modes", lambda: found)
    monkeypatch.setattr(cleanup, "_has_nf_tables", lambda: True)
    return found


def test_everything_goes(modes: list[Mode], capsys: pytest.CaptureFixture[str]) -> None:
    assert clean_up() == tuple(f"rules of {each.name}" for each in modes)
    said = capsys.readouterr().err
    assert '"Removed" what="rules of one"' in said
    assert '"Counters stay" mode="three"' in said


def test_one_failure_does_not_stop_the_others(
    modes: list[Mode], capsys: pytest.CaptureFixture[str]
) -> None:
    modes[0] = mode("one", fails=True)
    with pytest.raises(NotAllRemoved, match="while tearing down rules: one is in use"):
        clean_up()
    assert "rules of two" in capsys.readouterr().err


def test_modes_that_share_chains_keep_each_others(
    modes: list[Mode], capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, _ = modes
    assert remove_other_modes(two) == ()
    said = capsys.readouterr().err
    assert "rules of one" in said
    assert "rules of three" not in said
    assert "Counters stay" not in said
    remove_other_modes(one)
    said = capsys.readouterr().err
    assert "rules of two" in said
    assert "rules of three" in said


def test_what_remains_is_reported(modes: list[Mode], capsys: pytest.CaptureFixture[str]) -> None:
    modes[0] = mode("one", fails=True)
    assert remove_other_modes(modes[1]) == ("one is in use",)
    assert '"Rules of another mode remain' in capsys.readouterr().err


def test_without_rights_nothing_is_removed(
    modes: list[Mode], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> bool:
        raise KernelError("nothing was removed")

    monkeypatch.setattr(cleanup, "_has_nf_tables", refuse)
    assert remove_other_modes(modes[0]) == ("nothing was removed",)
