import pytest
from bench.figures import PATH_METRICS, Metric, Run, medians, quantile, ratio
from bench.machine import parse_idle
from bench.processes import parse_cpu, parse_kilobytes
from bench.programmed import marks
from bench.proxies import environment
from bench.results import Column, columns, problems, sizes
from bench.tables import markdown, plain, rows


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        pytest.param([3, 1, 2], 50, 2, id="the-middle"),
        pytest.param([1, 2, 3, 4], 50, 2, id="the-lower-middle-of-an-even-number"),
        pytest.param(range(1, 201), 99, 198, id="two-of-two-hundred-are-above"),
        pytest.param([5], 99, 5, id="one-value-is-every-quantile"),
    ],
)
def test_quantiles_are_values_that_were_measured(
    values: list[float], percent: int, expected: float
) -> None:
    assert expected == quantile(values, percent)


def runs() -> list[Run]:
    return [
        Run("ours", "1 x 1", 1, 0.0, {"cold": 1.0, "peak": 10}),
        Run("peer", "1 x 1", 1, 0.0, {"cold": 12.0}),
        Run("ours", "1 x 1", 2, 0.0, {"cold": 3.0}),
        Run("ours", "2 x 2", 1, 0.0, {"cold": 9.0}),
    ]


def test_runs_of_one_proxy_and_size_become_one_column_of_medians() -> None:
    assert sizes(runs()) == ["1 x 1", "2 x 2"]
    assert [
        Column("ours", "1 x 1", 2, {"cold": 2.0, "peak": 10}),
        Column("peer", "1 x 1", 1, {"cold": 12.0}),
    ] == columns(runs(), "1 x 1")
    assert medians([]) == {}


def test_a_run_that_came_to_no_end_is_no_column_but_a_line() -> None:
    late = Run("peer", "2 x 2", 1, problem="peer did not program it in 900 s")
    assert columns([*runs(), late], "2 x 2") == columns(runs(), "2 x 2")
    assert problems([*runs(), late], "2 x 2") == [
        "peer, run 1: no figures, peer did not program it in 900 s"
    ]
    assert problems([*runs(), late], "1 x 1") == []


@pytest.mark.parametrize(
    ("ours", "peers", "expected"),
    [
        pytest.param(2.0, 8.0, 4.0, id="the-peer-needs-four-times-ours"),
        pytest.param(0.0, 8.0, None, id="nothing-has-no-ratio"),
        pytest.param(2.0, 0.0, None, id="and-nothing-else-has-one-to-it"),
    ],
)
def test_ratios(ours: float, peers: float, expected: float | None) -> None:
    assert expected == ratio(ours, peers)


def test_tables_show_two_columns_with_their_ratio() -> None:
    metrics = (Metric("cold", "start", "s", 2), Metric("peak", "memory", "MB", 0))
    table = rows(metrics, columns(runs(), "1 x 1"))
    assert table == [
        ("", "ours (2 runs)", "peer (1 run)", "ratio"),
        ("start", "2.00 s", "12.00 s", "x 6.0"),
        ("memory", "10 MB", "-", ""),
    ]
    assert plain(table).splitlines() == [
        "        ours (2 runs)  peer (1 run)  ratio",
        "start          2.00 s       12.00 s  x 6.0",
        "memory          10 MB             -",
    ]
    assert markdown(table).splitlines()[:3] == [
        "| | ours (2 runs) | peer (1 run) | ratio |",
        "| --- | ---: | ---: | ---: |",
        "| start | 2.00 s | 12.00 s | x 6.0 |",
    ]


def test_one_column_has_no_ratio_and_unknown_figures_no_row() -> None:
    metrics = (Metric("cold", "start", "s"), Metric("other", "never measured", ""))
    assert rows(metrics, columns(runs(), "2 x 2")) == [("", "ours (1 run)"), ("start", "9.0 s")]


def test_the_data_path_has_no_ratio_because_more_of_some_is_better() -> None:
    ways = [Column(name, "10 services", 1, {"rate": 5.0}) for name in ("no proxy", "ours")]
    assert rows(PATH_METRICS, ways) == [
        ("", "no proxy (1 run)", "ours (1 run)"),
        ("new connections a second, two clients", "5 1/s", "5 1/s"),
    ]


def test_cpu_time_counts_children_that_were_waited_for() -> None:
    before_times = "7 (a (strange) name) S 1 7 7 0 -1 4194304 100 200 0 0"
    assert parse_cpu(f"{before_times} 100 200 300 400 20 0 1 0 5 6 7") == 10.0


def test_idle_time_is_that_of_all_processors() -> None:
    assert parse_idle("cpu  10 20 30 4200 50 0 0 0 0 0\ncpu0 1 2 3 4 5 6\n") == 42.0


def test_memory_is_read_in_megabytes() -> None:
    assert parse_kilobytes("Name:\tx\nVmHWM:\t    4096 kB\nVmRSS:\t    2048 kB\n", "VmRSS") == 2.0
    with pytest.raises(ValueError, match="VmSwap"):
        parse_kilobytes("Name:\tx\n", "VmSwap")


def test_a_proxy_does_not_get_what_changes_how_python_runs() -> None:
    ours = {"PATH": "/bin", "PYTHONPATH": "tests", "PYTHONDONTWRITEBYTECODE": "1"}
    assert environment(ours) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(b"..\x0a\x80\x00\x05\x1f\x90..", True, id="as-the-value-of-a-map"),
        pytest.param(b"..\x08\0\x01\0\x0a\x80\x00\x05..", True, id="alone-in-a-rule"),
        pytest.param(b"endpoint-X-a/b/tcp/c__10.128.0.5/8080\0", True, id="in-a-chain-s-name"),
        pytest.param(b"..\x0a\x80\x00\x05\x00\x50..", False, id="not-at-another-port"),
    ],
)
def test_an_endpoint_is_recognised_in_what_the_kernel_says(known: bytes, expected: bool) -> None:
    assert expected == marks(known, 5)
