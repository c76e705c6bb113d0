import pytest

from kubeproxy.config.errors import UsageError
from kubeproxy.config.flagset import (
    HELP,
    Flag,
    Parsed,
    parse,
    refuse_positionals,
    rendered,
    usage,
)
from kubeproxy.config.kinds import (
    BOOL,
    DURATION,
    FLOAT32,
    INT32,
    IP,
    IPPORT,
    LEVEL,
    STRING,
    STRINGS,
    SWITCHES,
    VMODULE,
)
from kubeproxy.config.types import VModuleItem
from kubeproxy.config.values import Duration, of_seconds

FLAGS = (
    Flag("name", STRING, "", "What it is called.", group="First"),
    Flag("some-count", INT32, 3, "How many.\nMore than one.", group="Second"),
    Flag("quiet", BOOL, False, "Say less.", group="Second", shorthand="q"),
    Flag("loud", BOOL, True, "Say more.", group="First"),
    Flag("level", LEVEL, 0, "How much.", group="Second", shorthand="v"),
    Flag("wait", DURATION, Duration(), "How long.", group="First"),
    Flag("rate", FLOAT32, 5.0, "How fast.", group="First"),
    Flag("items", STRINGS, (), "Which.", group="First"),
    Flag("gates", SWITCHES, {}, "On or off.", group="First"),
    Flag("vmodule", VMODULE, (), "Per file.", group="First"),
    Flag("address", IP, "0.0.0.0", "Where.", group="First"),
    Flag("endpoint", IPPORT, "", "Where exactly.", group="First"),
    Flag("old-port", INT32, 1, "Of old.", group="First", deprecated="use --endpoint."),
    Flag("elsewhere", STRING, "", "Not here.", refused="it exists elsewhere only"),
    HELP,
)


