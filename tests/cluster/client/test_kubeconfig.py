"""From kubeconfigs, URLs and the environment of a pod to Access."""

import base64
from pathlib import Path

import pytest

from kubeproxy.base.errors import OperatorError
from kubeproxy.cluster.client.access import (
    Access,
    ClusterEntry,
    EnvVar,
    Exec,
    Extension,
    UserEntry,
)
from kubeproxy.cluster.client.kubeconfig import (
    choose_access,
    find_access,
    in_cluster,
    load_kubeconfig,
)
from kubeproxy.cluster.client.kubeconfigfile import KubeconfigError, parse_kubeconfig

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
PEM = "-----BEGIN CERTIFICATE-----"
DATA = base64.b64encode(PEM.encode()).decode()


def readable(path: str) -> str | None:
    return f"open {path}: no such file or directory" if "missing" in path else None


def kubeconfig(cluster: str = "server: https://api:6443", user: str = "{}") -> str:
    return f"""
apiVersion: v1
kind: Config
current-context: x
contexts: [{{name: x, context: {{cluster: c, user: u, namespace: unused}}}}]
clusters: [{{name: c, cluster: {{{cluster}}}}}]
users: [{{name: u, user: {user}}}]
"""


def access(
    cluster: str = "server: https://api:6443", user: str = "{}", master: str = ""
) -> Access:
    document = parse_kubeconfig(kubeconfig(cluster, user), "/etc/k8s")
    return choose_access(document, master, readable)


# --- what is accepted -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(
            "server: https://api:6443", ClusterEntry("https://api:6443"), id="only-a-server"
        ),
        pytest.param(
            "server: 'https://api:6443/prefix/?q=1#f', unknown: {field: [1]}, proxy-url: null",
            ClusterEntry("https://api:6443/prefix"),
            id="path-kept-query-dropped-unknown-fields-and-nulls-ignored",
        ),
        pytest.param(
            "server: https://api, certificate-authority: pki/ca.crt, tls-server-name: name",
            ClusterEntry(
                "https://api",
                tls_server_name="name",
                certificate_authority="/etc/k8s/pki/ca.crt",
            ),
            id="a-relative-ca-file",
        ),
        pytest.param(
            f"server: https://api, certificate-authority-data: {DATA}",
            ClusterEntry("https://api", certificate_authority_data=PEM),
            id="ca-data",
        ),
        pytest.param(
            "server: https://api, insecure-skip-tls-verify: true, disable-compression: true,"
            " proxy-url: 'https://user:pw@proxy:3128'",
            ClusterEntry(
                "https://api",
                insecure_skip_tls_verify=True,
                proxy_url="https://user:pw@proxy:3128",
                disable_compression=True,
            ),
            id="insecure-through-a-proxy-without-compression",
        ),
        pytest.param("server: http://api:8080", ClusterEntry("http://api:8080"), id="plain-http"),
        pytest.param(
            "server: 'api:8080'", ClusterEntry("http://api:8080"), id="no-scheme-is-plain-http"
        ),
        pytest.param(
            "server: 'https://[fd00::1]:6443'",
            ClusterEntry("https://[fd00::1]:6443"),
            id="an-ipv6-server",
        ),
        pytest.param(
            "server: https://api, extensions: [{name: other, extension: 1}, {name: x,"
            " extension: {true: 1, 2: 2026-01-01, more: [1]}}]",
            ClusterEntry(
                "https://api",
                extensions=(
                    Extension("other", 1),
                    Extension("x", {"true": 1, "2": "2026-01-01", "more": [1]}),
                ),
            ),
            id="extensions-with-keys-that-are-strings-as-in-json",
        ),
    ],
)
def test_clusters(written: str, expected: ClusterEntry) -> None:
    found = access(written)
    assert expected == found.cluster
    assert expected.server == found.server
    assert UserEntry() == found.user
    assert found.uses_tls is expected.server.startswith("https")


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param("{token: t}", UserEntry(token="t"), id="a-token"),
        pytest.param(
            "{token: t, tokenFile: tok}",
            UserEntry(token="t", token_file="/etc/k8s/tok"),
            id="a-token-file-beside-a-token",
        ),
        pytest.param(
            "{username: me, password: p}", UserEntry(username="me", password="p"), id="basic"
        ),
        pytest.param(
            "{client-certificate: c.crt, client-key: /abs/c.key}",
            UserEntry(client_certificate="/etc/k8s/c.crt", client_key="/abs/c.key"),
            id="certificate-files",
        ),
        pytest.param(
            f"{{client-certificate-data: {DATA}, client-key-data: {DATA}}}",
            UserEntry(client_certificate_data=PEM, client_key_data=PEM),
            id="certificate-data",
        ),
        pytest.param(
            f"{{exec: {{command: bin/plugin, args: [a], apiVersion: {V1},"
            " interactiveMode: Never, env: [{name: K, value: V}], provideClusterInfo: true,"
            " installHint: get it}}",
            UserEntry(
                exec=Exec(
                    command="/etc/k8s/bin/plugin",
                    api_version=V1,
                    interactive_mode="Never",
                    args=("a",),
                    env=(EnvVar("K", "V"),),
                    provide_cluster_info=True,
                    install_hint="get it",
                ),
            ),
            id="an-exec-plugin-by-relative-path",
        ),
        pytest.param(
            f"{{exec: {{command: plugin, apiVersion: {V1BETA1}}}}}",
            UserEntry(exec=Exec("plugin", V1BETA1)),
            id="an-old-exec-plugin-from-the-path",
        ),
        pytest.param(
            f"{{token: t, exec: {{command: p, apiVersion: {V1}, interactiveMode: Never}}}}",
            UserEntry(token="t"),
            id="a-token-switches-the-plugin-off",
        ),
        pytest.param(
            f"{{client-certificate-data: {DATA}, client-key-data: {DATA},"
            f" exec: {{command: p, apiVersion: {V1}, interactiveMode: Never}}}}",
            UserEntry(client_certificate_data=PEM, client_key_data=PEM),
            id="a-certificate-switches-the-plugin-off",
        ),
    ],
)
def test_users(user: str, expected: UserEntry) -> None:
    found = access(user=user)
    assert expected == found.user
    assert found.user_name == "u"


