"""Certificates that the client trusts.

It trusts the one with a given fingerprint, those in a file, or those that this machine's authorities vouch for."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
from typing import Any
from urllib.parse import urlsplit

from schedulearn.api.client.errors import ClientError

VARIABLE = "SCHEDULEARN_CA"
_FINGERPRINT = re.compile(r"sha-?256[:=]?", re.IGNORECASE)


def trusted_context(ca: str | None) -> ssl.SSLContext:
    """Return the TLS context for `ca`: a PEM file, or `sha256:...`; None: the value of SCHEDULEARN_CA.

    Raises ValueError."""
    given = ca or os.environ.get(VARIABLE)
    if not given:
        return ssl.create_default_context()
    if prefix := _FINGERPRINT.match(given):
        return _Pinned.to(given[prefix.end() :])
    try:
        context = ssl.create_default_context(cafile=given)
    except OSError as error:  # ssl's errors included
        raise ValueError(f"the certificate {given!r} can't be read: {error.strerror or error}") from error
    if not context.get_ca_certs():  # it holds the service's own certificate: under any name, nobody else has its key
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def lasting(ca: str | None) -> str | None:
    """Return `ca`, or the value of SCHEDULEARN_CA, so that it means the same in every folder."""
    given = ca or os.environ.get(VARIABLE)
    return given if not given or _FINGERPRINT.match(given) else os.path.abspath(given)


def fingerprint_at(url: str) -> str:
    """Return the fingerprint of the certificate at an address. Nothing vouches for it. Raises ClientError."""
    parts = urlsplit(url)
    try:
        pem = ssl.get_server_certificate((parts.hostname or "", parts.port or 443), timeout=10)
    except OSError as error:
        raise ClientError(f"the certificate of {url} can't be read: {error}") from error
    return f"sha256:{hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()}"


def is_distrust(error: BaseException | None) -> bool:
    """Return whether a connection failed because of the certificate."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


class _Pinned(ssl.SSLContext):
    """TLS context that trusts one certificate, for any issuer and name: nobody else has its key."""

    digest: bytes

    @classmethod
    def to(cls, fingerprint: str) -> _Pinned:
        try:
            digest = bytes.fromhex(fingerprint.replace(":", ""))
        except ValueError:
            digest = b""
        if len(digest) != hashlib.sha256().digest_size:
            raise ValueError(
                f"'sha256:{fingerprint}' is not a fingerprint: use the 64 hexadecimal digits that the "
                "service shows at its start"
            )
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the handshake ends with our own check
        context.digest = digest
        context.sslsocket_class = _PinnedSocket
        context.sslobject_class = _PinnedObject
        return context


class _PinnedSocket(ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        _check(self)


class _PinnedObject(ssl.SSLObject):
    def do_handshake(self) -> None:
        super().do_handshake()
        _check(self)


def _check(connection: Any) -> None:
    certificate = connection.getpeercert(binary_form=True)
    if hashlib.sha256(certificate or b"").digest() != connection.context.digest:
        raise ssl.SSLCertVerificationError(1, "its certificate is not the one with the fingerprint that is known")
