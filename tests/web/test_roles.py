"""Roles, and those of groups and ARNs."""

import pytest

from kiqbridge.errors import ConfigError
from kiqbridge.web.guard import RoleRules, allows, least, values_of_claim

SSO = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Ops_0a1b/ann"


@pytest.mark.parametrize(
    ("role", "needed", "allowed"),
    [("viewer", "operator", False), ("operator", "operator", True), ("admin", "viewer", True)],
)
def test_a_role_may_what_the_lower_ones_may(role, needed, allowed):
    assert allows(role, needed) is allowed


def test_the_lower_one_of_two_roles_counts():
    assert least("admin", "viewer") == least("viewer", "operator") == "viewer"


@pytest.mark.parametrize(
    ("values", "role"),
    [
        ([SSO], "admin"),
        (["staff"], "viewer"),
        (["staff", "ops"], "operator"),
        (["ops-2"], None),
        (["xops"], None),
        ([f"{SSO}\n"], "admin"),
        ([], None),
    ],
)
def test_the_highest_role_counts_that_a_rule_gives(values, role):
    rules = RoleRules.parse(
        "admin=arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Ops_*/*, operator=ops viewer=st?ff",
        "test",
    )

    assert rules.role_of(values) == role


@pytest.mark.parametrize("text", ["ops", "admin=", "root=ops"])
def test_a_rule_that_is_none_is_refused_with_its_source(text):
    with pytest.raises(ConfigError, match=r"\(from KIQBRIDGE_WEB_ROLES\)"):
        RoleRules.parse(text, "KIQBRIDGE_WEB_ROLES")


@pytest.mark.parametrize(
    ("claims", "name", "values"),
    [
        ({"role": "admin"}, "role", ["admin"]),
        ({"scope": "openid ops"}, "scope", ["openid", "ops"]),
        ({"groups": ["a", 5, "b"]}, "groups", ["a", "b"]),
        ({"realm_access": {"roles": ["x"]}}, "realm_access.roles", ["x"]),
        ({"https://a.b/roles": ["y"]}, "https://a.b/roles", ["y"]),
        ({"realm_access": "text"}, "realm_access.roles", []),
        ({"role": {"admin": True}}, "role", []),
    ],
)
def test_a_claim_holds_roles_in_any_of_the_usual_forms(claims, name, values):
    assert values_of_claim(claims, name) == values
