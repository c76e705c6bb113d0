"""Certificates for tests, made by openssl: an authority and what it signs."""

import subprocess
from pathlib import Path

import msgspec


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, both PEM files."""

    cert: Path
    key: Path


class ServerTLS(msgspec.Struct, frozen=True):
    """How a server does TLS. With a client authority, client certificates count as credentials."""

    pair: Pair
    client_ca: Path | None = None


_NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def make_authority(directory: Path, name: str = "ca") -> Pair:
    """A self-signed authority."""
    pair = _pair(directory, name)
    extensions = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    _openssl_req(pair, name, [*_NEW_KEY, *extensions])
    return pair


def issue(
    authority: Pair,
    directory: Path,
    name: str,
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1"),
) -> Pair:
    """A certificate signed by the authority, good for a server at the hosts and for a client."""
    pair = _pair(directory, name)
    names = ",".join(f"{'DNS' if _is_name(host) else 'IP'}:{host}" for host in hosts)
    extensions = {
        "basicConstraints": "critical,CA:FALSE",
        "extendedKeyUsage": "serverAuth,clientAuth",
        "subjectAltName": names,
    }
    added = [word for key, value in extensions.items() for word in ("-addext", f"{key}={value}")]
    signed_by = ["-CA", str(authority.cert), "-CAkey", str(authority.key)]
    _openssl_req(pair, name, [*_NEW_KEY, *signed_by, *added])
    return pair


def server_tls(directory: Path, *, client_certificates: bool = False) -> tuple[ServerTLS, Pair]:
    """TLS for a server on loopback, and the authority that clients need to trust."""
    authority = make_authority(directory)
    pair = issue(authority, directory, "server")
    client_ca = authority.cert if client_certificates else None
    return ServerTLS(pair, client_ca), authority


def _pair(directory: Path, name: str) -> Pair:
    return Pair(directory / f"{name}.crt", directory / f"{name}.key")


def _is_name(host: str) -> bool:
    return ":" not in host and not host.replace(".", "").isdigit()


def _openssl_req(pair: Pair, name: str, arguments: list[str]) -> None:
    files = ["-out", str(pair.cert), "-keyout", str(pair.key)]
    command = ["openssl", "req", "-x509", "-days", "3", "-subj", f"/CN={name}", *files]
    subprocess.run([*command, *arguments], check=True, capture_output=True)