def test_over_plain_http_only_the_impersonation_counts() -> None:
    user = "{token: t, as: a, as-uid: '7', as-groups: [g, h], as-user-extra: {K: [v, w]}}"
    expected = UserEntry(
        as_user="a", as_uid="7", as_groups=("g", "h"), as_user_extra={"K": ("v", "w")}
    )
    assert expected == access("server: http://api", user).user


def test_json_is_accepted_with_tabs() -> None:
    text = (
        '{\t"current-context": "x",\n\t"contexts": [{"name": "x", "context": {"cluster": "c"}}],'
    )
    text += '\n\t"clusters": [{"name": "c", "cluster": {"server": "https://api"}}]}'
    found = choose_access(parse_kubeconfig(text, "/"), "", readable)
    expected = Access(server="https://api", cluster=ClusterEntry("https://api"))
    assert expected == found


def test_a_missing_user_is_anonymous() -> None:
    text = kubeconfig().replace("users:", "ignored:")
    found = choose_access(parse_kubeconfig(text, "/"), "", readable)
    assert UserEntry() == found.user
    assert found.identity == "anonymous"


def test_the_master_replaces_the_server_and_its_name_but_keeps_ca_and_user() -> None:
    found = access(
        "server: https://api, tls-server-name: name, certificate-authority: /ca",
        "{token: t}",
        master="https://other:1",
    )
    assert found.server == "https://other:1"
    assert ClusterEntry("https://other:1", certificate_authority="/ca") == found.cluster
    assert found.user.token == "t"


def test_the_master_alone_has_no_credentials() -> None:
    expected = Access(server="https://other", cluster=ClusterEntry("https://other"))
    assert expected == load_kubeconfig("", "https://other")


