"""Certificate of the service: the operator's, or a self-signed one.

Clients know the self-signed one by its fingerprint, so it stays the same whatever the machine is called. It is made
once, for ten years.
"""

from __future__ import annotations

import base64
import ipaddress
import logging
import socket
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from schedulearn.api.reach import bridge_address
from schedulearn.api.settings import Settings
from schedulearn.api.tls.fingerprints import fingerprint_of
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.private_files import write_private

log = logging.getLogger(__name__)

FOLDER, CERT, KEY = "tls", "cert.pem", "key.pem"
"""Folder in the data folder, and its files."""
_YEARS = 10
_AGAIN = timedelta(days=30)
"""Time before the end of the self-signed certificate from which a start makes another."""

_Stamp = tuple[tuple[int, int, int], ...]


class Certificate:
    """Certificate with its key, read again when the files change.

    Certificate authorities renew certificates every few weeks. All calls are from one thread. Raises InvalidError for
    files that hold no such pair."""

    def __init__(self, cert: Path, key: Path | None, *, own: bool) -> None:
        """`key`: None if `cert` holds it too. `own`: self-signed, so that no authority vouches for it."""
        self.own = own
        self._files = (cert,) if key is None else (cert, key)
        self._stamp = self._look()
        self._context, self._leaf = self._read()

    @property
    def for_workers(self) -> str | None:
        """Certificate for the reports of jobs: base64 of its DER, in one line.

        None: the workers rely on certificate authorities."""
        return base64.b64encode(self._der()).decode() if self.own else None

    @property
    def fingerprint(self) -> str:
        """Fingerprint, which clients take in place of a file."""
        return fingerprint_of(self._der())

    @property
    def name(self) -> str | None:
        """First host name of the certificate."""
        names = _names_of(self._leaf)
        return next((name for name in names if not name.startswith("*")), None)

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for one more connection."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context, self._leaf = self._read()
            except InvalidError as error:
                log.warning("the certificate has changed, and the previous one stays in use: %s", error)
        return self._context

    def _der(self) -> bytes:
        return self._leaf.public_bytes(serialization.Encoding.DER)

    def _look(self) -> _Stamp:
        found = []
        for path in self._files:
            try:
                status = path.stat()
            except OSError:
                continue  # reading it says why
            found.append((status.st_mtime_ns, status.st_ino, status.st_size))
        return tuple(found)

    def _read(self) -> tuple[ssl.SSLContext, x509.Certificate]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        try:
            leaf = x509.load_pem_x509_certificates(self._files[0].read_bytes())[0]
            context.load_cert_chain(self._files[0], self._files[-1], password=_no_password)
        except OSError as error:  # ssl's errors included
            what = error.strerror or str(error)
            raise InvalidError(f"the certificate {self._shown} can't be used: {what}", field="tls_cert") from error
        except ValueError as error:
            raise InvalidError(f"{self._files[0]} holds no certificate in PEM: {error}", field="tls_cert") from error
        return context, leaf

    @property
    def _shown(self) -> str:
        return " with the key ".join(str(path) for path in self._files)


def certificate_for(settings: Settings) -> Certificate | None:
    """Return the certificate to use; None: plain HTTP. Raises InvalidError."""
    if settings.tls_key is not None and settings.tls_cert is None:
        raise InvalidError("tls_key needs tls_cert, the certificate that it belongs to", field="tls_key")
    if settings.tls_cert is not None:
        if settings.tls == "off":
            raise InvalidError("tls is off, but tls_cert names a certificate: leave out one of them", field="tls")
        return Certificate(settings.tls_cert, settings.tls_key, own=False)
    return _own(settings) if settings.has_tls else None


def _own(settings: Settings) -> Certificate:
    """Return the self-signed certificate, made at the first call, and again near its end."""
    folder = settings.data / FOLDER
    cert, key = folder / CERT, folder / KEY
    if not (cert.exists() and key.exists()) or _ends_soon(cert):
        make_own(folder, _names(settings), datetime.now(UTC))
    return Certificate(cert, key, own=True)


def _ends_soon(cert: Path) -> bool:
    try:
        ends = x509.load_pem_x509_certificate(cert.read_bytes()).not_valid_after_utc
    except ValueError:
        return False  # not ours to replace: reading it says what is wrong
    return ends < datetime.now(UTC) + _AGAIN


def make_own(folder: Path, names: Iterable[str], now: datetime) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Schedulearn")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=365 * _YEARS))
        # Trust in it covers this service only, and no certificate that it could sign for others.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(each) for each in dict.fromkeys(names)]), critical=False)
        .sign(private, hashes.SHA256())
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    write_private(folder / KEY, private.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    write_private(folder / CERT, made.public_bytes(pem), 0o644)


def _names(settings: Settings) -> list[str]:
    """Names by which browsers may know this machine. Clients with the fingerprint check none of them."""
    machine = socket.gethostname()
    names = ["localhost", "127.0.0.1", "::1", machine, socket.getfqdn(), *_addresses(machine)]
    if not settings.everywhere:
        names.append(settings.host)
    if settings.ports_domain is not None:
        names.append(f"*.{settings.ports_domain}")
    return [name for name in names if name]


def _addresses(machine: str) -> list[str]:
    found = []
    try:
        found = [str(each[4][0]).partition("%")[0] for each in socket.getaddrinfo(machine, None)]
    except (OSError, UnicodeError):
        pass  # the name can't be resolved
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: the kernel chooses the address that leads out
            found.append(str(probe.getsockname()[0]))
        except OSError:
            pass
    bridge = bridge_address()
    return [*found, bridge] if bridge is not None else found


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode() if not name.isascii() else name)


def _names_of(leaf: x509.Certificate) -> list[str]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return found.get_values_for_type(x509.DNSName)


def _no_password() -> NoReturn:
    """Raise InvalidError; otherwise OpenSSL asks at the terminal, which a service does not have."""
    raise InvalidError("the key of the certificate has a password: store it without one", field="tls_key")
