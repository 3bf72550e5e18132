"""Fingerprints by which clients know a certificate. Apart from `certificates`, which loads cryptography."""

from __future__ import annotations

import base64
import hashlib


def fingerprint_of(der: bytes) -> str:
    """Return what clients take in place of a file: what `openssl x509 -fingerprint -sha256` shows."""
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def fingerprint_for_workers(certificate: str) -> str:
    """Return that of a certificate as `Certificate.for_workers` gives it."""
    return fingerprint_of(base64.b64decode(certificate))
