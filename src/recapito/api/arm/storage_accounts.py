"""Storage accounts that are registered here, so that clients can look them up and subscribe to them.

There is no storage behind them: a registered account may only have a system topic.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.paging import page_start, show_page
from recapito.api.arm.routing import ArmRoute, answer, gone, in_group, in_subscription
from recapito.api.body import BodyReader
from recapito.api.services import Services
from recapito.api.wire.decode import Body, Shown, check_length, decode
from recapito.api.wire.topic import read_location, read_tags
from recapito.domain import limits
from recapito.domain.instant import stamp
from recapito.errors import NotFound
from recapito.intake.resources.storage_accounts import TYPE, StorageAccount, account_problem
from recapito.intake.resources.validation import DEFAULT_LOCATION

_ACCOUNTS = "/providers/Microsoft.Storage/storageAccounts"
PAGE = 100


class _StorageAccountSku(Body):
    name: str | None = None
    tier: Any = None


class AccountBody(msgspec.Struct, rename="camel", kw_only=True):
    """The fields of a body that are used. An account of Azure has many more settings, none with a meaning here."""

    location: str | None = None
    kind: str | None = None
    sku: _StorageAccountSku | None = None
    tags: dict[str, str] | None = None


class NameBody(Body):
    """A name whose availability is asked for."""

    name: str
    type: str | None = None


class StorageManagement:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._topics = services.topics
        self._accounts = services.topics.accounts
        self._bodies = bodies

    def routes(self) -> list[ArmRoute]:
        handlers = {"GET": self._get, "PUT": self._put, "PATCH": self._patch, "DELETE": self._delete}
        return [
            ArmRoute(in_subscription(_ACCOUNTS), {"GET": self._list}),
            ArmRoute(in_group(_ACCOUNTS), {"GET": self._list}),
            ArmRoute(in_group(_ACCOUNTS) + "/{account}", handlers, {"PUT": AccountBody, "PATCH": AccountBody}),
            ArmRoute(
                in_subscription("/providers/Microsoft.Storage/checkNameAvailability"),
                {"POST": self._check},
                {"POST": NameBody},
            ),
        ]

    async def _body(self, request: Request) -> bytes:
        return await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.MANAGE_BODY_BYTES)

    async def _account(self, request: Request) -> StorageAccount:
        path = request.path_params
        return await self._accounts.get(path["subscription"], path["group"], path["account"])

    async def _list(self, request: Request) -> Response:
        path = request.path_params

        async def walk() -> AsyncIterator[StorageAccount]:
            after = page_start(request)
            while page := await self._accounts.page(after, PAGE):
                for account in page:
                    if account.is_at(path["subscription"], path.get("group")):
                        yield account
                after = page[-1].name

        return await show_page(request, walk(), _name, _name, _show)

    async def _get(self, request: Request) -> Response:
        return answer(_show(await self._account(request)))

    async def _put(self, request: Request) -> Response:
        path = request.path_params
        empty = StorageAccount(
            name=path["account"],
            azure_subscription=path["subscription"],
            resource_group=path["group"],
            location=DEFAULT_LOCATION,
        )
        return answer(_show(await self._topics.put_account(read_account(empty, await self._body(request)))))

    async def _patch(self, request: Request) -> Response:
        account = await self._account(request)
        return answer(_show(await self._topics.put_account(read_account(account, await self._body(request)))))

    async def _delete(self, request: Request) -> Response:
        try:
            await self._topics.delete_account(await self._account(request))
        except NotFound:
            return gone(found=False)
        return gone()

    async def _check(self, request: Request) -> Response:
        name = decode(await self._body(request), NameBody).name
        problem = account_problem(name)
        if problem is not None:
            return answer({"nameAvailable": False, "reason": "AccountNameInvalid", "message": problem})
        if await self._accounts.find(name) is not None:
            message = f"The storage account named {name} is already taken."
            return answer({"nameAvailable": False, "reason": "AlreadyExists", "message": message})
        return answer({"nameAvailable": True})


def read_account(account: StorageAccount, body: bytes) -> StorageAccount:
    """The account as a body changes it, or an error that names the field."""
    sent = decode(body, AccountBody)
    changes: dict[str, Any] = {}
    if sent.location is not None:
        changes["location"] = read_location(sent.location)
    if sent.tags is not None:
        changes["tags"] = read_tags(sent.tags)
    if sent.kind is not None:
        changes["kind"] = check_length(sent.kind, limits.LOCATION_CHARS[1], "kind", 1)
    if sent.sku is not None and sent.sku.name is not None:
        changes["sku"] = check_length(sent.sku.name, limits.LOCATION_CHARS[1], "sku.name", 1)
    return msgspec.structs.replace(account, **changes)


def _show(account: StorageAccount) -> Shown:
    return {
        "id": account.resource_id,
        "name": account.name,
        "type": TYPE,
        "location": account.location,
        "tags": account.tags,
        "kind": account.kind,
        "sku": {"name": account.sku, "tier": account.sku.partition("_")[0]},
        "properties": {
            "provisioningState": "Succeeded",
            "creationTime": stamp(account.created_at),
            "primaryLocation": account.location,
            "statusOfPrimary": "available",
        },
    }


def _name(account: StorageAccount) -> str:
    return account.name
