"""The source over real files: what is delivered, what is logged, and what stays."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeproxy.base.errors import OperatorError
from kubeproxy.cluster.events import Delete, Event, Keep, Reset, Synced, Upsert
from kubeproxy.cluster.manifests.files import scan
from kubeproxy.cluster.manifests.source import Library, Manifests, load, refresh
from kubeproxy.cluster.objects.meta import Kind
from waiting import until


def service(name: str, port: int = 80) -> str:
    return (
        f"apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n"
        f"spec:\n  ports:\n  - port: {port}\n---\n"
    )


def short(event: Event) -> str:
    """`+a` for an upsert, `-a` for a deletion, with the object's name."""
    match event:
        case Upsert(object=obj):
            return f"+{obj.metadata.name}"
        case Delete(key=key):
            return f"-{key.name}"
        case Keep(key=key):
            return f"={key.name}"
        case Reset(kind=kind):
            return f"reset {kind.value}"
        case Synced(kind=kind):
            return f"synced {kind.value}"


class Consumer:
    """Collects what a source delivers."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.complete = asyncio.Event()
        self._arrived = asyncio.Event()

    def deliver(self, event: Event) -> None:
        self.events.append(short(event))
        self._arrived.set()
        if event == Synced(list(Kind)[-1]):
            self.complete.set()

    async def take(self, *expected: str) -> list[str]:
        """So many events as are expected, or fewer if no more come."""
        try:
            async with asyncio.timeout(5):
                while len(self.events) < len(expected):
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            pass
        taken, self.events = self.events[: len(expected)], self.events[len(expected) :]
        return taken

    async def receives(self, *expected: str) -> bool:
        return list(expected) == await self.take(*expected)


@asynccontextmanager
async def running(*paths: Path) -> AsyncIterator[Consumer]:
    """A source that has delivered everything once."""
    consumer = Consumer()
    source = Manifests([str(path) for path in paths])
    task = asyncio.create_task(source.run(consumer.deliver))
    await asyncio.wait_for(consumer.complete.wait(), 5)
    yield consumer
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "a.yaml").write_text(service("a"))
    (folder / "b.yaml").write_text(service("b"))
    return folder


FIRST = (
    "reset Service",
    "+a",
    "+b",
    "synced Service",
    "reset EndpointSlice",
    "synced EndpointSlice",
    "reset Node",
    "synced Node",
    "reset ServiceCIDR",
    "synced ServiceCIDR",
)


async def wait_logged(capsys: pytest.CaptureFixture[str], text: str) -> str:
    """The log up to the moment when it contains the text."""
    logged = ""
    async with asyncio.timeout(5):
        while text not in logged:
            logged += capsys.readouterr().err
            await asyncio.sleep(0.01)
    return logged


async def test_everything_is_delivered_at_first(folder: Path) -> None:
    async with running(folder) as consumer:
        assert await consumer.receives(*FIRST)


async def test_only_differences_are_delivered_later(folder: Path) -> None:
    async with running(folder) as consumer:
        assert await consumer.receives(*FIRST)
        (folder / "a.yaml").write_text(service("a", 81) + service("c"))
        assert await consumer.receives("+a", "+c")
        (folder / "a.yaml").write_text("# as before\n" + service("a", 81))
        assert await consumer.receives("-c")
        (folder / "b.yaml").unlink()
        assert await consumer.receives("-b")
        assert consumer.events == []


def write(path: Path, text: str) -> None:
    path.write_text(text)


def rename_over(path: Path, text: str) -> None:
    temporary = path.with_name("new")
    temporary.write_text(text)
    temporary.rename(path)


def make_again(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


@pytest.mark.parametrize("replace", [write, rename_over, make_again])
async def test_a_file_is_replaced(folder: Path, replace: Callable[[Path, str], None]) -> None:
    async with running(folder) as consumer:
        assert await consumer.receives(*FIRST)
        replace(folder / "a.yaml", service("a", 8080))
        assert await consumer.receives("+a")


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(service("x") + "kind: [\n", id="broken-yaml"),
        pytest.param("", id="empty-because-it-is-being-written"),
        pytest.param("kind: Serv", id="cut-off-in-the-kind"),
        pytest.param("apiVersion: v1\nkind: Service\nmetadata:\n", id="cut-off-in-the-metadata"),
    ],
)
async def test_a_broken_file_keeps_its_last_good_content(
    folder: Path, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(folder) as consumer:
        assert await consumer.receives(*FIRST)
        (folder / "a.yaml").write_text(broken)
        logged = await wait_logged(
            capsys, "Manifest is invalid, its last valid content stays in use"
        )
        assert f'file="{folder / "a.yaml"}" line=' in logged
        os.utime(folder / "a.yaml")
        (folder / "b.yaml").write_text(service("b", 81))
        assert await consumer.receives("+b")
        assert capsys.readouterr().err == ""
        (folder / "a.yaml").write_text(service("a", 81))
        assert await consumer.receives("+a")
        assert "Manifest is valid again" in capsys.readouterr().err


async def test_what_is_broken_or_out_of_reach_can_be_asked_for(folder: Path) -> None:
    source = Manifests([str(folder)])
    task = asyncio.create_task(source.run(lambda _: None))
    try:
        (folder / "a.yaml").write_text("kind: [")
        await until(lambda: len(source.gaps()) == 1)
        [gap] = source.gaps()
        assert gap.what == f"{folder / 'a.yaml'}:2:1"
        assert "did not find expected node content" in gap.reason
        assert gap.seconds is None
        os.rename(folder, f"{folder}-elsewhere")  # noqa: PTH104  # as others do, at once
        await until(lambda: str(folder) in {gap.what for gap in source.gaps()})
        os.rename(f"{folder}-elsewhere", folder)  # noqa: PTH104
        (folder / "a.yaml").write_text(service("a"))
        await until(lambda: source.gaps() == [])
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_object_that_is_not_understood_leaves_the_rest_of_its_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.yaml").write_text(service("x").replace("80", "many") + service("a"))
    async with running(folder) as consumer:
        assert await consumer.receives(*FIRST)
        logged = await wait_logged(capsys, "Manifest is invalid")
        assert "the Service default/x cannot be decoded" in logged
        assert "line=1" in logged


async def test_of_two_objects_with_one_name_the_last_file_counts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(folder) as consumer:
        assert await consumer.receives(*FIRST)
        (folder / "c.yaml").write_text("# one line\n" + service("a", 81))
        assert await consumer.receives("+a")
        logged = await wait_logged(capsys, "Object is in two manifests, the last one is used")
        assert f'used="{folder / "c.yaml"}:2" ignored="{folder / "a.yaml"}:1"' in logged
        (folder / "a.yaml").write_text(service("a", 82) + service("d"))
        assert await consumer.receives("+d")
        assert capsys.readouterr().err == ""
        (folder / "c.yaml").unlink()
        assert await consumer.receives("+a")


async def test_a_folder_that_disappears_takes_nothing_away(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(folder) as consumer:
        assert await consumer.receives(*FIRST)
        shutil.rmtree(folder)
        logged = await wait_logged(capsys, "Cannot read manifests, their last state stays in use")
        assert f'path="{folder}"' in logged
        other = folder.with_name("other")
        other.mkdir()
        (other / "a.yaml").write_text(service("a", 81))
        other.rename(folder)
        assert await consumer.receives("-b", "+a")
        assert consumer.events == []
        assert "Manifests can be read again" in capsys.readouterr().err


async def test_a_file_that_was_named_and_disappears_stays(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(folder / "a.yaml", folder / "b.yaml") as consumer:
        assert await consumer.receives(*FIRST)
        (folder / "a.yaml").unlink()
        await wait_logged(capsys, "Cannot read manifests")
        (folder / "a.yaml").write_text(service("a", 81))
        assert await consumer.receives("+a")


async def test_a_path_that_is_not_there_at_the_start_is_the_operators_mistake(
    tmp_path: Path,
) -> None:
    source = Manifests([str(tmp_path / "nowhere")])
    with pytest.raises(OperatorError, match=r"nowhere cannot be read: No such file"):
        await asyncio.wait_for(source.run(lambda _: None), 5)


async def test_a_mounted_configmap_is_read_and_followed(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    for version in ("1", "2"):
        (volume / f"..{version}").mkdir(parents=True)
    (volume / "..1" / "x.yaml").write_text(service("a") + service("b"))
    (volume / "..2" / "x.yaml").write_text(service("a") + service("b", 81))
    (volume / "..data").symlink_to("..1")
    (volume / "x.yaml").symlink_to("..data/x.yaml")
    async with running(volume) as consumer:
        assert await consumer.receives(*FIRST)
        (volume / "..data_tmp").symlink_to("..2")
        (volume / "..data_tmp").rename(volume / "..data")
        assert await consumer.receives("+b")


async def test_folders_below_are_read_too_even_new_ones(folder: Path) -> None:
    async with running(folder) as consumer:
        assert await consumer.receives(*FIRST)
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "c.yml").write_text(service("c"))
        (folder / ".hidden").mkdir()
        (folder / ".hidden" / "d.yaml").write_text(service("d"))
        (folder / "notes.txt").write_text("no manifest")
        (folder / "e.json").write_text('{"kind":"Node","apiVersion":"v1","metadata":{"name":"e"}}')
        assert await consumer.receives("+c", "+e")
        shutil.rmtree(folder / "deep")
        assert await consumer.receives("-c")


# --- one look at a time -----------------------------------------------------------------------


def test_files_that_did_not_change_are_not_read_again(folder: Path) -> None:
    much_later = (folder / "a.yaml").stat().st_mtime_ns + 10**12
    first = refresh(Library(), [str(folder)], much_later)
    second = refresh(first, [str(folder)], much_later)
    assert all(first.files[path] is second.files[path] for path in first.files)


def test_a_file_that_was_written_just_now_is_not_trusted_by_its_times(folder: Path) -> None:
    path = folder / "a.yaml"
    status = path.stat()
    first = refresh(Library(), [str(folder)], status.st_mtime_ns)
    path.write_text(service("z"))  # the same size
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    second = refresh(first, [str(folder)], status.st_mtime_ns)
    assert names(second) == ["z", "b"]


def names(library: Library) -> list[str]:
    return [
        placed.object.metadata.name for file in library.files.values() for placed in file.objects
    ]


def test_a_file_that_cannot_be_read_any_more_stays_what_it_was(folder: Path) -> None:
    first = refresh(Library(), [str(folder)], 0)
    (folder / "a.yaml").unlink()
    (folder / "a.yaml").symlink_to("/proc/self/mem")  # even root cannot read its first byte
    second = refresh(first, [str(folder)], 0)
    third = refresh(second, [str(folder)], 0)
    assert names(third) == ["a", "b"]
    problems = second.files[str(folder / "a.yaml")].problems
    assert [p.reason for p in problems] == ["the file cannot be read: Input/output error"]
    assert problems == third.files[str(folder / "a.yaml")].problems


def test_what_is_below_a_folder_that_is_out_of_reach_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "c.yaml").write_text(service("c"))
    first = refresh(Library(), [str(folder)], 0)
    (folder / "b.yaml").unlink()
    shutil.rmtree(folder / "sub")
    (folder / "sub").mkdir()
    scandir = os.scandir

    def refuse_sub(path: str) -> "os._ScandirIterator[str]":
        if path.endswith("sub"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("kubeproxy.cluster.manifests.files.os.scandir", refuse_sub)
    second = refresh(first, [str(folder)], 0)
    assert names(second) == ["a", "c"]
    assert second.unreachable == {str(folder / "sub"): "Permission denied"}


def test_a_link_that_became_a_circle_stays_what_it_was(folder: Path) -> None:
    first = refresh(Library(), [str(folder)], 0)
    (folder / "a.yaml").unlink()
    (folder / "a.yaml").symlink_to("a.yaml")
    second = refresh(first, [str(folder)], 0)
    assert names(second) == ["a", "b"]
    assert list(second.unreachable) == [str(folder / "a.yaml")]


def test_a_file_that_is_not_text_is_reported_with_its_line(folder: Path) -> None:
    (folder / "a.yaml").write_bytes(b"kind: A\nx: \xff\n")
    problems = load([str(folder)]).problems
    assert [str(problem) for problem in problems] == [
        f"{folder / 'a.yaml'}:2:4: the file is not UTF-8 text"
    ]


def test_loading_once_gives_documents_objects_problems_and_duplicates(folder: Path) -> None:
    (folder / "b.yaml").write_text(service("a"))
    (folder / "pod.yaml").write_text("kind: Pod\napiVersion: v1\nmetadata: {name: p}\n")
    (folder / "z.yaml").write_text("kind: [\n")
    loaded = load([str(folder)])
    assert [document.kind for document in loaded.documents] == ["Service", "Service", "Pod"]
    assert [key.name for _, key in loaded.objects] == ["a"]
    assert [problem.file for problem in loaded.problems] == [str(folder / "z.yaml")]
    assert [duplicate.used for duplicate in loaded.duplicates] == [f"{folder / 'b.yaml'}:1"]


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param([], id="no-path"),
        pytest.param(["nowhere"], id="a-path-that-is-not-there"),
    ],
)
def test_loading_needs_paths_that_exist(tmp_path: Path, paths: list[str]) -> None:
    with pytest.raises(OperatorError):
        load([str(tmp_path / path) for path in paths])


def test_links_in_circles_and_to_nothing_do_no_harm(folder: Path) -> None:
    (folder / "self").symlink_to(".")
    (folder / "nothing.yaml").symlink_to("nowhere")
    (folder / "pipe.yaml").unlink(missing_ok=True)
    os.mkfifo(folder / "pipe.yaml")
    assert [key.name for _, key in load([str(folder)]).objects] == ["a", "b"]


def test_folders_that_link_to_each_other_are_each_read_once_a_way(folder: Path) -> None:
    for name, other in (("left", "right"), ("right", "left")):
        (folder / name).mkdir()
        (folder / name / "to").symlink_to(f"../{other}")
        (folder / name / "c.yaml").write_text(service("c"))
    found = sorted(path.removeprefix(f"{folder}/") for path in scan([str(folder)]).files)
    below = ["left/c.yaml", "left/to/c.yaml", "right/c.yaml", "right/to/c.yaml"]
    assert ["a.yaml", "b.yaml", *below] == found


async def test_what_is_skipped_is_named_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = "apiVersion: v1\nkind: Endpoints\nmetadata: {name: a, namespace: shop}\n"
    other = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
    (folder / "old.yaml").write_text(f"{old}---\n{other}")
    async with running(folder) as consumer:
        assert await consumer.receives(*FIRST)
        (folder / "old.yaml").write_text(f"{old}---\n{other}---\n{service('c')}")
        assert await consumer.receives("+c")
    logged = capsys.readouterr().err
    assert logged.count('"Object of a manifest is skipped" kind="Endpoints" object="shop/a"') == 1
    assert logged.count(f'file="{folder}/old.yaml" kinds=["Deployment"]') == 1
