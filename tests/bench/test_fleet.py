"""The parts of bench.fleet that need no server."""

import msgspec
from bench.clusters import service_document, slice_document
from bench.fleet import Figures, Sockets, parse_sockets, table, written

SS = """\
ESTAB 0 0 127.0.0.1:40 127.0.0.1:26443 users:(("python",pid=7,fd=6)) cubic bytes_received:1200 x
ESTAB 0 0 127.0.0.1:42 127.0.0.1:26443 users:(("python",pid=7,fd=8)) cubic rcv_space:1
ESTAB 0 0 127.0.0.1:44 127.0.0.1:26443 users:(("other",pid=77,fd=6)) bytes_received:5
ESTAB 0 0 127.0.0.1:46 127.0.0.1:26443
"""


def test_the_sockets_of_the_clients_are_counted() -> None:
    assert Sockets(2, 1200) == parse_sockets(SS, {7})
    assert Sockets(1, 5) == parse_sockets(SS, {77})


def test_objects_are_written_without_what_the_server_fills_in() -> None:
    service = msgspec.json.decode(written(service_document(1)))
    assert "clusterIP" not in service["spec"]
    assert service["metadata"] == {
        "name": "service-1",
        "namespace": "default",
        "labels": {"app": "service-1"},
    }
    assert "uid" not in msgspec.json.decode(written(slice_document(1, 0, [1])))["metadata"]


def test_the_table_has_medians() -> None:
    runs = [Figures("a", 50, seconds, 1, 2, 1, 3, 4, 5, 6, 0) for seconds in (1.0, 9.0, 2.0)]
    assert table(runs).splitlines()[2] == "| a | 50 | 2.00 | 1.00 | 2.00 | 1 | 3.0 | 4 | 5 | 6 |"
