"""Sign-in by an OpenID Connect provider, or by a proxy that names the user."""

from __future__ import annotations

from schedulearn.api.feature import Feature

FEATURE = Feature("sign_in", routers=["routes:router"])
