"""The identity provider: the parts of Azure's metadata and login endpoints that az and azure-identity use.

Tokens are issued to the principals of our directory, by their client id and secret, for our own audiences only.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from recapito.api.auth.issuer import TokenIssuer
from recapito.api.auth.management import peer_of
from recapito.api.body import BodyReader
from recapito.api.errors import ClientRefused, GrantRefused, GrantSlowed, oauth_body, refusal
from recapito.api.services import Services
from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.errors import TooLarge, TooManyRequests
from recapito.identity.signer import ALGORITHM

_LIST_VERSION = "2019-05-01"
_ANY_TENANT = ("common", "organizations", "adfs")
_DEFAULT_SCOPE = "/.default"
_EXPIRES_IN_S = limits.BEARER_LIFE_NS // SECOND - 1
_JSON = "application/json; charset=utf-8"
_UNCACHED = {"cache-control": "no-store", "pragma": "no-cache"}


class IdentityProvider:
    """The metadata, and with an issuer of our own its login endpoints."""

    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._services = services
        self._bodies = bodies

    def routes(self) -> list[Route]:
        metadata = Route("/metadata/endpoints", self._metadata)
        issuer = self._services.access.issuer
        if issuer is None:
            return [metadata]
        login = TokenEndpoint(issuer, self._services, self._bodies)
        return [metadata, *login.routes()]

    async def _metadata(self, request: Request) -> Response:
        """The endpoints of this server. az needs only these members of a cloud's metadata."""
        url = self._services.public_url
        issuer = self._services.access.issuer
        body = {
            "name": "Recapito",
            "portal": url,
            "resourceManager": url,
            "authentication": {
                "loginEndpoint": self._services.access.authority if issuer is None else url,
                "audiences": [url, "https://management.core.windows.net/", "https://management.azure.com/"],
                "tenant": "common" if issuer is None else issuer.tenant,
                "identityProvider": "AAD",
            },
            "suffixes": {},
        }
        listed = request.query_params.get("api-version") == _LIST_VERSION
        return _json([body] if listed else body)


