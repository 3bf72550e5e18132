"""Rules of sign-in, names and IDs from claims, and settings that don't go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matrices import each
from providers import RULES, settings_for

from schedulearn.api.access.sign_in import SignInClaims, account_name, claim_at, host_ids
from schedulearn.api.settings import Settings, load_settings
from schedulearn.features.sign_in.admission import person_of
from schedulearn.scheduler.errors import ForbiddenError, InvalidError

ISSUER = "https://id.lab.org/realms/lab"


def settings(**more: Any) -> Settings:
    return load_settings(**settings_for(ISSUER, **more))


NAMES = {
    "ada": "ada", "Ada": "ada", "ada@lab.org": "ada@lab.org", "Ada  Lovelace": "ada-lovelace", "José": "jose",
    "ada/../root": "ada-..-root", "*": None, "..": None, "~ada": "ada", "ada~7": "ada-7", "/vision": "vision",
    "ada\x00\n": "ada", "---": None, "李": None, "x" * 300: "x" * 100, "ﬁ": "fi", "": None, " ": None, 7: None,
    ("ada",): None,
}  # fmt: skip


@each(NAMES, "given")
def test_a_claim_gives_a_valid_account_name_or_none(given: object) -> None:
    wanted = NAMES[given]
    claims = {"preferred_username": given}
    if wanted is None:
        with pytest.raises(ValueError, match="preferred_username"):
            account_name(claims, "preferred_username")
    else:
        assert account_name(claims, "preferred_username") == wanted


def test_an_address_counts_only_if_the_provider_has_verified_it() -> None:
    for verified in (None, False, "true", 1):
        with pytest.raises(ValueError, match="not verified"):
            account_name({"email": "boss@lab.org", "email_verified": verified}, "email")
    assert account_name({"email": "Boss@lab.org", "email_verified": True}, "email") == "boss@lab.org"
    found = settings(sign_in_rules=[{"match": {"email": "boss@lab.org"}, "role": "admin"}])
    assert found.rule_for({"email": "boss@lab.org"}) is None
    assert found.rule_for({"email": "boss@lab.org", "email_verified": False}) is None
    assert found.rule_for({"email": "boss@lab.org", "email_verified": True}) is not None


def test_the_first_rule_decides_and_only_equal_text_matches() -> None:
    found = settings()

    def role(groups: object) -> str | None:
        rule = found.rule_for({"groups": groups})
        return rule.role if rule is not None else None

    assert role(["vision", "gpu-admins"]) == "admin"
    assert role("gpu-admins") == "admin"
    assert role(["vision", "alumni"]) == "none"
    for odd in (["GPU-admins"], "gpu-admins,vision", {"gpu-admins": True}, [["gpu-admins"]], None, 1, [None], []):
        assert role(odd) is None, odd
    nested = settings(sign_in_rules=[{"match": {"realm_access.roles": "gpu"}, "role": "user"}])
    assert nested.rule_for({"realm_access": {"roles": ["gpu"]}}) is not None
    assert nested.rule_for({"realm_access": "gpu"}) is None
    assert claim_at({"https://lab.org/roles": ["x"]}, "https://lab.org/roles") == ["x"]
    both = settings(sign_in_rules=[{"match": {"hd": "lab.org", "groups": ["a", "b"]}, "role": "user"}])
    assert both.rule_for({"hd": "lab.org", "groups": ["b"]}) is not None
    assert both.rule_for({"hd": "evil.org", "groups": ["b"]}) is None


def test_ids_come_from_claims_where_they_are_set() -> None:
    names = SignInClaims(uid="uid", gid="gid", gids="gids")
    ids = host_ids({"uid": "1001", "gid": 200, "gids": 27}, names, "ada")
    assert ids is not None
    assert (ids.uid, ids.gid, ids.gids) == (1001, 200, (27,))
    assert host_ids({"gid": 200}, names, "ada") is None
    assert host_ids({"uid": 0, "gid": 0}, SignInClaims(), "ada") is None, "without the setting no claim counts"
    with pytest.raises(ForbiddenError, match="runs this service"):
        person_of(
            settings(sign_in_claims={"uid": "uid", "gid": "gid"}), ISSUER, {"sub": "1", "uid": 997, "gid": 5}, 997
        )


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nobody may sign in": ({"sign_in_rules": []}, "sign_in_rules"),
    "an admin for everybody": ({"sign_in_rules": [{"role": "admin"}]}, "match"),
    "an unknown role": ({"sign_in_rules": [{"role": "root"}]}, "role"),
    "an unknown key": ({"sign_in_rules": [{"role": "user", "rôle": "x"}]}, "sign_in_rules"),
    "an unknown bound": ({"sign_in_rules": [{"role": "user", "quota": {"gpu": 1}}]}, "unknown keys gpu"),
    "a bound below 0": ({"sign_in_rules": [{"role": "user", "quota": {"gpus": -1}}]}, "gpus is -1"),
    "a weight of 0": ({"sign_in_rules": [{"role": "user", "quota": {"weight": 0}}]}, "weight is 0"),
    "a group that can't be": ({"sign_in_rules": [{"role": "user", "group": "/x"}]}, "group"),
    "an empty match": ({"sign_in_rules": [{"match": {"groups": []}, "role": "admin"}]}, "groups"),
    "no address of ours": ({"public_url": None}, "public_url"),
    "no client": ({"oidc_client_id": ""}, "oidc_client_id"),
    "a scope with a blank": ({"oidc_scopes": ["openid", "a b"]}, "oidc_scopes"),
    "no ID token": ({"oidc_scopes": ["email"]}, "openid"),
    "a provider without TLS": ({"oidc_issuer": "http://id.lab.org"}, "https"),
    "a provider with a password": ({"oidc_issuer": "https://a:b@id.lab.org"}, "https"),
    "half an account": ({"sign_in_claims": {"uid": "uid"}}, "together"),
    "a proxy without the setting": ({"sign_in_proxy": {"networks": ["10.0.0.1/32"]}}, "behind_proxy"),
    "a proxy without an address": ({"behind_proxy": True, "sign_in_proxy": {"networks": []}}, "networks"),
    "a network that can't be": ({"behind_proxy": True, "sign_in_proxy": {"networks": ["10.0.0.1/8"]}}, "networks"),
    "a header that can't be": (
        {"behind_proxy": True, "sign_in_proxy": {"networks": ["10.0.0.1"], "user_header": "X User"}}, "user_header",
    ),
    "a session without end": ({"sign_in_session": 10**9}, "sign_in_session"),
}  # fmt: skip


@each(WRONG, "kind")
def test_settings_that_can_not_be_are_told(kind: str) -> None:
    more, named = WRONG[kind]
    with pytest.raises(InvalidError) as error:
        settings(**more)
    assert named in str(error.value)


def test_settings_come_from_the_environment_and_secrets_from_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of-the-file\n")
    monkeypatch.setenv("SCHEDULEARN_SIGN_IN_CLAIMS__NAME", "upn")
    monkeypatch.setenv("SCHEDULEARN_OIDC_CLIENT_SECRET", "of-the-environment")
    found = load_settings(
        oidc_issuer=ISSUER, oidc_client_id="schedulearn", public_url="https://gpu.lab.org", sign_in_rules=RULES
    )
    assert (found.sign_in_claims.name, found.client_secret()) == ("upn", "of-the-environment")
    assert "of-the-environment" not in repr(found)
    monkeypatch.delenv("SCHEDULEARN_OIDC_CLIENT_SECRET")
    assert settings(oidc_client_secret="", oidc_client_secret_file=str(secret)).client_secret() == "of-the-file"
