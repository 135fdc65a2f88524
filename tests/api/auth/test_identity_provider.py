"""The identity provider: what az and azure-identity ask, and who gets a token."""

import base64
import json
from typing import Any
from urllib.parse import quote_plus, urlencode

import jwt
import pytest

from recapito.domain.access.roles import Plane
from recapito.domain.instant import SECOND
from tests.api.client import Answer, World, run
from tests.api.known import DATA, MANAGEMENT, SECRET, TENANT, URL, Known

FORM = {
    "grant_type": "client_credentials",
    "client_id": "contributor",
    "client_secret": SECRET,
    "scope": f"{URL}/.default",
    "client_info": "1",
    "claims": '{"access_token":{"xms_cc":{"values":["CP1"]}}}',
}


async def ask(world: World, form: Any, path: str = f"/{TENANT}/oauth2/v2.0/token", **headers: str) -> Answer:
    body = form if isinstance(form, bytes) else urlencode(form).encode()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    return await world.call("POST", path, body, headers=kind | headers)


def test_metadata_is_one_object_and_once_a_list() -> None:
    """az reads where everything is; for its oldest api-version that is a list."""

    async def test(world: World) -> None:
        for version in ("2022-09-01", "2024-01-01", ""):
            shown = (await world.call("GET", f"/metadata/endpoints?api-version={version}")).json
            assert shown["resourceManager"] == shown["portal"] == URL
            assert shown["authentication"]["loginEndpoint"] == URL
            assert shown["authentication"]["audiences"][0] == URL
            assert shown["authentication"]["tenant"] == TENANT
            assert shown["name"] and shown["suffixes"] == {}
        listed = (await world.call("GET", "/metadata/endpoints?api-version=2019-05-01")).json
        assert [one["resourceManager"] for one in listed] == [URL]

    run(test, access=Known().access)


@pytest.mark.parametrize("tenant", [TENANT, TENANT.upper(), "organizations", "common", "adfs"])
@pytest.mark.parametrize("version", ["/v2.0", ""])
def test_discovery_leads_to_a_token_that_its_keys_verify(tenant: str, version: str) -> None:
    """The configuration names the token endpoint and the keys; what the one gives, the others verify."""

    async def test(world: World) -> None:
        found = (await world.call("GET", f"/{tenant}{version}/.well-known/openid-configuration")).json
        assert found["issuer"] == f"{URL}/{TENANT}/v2.0"
        assert {"authorization_endpoint", "device_authorization_endpoint"} <= set(found)
        granted = (await ask(world, FORM, found["token_endpoint"].removeprefix(URL))).json
        assert granted["token_type"] == "Bearer" and granted["expires_in"] == 3599
        keys = (await world.call("GET", found["jwks_uri"].removeprefix(URL))).json["keys"]
        kid = jwt.get_unverified_header(granted["access_token"])["kid"]
        key = next(jwt.PyJWK(one) for one in keys if one["kid"] == kid)
        times = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
        claims = jwt.decode(granted["access_token"], key, ["RS256"], audience=URL, options=times)  # type: ignore[arg-type]
        now = world.clock.instant // SECOND
        assert (claims["iat"], claims["nbf"], claims["exp"]) == (now, now, now + 3600)
        assert claims["iss"] == found["issuer"] and claims["tid"] == TENANT
        assert claims["sub"] == claims["oid"] == claims["appid"] == "contributor"
        assert claims["roles"] == ["Contributor"]

    run(test, access=Known().access)


@pytest.mark.parametrize(
    ("asked", "plane"),
    [
        ({"scope": f"{URL}/.default"}, Plane.MANAGEMENT),
        ({"scope": f"{URL}//.default"}, Plane.MANAGEMENT),
        ({"scope": f"openid {MANAGEMENT}/.default offline_access"}, Plane.MANAGEMENT),
        ({"scope": f"{DATA}/.default"}, Plane.DATA),
        ({"scope": None, "resource": DATA}, Plane.DATA),
        ({"scope": None, "resource": "https://management.core.windows.net/"}, None),
        ({"scope": None, "resource": MANAGEMENT}, Plane.MANAGEMENT),
    ],
)
def test_scopes_and_resources(asked: dict[str, str | None], plane: Plane | None) -> None:
    """A token is for the resource that was asked for, in the words of either version, and for nothing else."""
    known = Known()

    async def test(world: World) -> None:
        form = {name: value for name, value in (FORM | asked).items() if value is not None}
        for path in (f"/{TENANT}/oauth2/v2.0/token", f"/{TENANT}/oauth2/token", "/adfs/oauth2/token"):
            answer = await ask(world, form, path)
            if plane is None:
                assert answer.json["error"] == "invalid_resource"
                continue
            assert answer.headers["cache-control"] == "no-store"
            for other in Plane:
                principal = await known.tokens.verify(answer.json["access_token"], other)
                assert (principal is not None) is (other is plane)

    run(test, access=known.access)