def values_of(*arguments: str) -> dict[str, object]:
    parsed = parse(FLAGS, arguments)
    return {name: parsed.values[name] for name in parsed.given}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--name", "x"], {"name": "x"}, id="a-value-after-a-blank"),
        pytest.param(["--name=x=y"], {"name": "x=y"}, id="a-value-after-an-equals-sign"),
        pytest.param(["--name="], {"name": ""}, id="an-empty-value"),
        pytest.param(["--name", "-q"], {"name": "-q"}, id="a-value-may-look-like-a-flag"),
        pytest.param(["--some_count", "7"], {"some-count": 7}, id="underscores-are-dashes"),
        pytest.param(["--quiet"], {"quiet": True}, id="a-bare-boolean"),
        pytest.param(["--loud=false"], {"loud": False}, id="a-boolean-with-a-value"),
        pytest.param(["-v2"], {"level": 2}, id="a-shorthand-with-its-value"),
        pytest.param(["-v", "2"], {"level": 2}, id="a-shorthand-and-a-blank"),
        pytest.param(["-v=2"], {"level": 2}, id="a-shorthand-and-an-equals-sign"),
        pytest.param(["-qv2"], {"quiet": True, "level": 2}, id="shorthands-together"),
        pytest.param(["-q=false"], {"quiet": False}, id="a-boolean-shorthand-with-a-value"),
        pytest.param(["--name=a", "--name=b"], {"name": "b"}, id="the-last-one-counts"),
        pytest.param(
            ["--items=a,b", "--items", "c"], {"items": ("a", "b", "c")}, id="lists-add-up"
        ),
        pytest.param(['--items="a,b",c'], {"items": ("a,b", "c")}, id="items-may-be-quoted"),
        pytest.param(["--items="], {"items": ()}, id="an-empty-list"),
        pytest.param(
            ["--gates=A=true, B=F", "--gates=A=0,"],
            {"gates": {"A": False, "B": False}},
            id="maps-add-up-and-the-last-entry-counts",
        ),
        pytest.param(
            ["--vmodule=a*=1,", "--vmodule=b=2"],
            {"vmodule": (VModuleItem("a*", 1), VModuleItem("b", 2))},
            id="patterns-add-up",
        ),
        pytest.param(["--wait=1m"], {"wait": of_seconds(60)}, id="durations"),
        pytest.param(["--rate=-1"], {"rate": -1.0}, id="floats"),
        pytest.param(["--address="], {"address": ""}, id="no-address"),
        pytest.param(["--endpoint=::1"], {"endpoint": "::1"}, id="an-address-without-port"),
        pytest.param(["--endpoint="], {"endpoint": ""}, id="no-endpoint"),
        pytest.param(
            ["--endpoint=10.0.0.1:0"], {"endpoint": "10.0.0.1:0"}, id="an-address-with-a-port"
        ),
    ],
)
def test_flags_are_read(arguments: list[str], expected: dict[str, object]) -> None:
    assert expected == values_of(*arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--nope"], "unknown flag: --nope", id="an-unknown-flag"),
        pytest.param(
            ["--somecount=1"],
            "unknown flag: --somecount (did you mean --some-count?)",
            id="a-misspelled-flag",
        ),
        pytest.param(
            ["--elsewher"], "unknown flag: --elsewher", id="refused-flags-are-not-proposed"
        ),
        pytest.param(
            ["--old-pot"], "unknown flag: --old-pot", id="deprecated-flags-are-not-proposed"
        ),
        pytest.param(
            ["--elsewhere"],
            "unknown flag: --elsewhere: it exists elsewhere only",
            id="a-refused-flag-says-why",
        ),
        pytest.param(["--=x"], "bad flag syntax: --=x", id="a-flag-without-a-name"),
        pytest.param(["---x"], "bad flag syntax: ---x", id="three-dashes"),
        pytest.param(["--name"], "flag needs an argument: --name", id="no-value"),
        pytest.param(["-v"], "flag needs an argument: 'v' in -v", id="no-value-for-a-shorthand"),
        pytest.param(["-x"], "unknown shorthand flag: 'x' in -x", id="an-unknown-shorthand"),
        pytest.param(["-qx1"], "unknown shorthand flag: 'x' in -x1", id="among-shorthands"),
        pytest.param(
            ["--some-count", "abc"],
            'invalid argument "abc" for "--some-count" flag: strconv.ParseInt: parsing "abc":'
            " invalid syntax",
            id="no-number",
        ),
        pytest.param(
            ["-v=x"],
            'invalid argument "x" for "-v, --level" flag: strconv.ParseUint: parsing "x":'
            " invalid syntax",
            id="no-level",
        ),
        pytest.param(
            ["--quiet=x"],
            'invalid argument "x" for "-q, --quiet" flag: strconv.ParseBool: parsing "x":'
            " invalid syntax",
            id="no-boolean",
        ),
        pytest.param(
            ["--wait", "5"],
            'invalid argument "5" for "--wait" flag: time: missing unit in duration "5"',
            id="no-duration",
        ),
        pytest.param(
            ["--address", "foo"],
            'invalid argument "foo" for "--address" flag: "foo" is not a valid IP address',
            id="no-address",
        ),
        pytest.param(
            ["--endpoint", "foo:1"],
            'invalid argument "foo:1" for "--endpoint" flag: "foo" is not a valid IP address',
            id="no-address-before-the-port",
        ),
        pytest.param(
            ["--endpoint", "foo"],
            'invalid argument "foo" for "--endpoint" flag: "foo" is not in a valid format'
            " (ip or ip:port): address foo: missing port in address",
            id="neither-address-nor-port",
        ),
        pytest.param(
            ["--endpoint", "10.0.0.1:http"],
            'invalid argument "10.0.0.1:http" for "--endpoint" flag: "http" is not a valid number',
            id="no-port",
        ),
        pytest.param(
            ["--gates", "foo"],
            'invalid argument "foo" for "--gates" flag: malformed pair, expect string=bool',
            id="no-pair",
        ),
        pytest.param(
            ["--gates", "foo=x"],
            'invalid argument "foo=x" for "--gates" flag: invalid value of foo: x, err:'
            ' strconv.ParseBool: parsing "x": invalid syntax',
            id="no-boolean-in-a-pair",
        ),
        pytest.param(
            ["--vmodule", "x"],
            'invalid argument "x" for "--vmodule" flag: "x" does not have the pattern=N format',
            id="no-pattern",
        ),
        pytest.param(
            ["--vmodule", "x=y"],
            'invalid argument "x=y" for "--vmodule" flag: parsing verbosity in "x=y":'
            ' strconv.ParseUint: parsing "y": invalid syntax',
            id="no-level-in-a-pattern",
        ),
    ],
)
def test_command_lines_that_cannot_be_understood(arguments: list[str], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(FLAGS, arguments)
    assert expected == str(caught.value)
    assert caught.value.show_usage


def test_flags_that_are_not_given_have_their_defaults() -> None:
    parsed = parse(FLAGS, ["--name=x"])
    assert frozenset({"name"}) == parsed.given
    assert parsed.value("some-count", int) == 3


def test_a_value_of_another_type_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="--name is str, not int"):
        parse(FLAGS, []).value("name", int)


