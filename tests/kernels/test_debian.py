"""Which packages are taken for a kernel, from what apt prints."""

import pytest

from kernels.debian import (
    META,
    NotAvailable,
    Package,
    Stanza,
    dependencies,
    parts_of,
    sources,
    stanza,
    suites_of,
    without_addresses,
)

TARGETS = """\
http://mirror.test/debian/|bookworm
http://mirror.test/debian/|bookworm-updates
http://other.test/security/|bookworm-security
"""
OLD = {
    META: "Version: 6.1.192-2\nDepends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)\n",
    "linux-image-6.1.0-56-amd64": "Version: 6.1.192-2\nDepends: kmod, linux-base (>= 4.3~)\n",
}
NEW = {
    META: "Version: 7.2.12-1\nDepends: linux-base-amd64, linux-image-7.2.12-amd64 (= 7.2.12-1)\n",
    "linux-image-7.2.12-amd64": (
        "Version: 7.2.12-1\nDepends: dracut | initramfs-tools (>= 0.120), "
        "linux-base-7.2.12-amd64, linux-binary-7.2.12-amd64, linux-modules-7.2.12-amd64\n"
    ),
    "linux-binary-7.2.12-amd64": "Version: 7.2.12-1\nDepends: linux-base-7.2.12-amd64\n",
    "linux-modules-7.2.12-amd64": "Version: 7.2.12-1\nDepends: kmod\n",
}


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        pytest.param(OLD, [("linux-image-6.1.0-56-amd64", "6.1.192-2")], id="one-package"),
        pytest.param(
            NEW,
            [
                ("linux-image-7.2.12-amd64", "7.2.12-1"),
                ("linux-binary-7.2.12-amd64", "7.2.12-1"),
                ("linux-modules-7.2.12-amd64", "7.2.12-1"),
            ],
            id="since-6.19-the-kernel-and-its-modules-are-apart",
        ),
    ],
)
def test_the_parts_of_the_newest_kernel(
    listing: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    found = parts_of(lambda name: stanza(listing[name]))
    assert [Package(*each) for each in expected] == found


@pytest.mark.parametrize(
    ("listing", "message"),
    [
        pytest.param({}, "apt knows no package linux-image-amd64", id="nothing-in-the-suite"),
        pytest.param({META: OLD[META]}, "no package linux-image-6.1.0-56", id="half-a-mirror"),
        pytest.param({META: "Version: 1\n"}, "names no kernel", id="an-empty-metapackage"),
    ],
)
def test_a_kernel_that_cannot_be_had_is_named(listing: dict[str, str], message: str) -> None:
    def show(name: str) -> Stanza:
        return stanza(listing.get(name, ""))

    with pytest.raises(NotAvailable, match=message):
        parts_of(show)


def test_the_first_stanza_counts_and_continued_lines_do_not() -> None:
    text = "Package: a\nVersion: 2\nDescription: one\n two: three\n\nVersion: 1\n"
    assert stanza(text) == {"Package": "a", "Version": "2", "Description": "one"}


def test_of_alternatives_the_first_is_a_dependency() -> None:
    assert dependencies({"Depends": "a | b (>= 1), c (= 2),d"}) == ["a", "c", "d"]
    assert dependencies({}) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bullseye", ("bullseye", "bullseye-security")),
        ("trixie-backports", ("trixie-backports",)),
        ("sid", ("sid",)),
    ],
)
def test_released_kernels_are_looked_for_among_security_updates_too(
    name: str, expected: tuple[str, ...]
) -> None:
    assert expected == suites_of(name)


@pytest.mark.parametrize("name", ["", "../x", "a b", "Sid"])
def test_what_is_no_suite_is_rejected(name: str) -> None:
    with pytest.raises(NotAvailable, match="no name of a Debian suite"):
        suites_of(name)


def test_each_suite_comes_from_the_machines_own_mirrors() -> None:
    assert sources(TARGETS, ("trixie", "trixie-security")) == (
        "deb http://mirror.test/debian/ trixie main\n"
        "deb http://other.test/security/ trixie-security main\n"
    )


def test_without_a_security_mirror_the_ordinary_one_remains() -> None:
    ordinary = TARGETS.splitlines()[0]
    assert sources(ordinary, ("trixie", "trixie-security"), "/k.gpg") == (
        "deb [signed-by=/k.gpg] http://mirror.test/debian/ trixie main\n"
    )


def test_a_machine_without_a_mirror_says_so() -> None:
    with pytest.raises(NotAvailable, match="no Debian mirror"):
        sources("", ("trixie",))


def test_the_mirrors_address_is_not_published() -> None:
    said = "E: The repository 'http://mirror.test/debian sad Release' has no Release file."
    expected = "E: The repository 'the mirror sad Release' has no Release file."
    assert expected == without_addresses(said)
