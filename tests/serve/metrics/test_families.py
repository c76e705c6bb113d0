import pytest

from kubeproxy.serve.metrics.families import Counter, Gauge, Histogram, reading
from serve.metrics.exposed import exposed, shown


def test_what_has_no_labels_is_there_from_the_start() -> None:
    assert shown(Counter("c_total", "")) == {"c_total": "0"}
    assert shown(Gauge("g", "")) == {"g": "0"}
    assert shown(Histogram("h", "", (1,))) == {
        'h_bucket{le="1"}': "0",
        'h_bucket{le="+Inf"}': "0",
        "h_sum": "0",
        "h_count": "0",
    }


def test_what_has_labels_is_there_once_it_has_a_value() -> None:
    assert shown(Counter("c_total", "", ("a",)), Histogram("h", "", (1,), ("a",))) == {}


def test_series_are_sorted() -> None:
    counter = Counter("c_total", "", ("a",))
    counter.add("y")
    counter.add("x", by=2)
    counter.add("y")
    assert list(shown(counter).items()) == [('c_total{a="x"}', "2"), ('c_total{a="y"}', "2")]


def test_a_gauge_is_what_it_was_last_set_to() -> None:
    gauge = Gauge("g", "", ("a",))
    gauge.set(3, "x")
    gauge.set(1.5, "x")
    assert shown(gauge) == {'g{a="x"}': "1.5"}


def test_a_value_on_a_bound_is_below_it() -> None:
    histogram = Histogram("h", "", (0, 0.25, 1), ("a",))
    for value in (0, 0.25, 0.3, 7):
        histogram.observe(value, "x")
    assert shown(histogram) == {
        'h_bucket{a="x",le="0"}': "1",
        'h_bucket{a="x",le="0.25"}': "2",
        'h_bucket{a="x",le="1"}': "3",
        'h_bucket{a="x",le="+Inf"}': "4",
        'h_sum{a="x"}': "7.55",
        'h_count{a="x"}': "4",
    }


async def test_the_text_of_a_reading() -> None:
    values = [(("1", "2"), 3.0)]
    family = reading("r", "Read at each scrape", lambda: values, "b", "a")
    expected = '# HELP r Read at each scrape\n# TYPE r gauge\nr{a="2",b="1"} 3\n'
    assert expected == await exposed(family)
    values.clear()
    assert await exposed(family) == ""


@pytest.mark.parametrize("only", [("c_total",), ("c_total", "unknown")])
async def test_only_what_was_asked_for(only: tuple[str, ...]) -> None:
    text = await exposed(Gauge("g", "x"), Counter("c_total", "y"), only=only)
    assert text == "# HELP c_total y\n# TYPE c_total counter\nc_total 0\n"