# --- what is refused --------------------------------------------------------------------------

INVALID = "invalid configuration: "
NO_CONFIGURATION = (
    "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER"
    " environment variable"
)


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        pytest.param("", NO_CONFIGURATION, id="an-empty-cluster"),
        pytest.param(
            "tls-server-name: name", f'{INVALID}no server found for cluster "c"', id="no-server"
        ),
        pytest.param(
            f"server: https://a, certificate-authority: /ca, certificate-authority-data: {DATA}",
            f"{INVALID}certificate-authority-data and certificate-authority are both specified"
            " for c. certificate-authority-data will override.",
            id="ca-file-and-data",
        ),
        pytest.param(
            "server: https://a, certificate-authority: /missing",
            f"{INVALID}unable to read certificate-authority /missing for c due to open /missing:"
            " no such file or directory",
            id="ca-file-missing",
        ),
        pytest.param(
            "server: https://a, certificate-authority: /ca, insecure-skip-tls-verify: true",
            "specifying a root certificates file with the insecure flag is not allowed",
            id="ca-and-insecure",
        ),
        pytest.param(
            "server: https://a, certificate-authority-data: '%%%'",
            "certificate-authority-data of c is not base64: Only base64 data is allowed",
            id="ca-data-not-base64",
        ),
        pytest.param(
            "server: https://a, certificate-authority-data: 'Zm9v\u00e9'",
            "certificate-authority-data of c is not base64: string argument should contain only"
            " ASCII characters",
            id="ca-data-not-ascii",
        ),
        pytest.param(
            "server: https://a, proxy-url: 'foo://bar'",
            f'{INVALID}invalid \'proxy-url\' "foo://bar" for cluster "c":'
            ' unsupported scheme "foo", must be http, https, or socks5',
            id="proxy-of-unknown-kind",
        ),
        pytest.param(
            "server: https://a, proxy-url: 'socks5://'",
            f'{INVALID}invalid \'proxy-url\' "socks5://" for cluster "c": it names no host',
            id="socks-proxy-without-host",
        ),
        pytest.param(
            "server: https://a, proxy-url: 'http://'",
            f'{INVALID}invalid \'proxy-url\' "http://" for cluster "c": it names no host',
            id="proxy-without-host",
        ),
        pytest.param(
            "server: https://a, proxy-url: 'http://h:x'",
            f'{INVALID}invalid \'proxy-url\' "http://h:x" for cluster "c": parse failed:'
            " Port could not be cast to integer value as 'x'",
            id="proxy-with-a-bad-port",
        ),
        pytest.param(
            "server: 'https://a:x'",
            "server \"https://a:x\" is not a URL: Port could not be cast to integer value as 'x'",
            id="server-with-a-bad-port",
        ),
        pytest.param(
            "server: 'ftp://a'",
            'server "ftp://a" must look like https://host:port',
            id="server-of-unknown-kind",
        ),
    ],
)
def test_mistakes_in_the_cluster(cluster: str, expected: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        access(cluster)
    assert expected == str(caught.value)


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param(
            f"{{client-certificate: /c, client-certificate-data: {DATA}, client-key: /k}}",
            "client-cert-data and client-cert are both specified for u."
            " client-cert-data will override.",
            id="certificate-file-and-data",
        ),
        pytest.param(
            f"{{client-certificate: /c, client-key: /k, client-key-data: {DATA}}}",
            "client-key-data and client-key are both specified for u;"
            " client-key-data will override",
            id="key-file-and-data",
        ),
        pytest.param(
            "{client-certificate: /c}",
            "client-key-data or client-key must be specified for u to use the clientCert"
            " authentication method.",
            id="certificate-without-key",
        ),
        pytest.param(
            "{client-certificate: /c, client-key: /missing}",
            "unable to read client-key /missing for u due to open /missing:"
            " no such file or directory",
            id="key-file-missing",
        ),
        pytest.param(
            "{token: t, password: p}",
            "more than one authentication method found for u; found [token basicAuth],"
            " only one is allowed",
            id="token-and-basic",
        ),
        pytest.param(
            "{as-groups: [g]}",
            "requesting uid, groups or user-extra for u without impersonating a user",
            id="groups-without-user",
        ),
        pytest.param(
            "{exec: {}}",
            "[command must be specified for u to use exec authentication plugin,"
            " apiVersion must be specified for u to use exec authentication plugin,"
            " interactiveMode must be specified for u to use exec authentication plugin]",
            id="an-empty-plugin",
        ),
        pytest.param(
            f"{{exec: {{command: p, apiVersion: {V1}, interactiveMode: Often,"
            " env: [{value: v}]}, auth-provider: {name: oidc}}",
            "[authProvider cannot be provided in combination with an exec plugin for u,"
            " env variable name must be specified for u to use exec authentication plugin,"
            ' invalid interactiveMode for u: "Often"]',
            id="a-plugin-with-everything-wrong",
        ),
    ],
)
def test_mistakes_in_the_user(user: str, expected: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        access(user=user)
    assert INVALID + expected == str(caught.value)


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param(
            "{auth-provider: {name: oidc}}",
            'no Auth Provider found for name "oidc"; legacy auth providers are not built in:'
            " use a token, a client certificate or an exec plugin",
            id="a-legacy-provider",
        ),
        pytest.param(
            "{exec: {command: p, apiVersion: client.authentication.k8s.io/v1alpha1,"
            " interactiveMode: Never}}",
            'exec plugin: invalid apiVersion "client.authentication.k8s.io/v1alpha1";'
            f" supported are {V1} and {V1BETA1}",
            id="an-unknown-plugin-version",
        ),
    ],
)
def test_credentials_that_do_not_exist_here(user: str, expected: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        access(user=user)
    assert expected == str(caught.value)
    assert UserEntry() == access("server: http://plain", user).user


def test_a_context_that_does_not_exist() -> None:
    text = kubeconfig().replace("current-context: x", "current-context: nope")
    expected = (
        "invalid configuration: [context was not found for specified context: nope,"
        " cluster has no server defined]"
    )
    with pytest.raises(KubeconfigError) as caught:
        choose_access(parse_kubeconfig(text, "/"), "", readable)
    assert expected == str(caught.value)


def test_a_master_without_any_cluster_in_the_file_needs_no_name() -> None:
    document = parse_kubeconfig("clusters: [{name: c, cluster: {proxy-url: 'http://p'}}]", "/")
    assert choose_access(document, "http://m", readable).server == "http://m"


def test_a_current_context_without_a_cluster_name() -> None:
    text = "{current-context: x, contexts: [{name: x}], clusters: [{cluster: {proxy-url: q}}]}"
    with pytest.raises(KubeconfigError, match="no configuration has been provided"):
        choose_access(parse_kubeconfig(text, "/"), "", readable)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: [", "yaml: line 2: did not find expected node content", id="not-yaml"),
        pytest.param("[1]", "yaml: line 1: a document must be an object", id="a-list"),
        pytest.param('{"a": ]', "yaml: line 1: did not find expected node", id="broken-json"),
        pytest.param(
            "users: [{name: u, user: {token: 12345}}]",
            "not a kubeconfig: Expected `str`, got `int` - at `$.users[0].user.token`",
            id="a-number-as-token",
        ),
        pytest.param(
            "clusters: [{name: c}, {name: c}]",
            'two entries for cluster "c": remove one of them',
            id="the-same-name-twice",
        ),
        pytest.param("a: &a\n  b: *a", "yaml: line 2: the alias *a is part of", id="itself"),
        pytest.param("a: " + "[" * 9999, "yaml: line 1: it is nested too deeply", id="deep"),
        pytest.param(
            '{"a":' * 900 + "1" + "}" * 900, "not a kubeconfig: it is nested too", id="deep-json"
        ),
        pytest.param(
            '{"a":' * 9999 + "1" + "}" * 9999, "yaml: line 1: it is nested too", id="deeper-json"
        ),
        pytest.param("a: 1\n---\nb: 2", "not a kubeconfig: it has more than one", id="two"),
        pytest.param(
            'users: [{user: {tokenFile: "a\\0b"}}]',
            "not a kubeconfig: 'a\\x00b' has a zero byte",
            id="zero-byte",
        ),
    ],
)
def test_texts_that_are_no_kubeconfig(text: str, expected: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        parse_kubeconfig(text, "/")
    assert str(caught.value).startswith(expected)
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_user_in_the_url_wins_and_is_not_shown(scheme: str) -> None:
    found = access(f"server: '{scheme}://us%20er:p%40ss@api:6443/x'", "{token: t}")
    assert found.server == found.cluster.server == f"{scheme}://api:6443/x"
    assert found.user == UserEntry(username="us er", password="p@ss")


def test_a_client_certificate_is_shown_beside_a_user_in_the_url() -> None:
    found = access("server: 'https://me:p@api'", "{client-certificate: /c, client-key: /k}")
    expected = UserEntry(client_certificate="/c", client_key="/k", username="me", password="p")
    assert expected == found.user


@pytest.mark.parametrize("name", ["2026-01-01", "2026-01-01T10:00:00Z", "1:30", "1.2.3", "'12'"])
def test_a_name_that_looks_like_a_date_is_a_name(name: str) -> None:
    document = parse_kubeconfig(f"current-context: {name}", "/")
    assert document.current_context == name.strip("'")


# --- files ------------------------------------------------------------------------------------


def test_a_kubeconfig_is_loaded_relative_to_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.crt").write_text(PEM)
    (tmp_path / "kube.conf").write_text(
        kubeconfig("server: https://api, certificate-authority: ca.crt")
    )
    monkeypatch.chdir(tmp_path)
    found = load_kubeconfig("kube.conf")
    assert found.cluster.certificate_authority == str(tmp_path / "ca.crt")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(
            None, "stat {path}: no such file or directory; check --kubeconfig", id="gone"
        ),
        pytest.param(b"\xff\xfe", 'error loading config file "{path}": not UTF-8', id="binary"),
        pytest.param(b"[1]", 'error loading config file "{path}": yaml: line 1: a', id="a-list"),
        pytest.param(b"", NO_CONFIGURATION + ' (kubeconfig "{path}")', id="empty"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: bytes | None, expected: str) -> None:
    path = tmp_path / "kube.conf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OperatorError) as caught:
        load_kubeconfig(str(path))
    assert str(caught.value).startswith(expected.format(path=path))


def test_a_directory_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=f"open {tmp_path}: is a directory"):
        load_kubeconfig(str(tmp_path))