class TokenEndpoint:
    """OpenID discovery, keys and tokens of our own issuer, in the forms of Entra (v1 and v2) and of ADFS."""

    def __init__(self, issuer: TokenIssuer, services: Services, bodies: BodyReader) -> None:
        self._issuer = issuer
        self._now = services.clock.now
        self._wrong_secrets = services.wrong_secrets
        self._bodies = bodies

    def routes(self) -> list[Route]:
        return [
            Route("/{tenant}/v2.0/.well-known/openid-configuration", self._discover),
            Route("/{tenant}/.well-known/openid-configuration", self._discover),
            Route("/{tenant}/discovery/v2.0/keys", self._keys),
            Route("/{tenant}/discovery/keys", self._keys),
            Route("/{tenant}/oauth2/v2.0/token", self._token, methods=["POST"]),
            Route("/{tenant}/oauth2/token", self._token, methods=["POST"]),
        ]

    async def _discover(self, request: Request) -> Response:
        tenant = request.path_params["tenant"]
        try:
            self._check_tenant(tenant)
        except GrantRefused as error:
            return self._refuse(error)
        version = "/v2.0" if "/v2.0/" in request.url.path else ""
        at = f"{self._issuer.url}/{tenant}"
        return _json(
            {
                "issuer": self._issuer.issuer,
                "authorization_endpoint": f"{at}/oauth2{version}/authorize",
                "token_endpoint": f"{at}/oauth2{version}/token",
                "device_authorization_endpoint": f"{at}/oauth2{version}/devicecode",
                "jwks_uri": f"{at}/discovery{version}/keys",
                "response_types_supported": ["code", "id_token"],
                "subject_types_supported": ["pairwise"],
                "id_token_signing_alg_values_supported": [ALGORITHM],
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
            }
        )

    async def _keys(self, request: Request) -> Response:
        return _json({"keys": [self._issuer.jwk]})

    async def _token(self, request: Request) -> Response:
        try:
            self._check_tenant(request.path_params["tenant"])
            headers = dict(request.scope["headers"])
            form = _form(await self._bodies.read(headers, request.receive, limits.TOKEN_REQUEST_BYTES))
            client_id, secret = _client(form, headers.get(b"authorization", b""))
            granted = await self._slow_down(request.scope, client_id, lambda: self._grant(form, client_id, secret))
        except GrantRefused as error:
            return self._refuse(error)
        except TooLarge:
            return self._refuse(GrantRefused("invalid_request", 90013, "The request is too large."))
        return _json(granted, headers=_UNCACHED)

    async def _slow_down(self, scope: Scope, client_id: str, grant: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Grant a token; wrong secrets are counted and slowed down."""
        known = self._issuer.directory.principal(client_id)
        try:
            self._wrong_secrets.check("token", peer_of(scope))
            try:
                return grant()
            except ClientRefused:
                await self._wrong_secrets.refused("token", peer_of(scope), known and known.id)
                raise
        except TooManyRequests as error:
            raise GrantSlowed(error) from None

    def _grant(self, form: Mapping[str, str], client_id: str, secret: str) -> dict[str, Any]:
        if form.get("grant_type") != "client_credentials":
            raise GrantRefused("unsupported_grant_type", 70003, "The only grant_type here is client_credentials.")
        principal = self._issuer.directory.sign_in(client_id, secret)
        if principal is None:
            raise ClientRefused("invalid_client", 7000215, "The client id is unknown, or this is not its secret.")
        audience = _audience(form)
        if not self._issuer.serves(audience):
            raise GrantRefused("invalid_resource", 500011, "The resource is not an audience of this server.")
        return {
            "token_type": "Bearer",
            "expires_in": _EXPIRES_IN_S,
            "ext_expires_in": _EXPIRES_IN_S,
            "access_token": self._issuer.issue(principal, audience),
        }

    def _check_tenant(self, tenant: str) -> None:
        if tenant.lower() not in (self._issuer.tenant.lower(), *_ANY_TENANT):
            raise GrantRefused("invalid_request", 90002, "The tenant is unknown.")

    def _refuse(self, error: GrantRefused) -> Response:
        refused = refusal(error)
        headers = {name.decode(): value.decode() for name, value in refused.headers} | _UNCACHED
        return Response(oauth_body(error, self._now()), refused.status, headers, _JSON)


def _json(body: object, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), headers=headers, media_type=_JSON)


def _form(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=50))
    except ValueError:
        raise GrantRefused("invalid_request", 90013, "The body must be a form, URL-encoded.") from None


def _client(form: Mapping[str, str], authorization: bytes) -> tuple[str, str]:
    """The client id and its secret, from the form or from HTTP's basic authentication."""
    scheme, _, credential = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        for name in ("client_id", "client_secret"):
            if not form.get(name):
                raise _missing(name)
        return form["client_id"], form["client_secret"]
    try:
        client_id, _, secret = base64.b64decode(credential.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise ClientRefused("invalid_client", 7000216, "The basic authentication is malformed.") from None
    return unquote_plus(client_id), unquote_plus(secret)


def _audience(form: Mapping[str, str]) -> str:
    """The audience of the token: the resource, or the one scope that names one."""
    if form.get("resource"):
        return form["resource"]
    scopes = [scope for scope in form.get("scope", "").split() if scope.endswith(_DEFAULT_SCOPE)]
    if not form.get("scope"):
        raise _missing("scope")
    if len(scopes) != 1:
        raise GrantRefused("invalid_scope", 1002012, "The scope must be one resource followed by /.default.")
    return scopes[0].removesuffix(_DEFAULT_SCOPE)


def _missing(name: str) -> GrantRefused:
    return GrantRefused("invalid_request", 900144, f"The request body must contain the parameter '{name}'.")