def test_basic_authentication() -> None:
    """A client may send its id and secret as HTTP's basic authentication, encoded as OAuth says."""

    async def test(world: World) -> None:
        form = {"grant_type": "client_credentials", "scope": f"{DATA}/.default"}
        pair = f"{quote_plus('sender')}:{quote_plus(SECRET)}".encode()
        answer = await ask(world, form, authorization=f"Basic {base64.b64encode(pair).decode()}")
        assert answer.status == 200
        for wrong in ("Basic !", "Basic", f"Basic {base64.b64encode(b'sender:wrong').decode()}", "Basic /w=="):
            answer = await ask(world, form, authorization=wrong)
            assert (answer.status, answer.json["error"]) == (401, "invalid_client")

    run(test, access=Known().access)


@pytest.mark.parametrize(
    ("changes", "status", "error", "number"),
    [
        ({"client_secret": "wrong"}, 401, "invalid_client", 7000215),
        ({"client_secret": SECRET + " "}, 401, "invalid_client", 7000215),
        ({"client_id": "nobody"}, 401, "invalid_client", 7000215),
        ({"client_id": ""}, 400, "invalid_request", 900144),
        ({"client_secret": None}, 400, "invalid_request", 900144),
        ({"grant_type": "password"}, 400, "unsupported_grant_type", 70003),
        ({"grant_type": None}, 400, "unsupported_grant_type", 70003),
        ({"scope": None}, 400, "invalid_request", 900144),
        ({"scope": "openid"}, 400, "invalid_scope", 1002012),
        ({"scope": f"{URL}/.default {DATA}/.default"}, 400, "invalid_scope", 1002012),
        ({"scope": "https://graph.microsoft.com/.default"}, 400, "invalid_resource", 500011),
        ({"scope": "http://127.0.0.1:8585.evil.example/.default"}, 400, "invalid_resource", 500011),
    ],
)
def test_refusals_in_oauths_shape(changes: dict[str, str | None], status: int, error: str, number: int) -> None:
    """A fault is reported in Entra's words, and no secret is in them."""

    async def test(world: World) -> None:
        form = {name: value for name, value in (FORM | changes).items() if value is not None}
        answer = await ask(world, form)
        assert (answer.status, answer.json["error"], answer.json["error_codes"]) == (status, error, [number])
        assert answer.json["error_description"].startswith(f"AADSTS{number}: ")
        assert {"timestamp", "trace_id", "correlation_id"} <= set(answer.json)
        assert ("www-authenticate" in answer.headers) is (status == 401)
        assert SECRET.encode() not in answer.body
        assert SECRET not in json.dumps(world.told)

    run(test, access=Known().access)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"\xff\xfe", b"&".join(b"a=1" for _ in range(100)), b"client_id=" + b"x" * 100_000]
)
def test_bodies_that_are_no_form(body: bytes) -> None:
    """Whatever is sent gets an error in OAuth's shape."""

    async def test(world: World) -> None:
        answer = await ask(world, body)
        assert (answer.status, answer.json["error"]) == (400, "invalid_request")

    run(test, access=Known().access)


def test_unknown_tenants_and_no_issuer() -> None:
    """A tenant that is not ours is refused; without an issuer of our own there are no such paths."""

    async def test(world: World) -> None:
        for path in ("/elsewhere/oauth2/v2.0/token", "/elsewhere/oauth2/token"):
            assert (await ask(world, FORM, path)).json["error_codes"] == [90002]
        assert (await world.call("GET", "/elsewhere/v2.0/.well-known/openid-configuration")).status == 400

    async def none(world: World) -> None:
        assert (await ask(world, FORM)).status == 404
        assert (await world.call("GET", "/metadata/endpoints")).json["resourceManager"] == URL

    run(test, access=Known().access)
    run(none)
