"""An authority of the test's own, and certificates that it signs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Authority:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._signed("Authority", self._key, ca=True, names=[])
        self.file = folder / "authority.pem"
        self.file.write_bytes(self._certificate.public_bytes(_PEM))

    def issue(self, *names: str, file: str = "site", password: bytes | None = None) -> tuple[Path, Path]:
        """A certificate for these names, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(names[0], key, ca=False, names=list(names))
        cert_file, key_file = self.folder / f"{file}.pem", self.folder / f"{file}.key"
        how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        key_file.write_bytes(key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, how))
        cert_file.write_bytes(certificate.public_bytes(_PEM))
        return cert_file, key_file

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool, names: list[str]) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named("Authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=90))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=False
            )
        return builder.sign(self._key, hashes.SHA256())
