"""Fingerprints by which clients know a certificate.

They are separate from `certificates`, which loads cryptography.
"""

from __future__ import annotations

import base64
import hashlib


def fingerprint_of(der: bytes) -> str:
    """Return the fingerprint as `openssl x509 -fingerprint -sha256` shows it; clients take it in place of a file."""
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def fingerprint_for_workers(certificate: str) -> str:
    """Return the fingerprint of a certificate in the format of `Certificate.for_workers`."""
    return fingerprint_of(base64.b64decode(certificate))
