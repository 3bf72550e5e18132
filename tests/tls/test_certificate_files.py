"""A certificate of the operator's: on whatever address, known by its name, renewed while the service runs."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from servers.authorities import Authority
from services import Service, run

from schedulearn.api.cli.service.announcement import Announcement
from schedulearn.api.client.trust import trusted_context
from schedulearn.api.settings import Settings
from schedulearn.api.tls.certificates import Certificate, certificate_for
from schedulearn.scheduler.errors import InvalidError

Start = Callable[..., Service]


def shown_by(service: Service) -> str:
    return ssl.get_server_certificate(("127.0.0.1", service.port), timeout=30)


def renew(authority: Authority, cert: Path, key: Path) -> None:
    """As certbot does: new files take the places of the old ones, one after the other."""
    for new, old in zip(authority.issue("localhost", file="renewed"), (cert, key), strict=True):
        os.replace(new, old)


@pytest.mark.process
def test_it_is_known_by_its_name_and_renewed_without_a_restart(start_service: Start, authority: Authority) -> None:
    cert, key = authority.issue("localhost")
    service = start_service("--tls-cert", str(cert), "--tls-key", str(key))
    by_name = f"https://localhost:{service.port}"
    assert service.url == f"https://127.0.0.1:{service.port}"
    assert run("ls", "--ca", str(authority.file), url=by_name).out.startswith("ID "), "one's own account, by no token"
    refused = run("ls", "--ca", str(authority.file), url=service.url, code=1)
    assert "IP address mismatch" in refused.err, "the authority vouches for a name only"
    assert "is not trusted" in run("ls", url=by_name, code=1).err
    assert run("ls", "--ca", str(cert), url=service.url).out.startswith("ID "), "the file of the certificate itself"

    job = service.submit("true")
    assert service.wait(job, "succeeded")["exit_code"] == 0

    before = cert.read_text()
    assert shown_by(service) == before
    renew(authority, cert, key)
    service.http.close()
    service.http = httpx.Client(base_url=service.url, verify=trusted_context(str(cert)), trust_env=False)
    assert service.call("GET", "/api/v1/whoami")["role"] == "admin"
    assert shown_by(service) == cert.read_text() != before
    assert run("ls", "--ca", str(authority.file), url=by_name).out.startswith("ID ")
    assert not (service.data / "tls").exists(), "it makes none of its own"


def test_a_renewal_that_went_wrong_leaves_the_one_from_before(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    cert, key = authority.issue("localhost")
    held = Certificate(cert, key, own=False)
    before, shown = held.context(), held.fingerprint
    cert.write_text("half a fi")
    assert held.context() is before
    assert held.context() is before
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the certificate has changed, and the previous one stays in use"
    ], "it is told once"
    cert.unlink()
    assert held.context() is before
    renew(authority, cert, key)
    assert held.context() is not before
    assert held.fingerprint != shown


def test_on_an_open_address_the_start_names_it_as_its_authority_does(authority: Authority) -> None:
    certificate = Certificate(*authority.issue("*.gpus.test", "gpu1.test"), own=False)
    for settings, url in (
        (Settings(host="0.0.0.0"), "https://gpu1.test:8000"),
        (Settings(host="0.0.0.0", public_url="https://gpus.test/"), "https://gpus.test"),
        (Settings(host="127.0.0.1"), "https://127.0.0.1:8000"),
    ):
        lines = Announcement(settings, made_token=True, certificate=certificate).lines("vm", "docker")
        assert lines[0] == f"Schedulearn is ready: {url}/ui/" + (
            " (and at every other address of vm)" if "gpu1" in url else ""
        )
        assert f"  export SCHEDULEARN_URL={url} SCHEDULEARN_TOKEN=$(cat" in lines[2]
        assert not any("SCHEDULEARN_CA" in line for line in lines), "an authority vouches for it"


@pytest.mark.process
def test_what_can_not_be_used_is_told_in_one_line(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.issue("localhost")
    _, other_key = authority.issue("localhost", file="other")
    _, locked = authority.issue("localhost", file="locked", password=b"secret")
    text = tmp_path / "text"
    text.write_text("no certificate")
    for settings, why in (
        ({"tls_cert": cert, "tls_key": tmp_path / "none.key"}, "No such file"),
        ({"tls_cert": tmp_path / "none.pem", "tls_key": key}, "No such file"),
        ({"tls_cert": cert}, "can't be used"),
        ({"tls_cert": cert, "tls_key": other_key}, "can't be used"),
        ({"tls_cert": cert, "tls_key": locked}, "has a password"),
        ({"tls_cert": text, "tls_key": key}, "holds no certificate"),
        ({"tls_key": key}, "tls_key needs tls_cert"),
        ({"tls_cert": cert, "tls_key": key, "tls": "off"}, "tls is off"),
    ):
        with pytest.raises(InvalidError, match=why):
            certificate_for(Settings(data=tmp_path / "data", **settings))  # type: ignore[arg-type]
    both = tmp_path / "both.pem"
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    assert certificate_for(Settings(data=tmp_path / "data", tls_cert=both)) is not None
    said = run("serve", "--data", str(tmp_path / "data"), "--port", "0", "--tls-key", str(key), code=1)
    assert said.err == "Error: tls_key needs tls_cert, the certificate that it belongs to\n"