def test_arguments_may_stand_between_flags() -> None:
    parsed = parse(FLAGS, ["a", "--quiet", "-", "", "--name", "x", "b", "--", "--loud", "c"])
    assert parsed.positionals == ("a", "-", "", "b", "--loud", "c")


def test_arguments_can_be_refused() -> None:
    with pytest.raises(UsageError) as caught:
        refuse_positionals("kube-proxy", parse(FLAGS, ["foo", "", "bar"]))
    expected = '"kube-proxy" does not take any arguments, got ["foo" "" "bar"]'
    assert expected == str(caught.value)
    assert not caught.value.show_usage


def test_empty_arguments_are_never_refused() -> None:
    refuse_positionals("kube-proxy", parse(FLAGS, ["", ""]))


def test_deprecated_flags_work_and_are_mentioned() -> None:
    parsed = parse(FLAGS, ["--old-port=5"])
    assert parsed.value("old-port", int) == 5
    assert parsed.deprecations == ("Flag --old-port has been deprecated, use --endpoint.",)


def test_values_are_shown_in_the_order_of_names() -> None:
    arguments = ["--items=a,b", "--gates=B=true,A=false", "--vmodule=a=1,b=2", "--wait=90s"]
    shown = rendered(FLAGS, parse(FLAGS, arguments))
    assert sorted(shown) == list(shown)
    assert shown["items"] == "[a,b]"
    assert shown["gates"] == "A=false,B=true"
    assert shown["vmodule"] == "a=1,b=2"
    assert shown["wait"] == "1m30s"
    assert shown["rate"] == "5"
    assert shown["loud"] == "true"
    assert "elsewhere" not in shown


def test_patterns_of_nothing_are_nothing() -> None:
    assert VMODULE.render(None) == ""


USAGE = """\
Usage:
  tool do [flags]

First flags:
      --name string
          What it is called.
      --rate float32 (default 5)
          How fast, in requests a
          second.

Flags:
  -q, --quiet
          Say less.
      --count int32 (default 3)
          How many.
          More than one.
"""


def test_the_usage_text_has_groups_and_defaults() -> None:
    flags = (
        Flag("name", STRING, "", "What it is called.", group="First"),
        Flag("quiet", BOOL, False, "Say less.", shorthand="q"),
        Flag("rate", FLOAT32, 5.0, "How fast, in requests a second.", group="First"),
        Flag("count", INT32, 3, "How many.\nMore than one."),
        Flag("old", STRING, "", "Not shown.", deprecated="use another"),
        Flag("refused", STRING, "", "Not shown.", refused="no"),
    )
    assert usage("tool do", flags, width=34) == USAGE


def test_a_parsed_line_is_a_value() -> None:
    assert parse(FLAGS, ["--name=x"]) == parse(FLAGS, ["--name", "x"])
    assert isinstance(parse(FLAGS, []), Parsed)
