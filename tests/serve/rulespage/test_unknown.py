"""Who asks for a Service that is not there learns which are."""

from kubeproxy.serve.rulespage.unknown import unknown

LAST = "/rules lists all; a Service that is headless, or of type ExternalName, has none\n"


def test_the_names_that_are_near() -> None:
    services = {("shop", "web"), ("shop", "cart"), ("mall", "till")}
    expected = (
        "no rules for shop/till\na service of this name is in: mall\n"
        f"namespace shop has: cart, web\n{LAST}"
    )
    assert expected == unknown("rules", ("shop", "till"), services, "/rules")


def test_of_many_names_the_first_are_told() -> None:
    services = {("shop", f"s{number:02d}") for number in range(25)}
    told = unknown("rules", ("shop", "web"), services, "/rules")
    assert "s18, s19 and 5 more\n" in told


def test_names_do_nothing_to_a_terminal() -> None:
    told = unknown("rules", ("shop", "\x1b[2J"), {("shop", "web\x1b[31m\nfake")}, "/rules")
    expected = f"no rules for shop/\ufffd[2J\nnamespace shop has: web\ufffd[31m\ufffdfake\n{LAST}"
    assert expected == told
