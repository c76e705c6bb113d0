import pytest

from fakes.apierrors import ApiError
from fakes.apioptions import Match, Token, encode_token, parse_options
from fakes.apiresources import RESOURCE_OF_KIND, Target, target_of

SERVICES = Target(RESOURCE_OF_KIND["Service"])
STREAM = {"watch": "true", "sendInitialEvents": "true"}
NOT_OLDER = {"resourceVersionMatch": "NotOlderThan"}
TOKEN = encode_token(Token(1005, ("default", "a")))


def test_a_streaming_watch_is_understood() -> None:
    query = STREAM | NOT_OLDER | {"timeoutSeconds": "339", "allowWatchBookmarks": "true"}
    options = parse_options(SERVICES, query)
    assert (
        options.watch,
        options.initial_events,
        options.bookmarks,
        options.timeout,
        options.version,
        options.match,
    ) == (True, True, True, 339.0, None, Match.NOT_OLDER_THAN)


def test_a_next_page_is_understood() -> None:
    options = parse_options(SERVICES, {"limit": "500", "continue": TOKEN})
    assert (500, Token(1005, ("default", "a"))) == (options.limit, options.token)


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        pytest.param(
            STREAM, 422, "requires setting resourceVersionMatch", id="stream-without-match"
        ),
        pytest.param(
            {"watch": "true", **NOT_OLDER}, 422, "is forbidden for watch", id="match-on-a-watch"
        ),
        pytest.param(
            {"sendInitialEvents": "true"}, 422, "is forbidden for list", id="stream-of-a-list"
        ),
        pytest.param(NOT_OLDER, 422, "unless resourceVersion", id="match-without-a-version"),
        pytest.param(
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            422,
            'for resourceVersion "0"',
            id="exactly-any-version",
        ),
        pytest.param(
            {"resourceVersionMatch": "Newest"}, 422, "Unsupported value", id="unknown-match"
        ),
        pytest.param(
            {"resourceVersion": "abc"}, 400, "invalid resource version", id="version-is-no-number"
        ),
        pytest.param({"continue": "%%%"}, 400, "continue key", id="broken-token"),
        pytest.param(
            {"continue": TOKEN, "resourceVersion": "7"},
            400,
            "using continue",
            id="token-and-version",
        ),
        pytest.param({"limit": "many"}, 400, "limit", id="limit-is-no-number"),
        pytest.param({"fieldSelector": "a=b"}, 400, "not supported", id="unknown-field"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    query: dict[str, str], code: int, message: str
) -> None:
    with pytest.raises(ApiError, match=message) as caught:
        parse_options(SERVICES, query)
    assert code == caught.value.code


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/api/v1/services", ("Service", None, None, None), id="all-namespaces"),
        pytest.param(
            "/api/v1/namespaces/a/services", ("Service", "a", None, None), id="one-namespace"
        ),
        pytest.param(
            "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/b",
            ("EndpointSlice", "a", "b", None),
            id="one-object-of-a-group",
        ),
        pytest.param("/api/v1/nodes/n/status", ("Node", None, "n", "status"), id="a-status"),
    ],
)
def test_paths_name_what_is_served(
    path: str, expected: tuple[str, str | None, str | None, str | None]
) -> None:
    target = target_of(path)
    assert target is not None
    assert expected == (
        target.resource.kind,
        target.namespace,
        target.name,
        target.subresource,
    )


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/api/v1/secrets", id="a-resource-that-is-not-served"),
        pytest.param("/api/v1/services/a", id="a-namespaced-object-without-its-namespace"),
        pytest.param("/api/v1/namespaces/a/nodes", id="a-namespace-for-what-has-none"),
        pytest.param("/api/v1/nodes/a/scale", id="another-subresource"),
        pytest.param("/api/v1/endpointslices", id="the-wrong-group"),
        pytest.param("/api/v1/nodes/", id="an-empty-name"),
    ],
)
def test_other_paths_name_nothing(path: str) -> None:
    assert target_of(path) is None