def test_a_ca_file_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "kube.conf"
    path.write_text(kubeconfig("server: https://api, certificate-authority: ca.crt"))
    expected = f"due to open {tmp_path}/ca.crt: no such file or directory"
    with pytest.raises(OperatorError, match=expected):
        load_kubeconfig(str(path))


# --- in a pod ---------------------------------------------------------------------------------

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def service_account(root: Path, *names: str) -> Path:
    directory = root / "var/run/secrets/kubernetes.io/serviceaccount"
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).write_text("x")
    return directory


def test_in_a_pod_the_service_account_counts(tmp_path: Path) -> None:
    directory = service_account(tmp_path, "token", "ca.crt")
    expected = Access(
        server="https://10.96.0.1:443",
        cluster=ClusterEntry(certificate_authority=str(directory / "ca.crt")),
        user=UserEntry(token_file=str(directory / "token")),
    )
    assert expected == in_cluster(POD, str(tmp_path))


def test_in_a_pod_an_ipv6_address_gets_brackets(tmp_path: Path) -> None:
    service_account(tmp_path, "token", "ca.crt")
    environ = {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert in_cluster(environ, str(tmp_path)).server == "https://[fd00::1]:443"


def test_in_a_pod_a_missing_ca_is_reported_and_the_system_s_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service_account(tmp_path, "token")
    assert ClusterEntry() == in_cluster(POD, str(tmp_path)).cluster
    assert "ca.crt: no such file or directory" in capsys.readouterr().err


def test_in_a_pod_a_missing_token_is_fatal(tmp_path: Path) -> None:
    directory = service_account(tmp_path, "ca.crt")
    with pytest.raises(OperatorError) as caught:
        in_cluster(POD, str(tmp_path))
    assert str(caught.value).startswith(f"open {directory}/token: no such file or directory")


def test_outside_a_pod_there_is_no_in_cluster_configuration() -> None:
    expected = (
        "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and"
        " KUBERNETES_SERVICE_PORT must be defined; outside a pod give --kubeconfig"
    )
    with pytest.raises(OperatorError) as caught:
        in_cluster({"KUBERNETES_SERVICE_HOST": "h"})
    assert expected == str(caught.value)


def test_without_kubeconfig_and_master_the_pod_counts_and_the_log_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service_account(tmp_path, "token", "ca.crt")
    assert find_access("", "", POD, str(tmp_path)).server == "https://10.96.0.1:443"
    assert "falling back to in-cluster config" in capsys.readouterr().err


def test_an_empty_kubeconfig_falls_back_to_the_pod_in_silence(tmp_path: Path) -> None:
    service_account(tmp_path, "token", "ca.crt")
    path = tmp_path / "kube.conf"
    path.write_text("")
    assert find_access(str(path), "", POD, str(tmp_path)).server == "https://10.96.0.1:443"


def test_an_empty_kubeconfig_outside_a_pod_is_the_mistake_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kube.conf"
    path.write_text("")
    with pytest.raises(OperatorError, match="no configuration has been provided"):
        find_access(str(path), "", {}, str(tmp_path))


def test_a_kubeconfig_counts_before_the_pod(tmp_path: Path) -> None:
    path = tmp_path / "kube.conf"
    path.write_text(kubeconfig())
    assert find_access(str(path), "", POD, str(tmp_path)).server == "https://api:6443"


# --- what logs may show -----------------------------------------------------------------------


def test_secrets_never_show() -> None:
    found = access(user=f"{{token: hidden, client-key-data: {DATA}}}")
    assert "hidden" not in repr(found)
    assert "BEGIN" not in repr(found)
    assert "UserEntry(***)" in repr(found)


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param("{}", "anonymous", id="anonymous"),
        pytest.param("{tokenFile: /tok}", "the bearer of token file /tok", id="token-file"),
        pytest.param("{token: t}", 'the bearer of the token of kubeconfig user "u"', id="token"),
        pytest.param("{username: me, password: p}", '"me"', id="basic"),
        pytest.param(
            "{client-certificate: /c, client-key: /k}", "the client certificate /c", id="cert"
        ),
        pytest.param(
            f"{{client-certificate-data: {DATA}, client-key-data: {DATA}}}",
            'the client certificate of kubeconfig user "u"',
            id="certificate-data",
        ),
        pytest.param(
            f"{{exec: {{command: p, apiVersion: {V1BETA1}}}}}",
            "the identity of exec plugin p",
            id="exec",
        ),
        pytest.param("{token: t, as: a}", '"a" (impersonated)', id="impersonation"),
    ],
)
def test_our_identity_as_far_as_it_is_known(user: str, expected: str) -> None:
    assert expected == access(user=user).identity


def test_a_directory_is_no_certificate(tmp_path: Path) -> None:
    path = tmp_path / "kube.conf"
    path.write_text(kubeconfig(user=f"{{client-certificate: {tmp_path}, client-key: {path}}}"))
    with pytest.raises(OperatorError, match=f"open {tmp_path}: is a directory"):
        load_kubeconfig(str(path))


def test_a_path_that_no_file_can_have_is_named() -> None:
    with pytest.raises(KubeconfigError, match=r"open 'a\\x00b': embedded null byte"):
        load_kubeconfig("a\0b")
