"""The identities of the settings: principals of our own issuer, or another issuer and the meaning of its roles."""

import re
from typing import Any

import msgspec

from recapito.domain.access.roles import Role, roles_named
from recapito.errors import SettingsError


class PrincipalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A principal that gets tokens of our own issuer."""

    client_id: str
    roles: list[str]
    secret: str = ""
    secret_sha256: str = ""

    def __repr__(self) -> str:
        return f"<PrincipalSettings {self.client_id}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("client_id", self.client_id)]  # msgspec's own would show the secret in a pretty traceback


class IdentitySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The principals of our own issuer, or another issuer."""

    tenant: str
    principals: list[PrincipalSettings]
    issuer: str
    audience: str
    role_claim: str
    role_names: dict[str, str]


def check_identity(identity: IdentitySettings) -> None:
    """SettingsError, naming the key, if the settings of principals and issuers contradict each other."""
    for n, principal in enumerate(identity.principals):
        where = f"identity.principals[{n}]"
        if not principal.client_id:
            raise SettingsError(f"{where}.client_id: an id must be given")
        if bool(principal.secret) == bool(principal.secret_sha256):
            raise SettingsError(f"{where}: either secret or secret_sha256 must be given")
        if principal.secret_sha256 and not re.fullmatch("[0-9A-Fa-f]{64}", principal.secret_sha256):
            raise SettingsError(f"{where}.secret_sha256: a SHA-256 has 64 hexadecimal digits")
        for name in principal.roles:
            _check_role(name, f"{where}.roles")
    for name in identity.role_names.values():
        _check_role(name, "identity.role_names")
    if identity.issuer and not re.match("https?://[^/]", identity.issuer):
        raise SettingsError("identity.issuer: the name of an issuer is an https URL")
    if bool(identity.issuer) != bool(identity.audience):
        raise SettingsError("identity: issuer and audience belong together; give both or neither")
    if identity.issuer and identity.principals:
        raise SettingsError("identity.principals must be empty when identity.issuer is set")


def _check_role(name: str, where: str) -> None:
    if not roles_named(name):
        raise SettingsError(f"{where}: '{name}' is not a role; known: {', '.join(Role)}")
