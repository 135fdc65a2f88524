"""POST /systemTopics/{name}/api/events: the events of an Azure resource, posted by its emulator."""

import json

import pytest

from recapito.contracts.log import EntryKind
from recapito.domain.access.sas import sign
from recapito.domain.events.segment import Segment
from recapito.domain.resources.topic import TopicKind
from recapito.domain.resources.topic_type import topic_type
from tests.api.client import GROUP, World, event, run, webhook

RG = "/subscriptions/5b4b650e/resourceGroups/examplerg"
ACCOUNT = f"{RG}/providers/Microsoft.Storage/storageAccounts/pictures"
SYSTEM = f"{GROUP}/systemTopics/pictures"
PATH = "/systemTopics/pictures/api/events"
CREATED = event(eventType="Microsoft.Storage.BlobCreated")
BODY = {"location": "here", "properties": {"source": ACCOUNT, "topicType": "Microsoft.Storage.StorageAccounts"}}


def test_an_emulator_posts_system_events() -> None:
    """With the setting a system topic has keys, and takes events of its type, which name their source."""

    async def test(world: World) -> None:
        assert (await world.arm("PUT", SYSTEM, BODY)).status == 201
        key = (await world.arm("POST", f"{SYSTEM}/listKeys")).json["key1"]
        sent = [CREATED, {**CREATED, "id": "e-2", "topic": ACCOUNT}]
        assert (await world.call("POST", PATH, sent, headers={"aeg-sas-key": key})).status == 200
        topic = await world.log.topic("pictures", TopicKind.SYSTEM)
        assert topic is not None
        entries = await world.log.read(topic.id, 1, 1 << 20)
        [segment] = [Segment(entry.columns, entry.body) for entry in entries if entry.kind is EntryKind.SEGMENT]
        assert [json.loads(segment.event(n))["topic"] for n in range(2)] == [ACCOUNT, ACCOUNT]
        for wrong in (event(), {**CREATED, "topic": SYSTEM}):
            assert (await world.call("POST", PATH, [wrong], headers={"aeg-sas-key": key})).status == 400
        assert (await world.call("POST", PATH, [CREATED], headers={"aeg-sas-key": "no"})).status == 401
        signed = sign(f"https://localhost{PATH}", "1/1/2050 12:00:00 AM", key)
        assert (await world.call("POST", PATH, [CREATED], headers={"aeg-sas-token": signed})).status == 200

    run(test, opens_system_topics=True)


@pytest.mark.parametrize(
    ("type", "source", "posted"),
    [
        ("Microsoft.KeyVault.vaults", f"{RG}/providers/Microsoft.KeyVault/vaults/v", "SecretNewVersionCreated"),
        ("Microsoft.Devices.IoTHubs", f"{RG}/providers/Microsoft.Devices/IotHubs/h", "DeviceConnected"),
        ("microsoft.resources.resourcegroups", RG, "ResourceWriteSuccess"),
        ("Microsoft.Resources.Subscriptions", "/subscriptions/5b4b650e", "ResourceDeleteSuccess"),
    ],
)
def test_sources_of_every_type(type: str, source: str, posted: str) -> None:
    """A source of any registered type posts its events and has subscriptions, by the system topic or by its own id."""

    async def test(world: World) -> None:
        body = {"location": "here", "properties": {"source": source, "topicType": type}}
        assert (await world.arm("PUT", SYSTEM, body)).status == 201
        found = topic_type(type)
        assert found is not None
        name = f"{found.provider}.{posted}"
        scope = f"{source}/providers/Microsoft.EventGrid/eventSubscriptions/mine"
        filter = {"includedEventTypes": [name]}
        made = await world.arm("PUT", scope, {"properties": {"destination": webhook(), "filter": filter}})
        assert (made.status, made.json["properties"]["topic"]) == (201, source)
        assert (await world.arm("GET", f"{SYSTEM}/eventSubscriptions/mine")).status == 200
        assert (await world.arm("GET", made.json["id"])).json["name"] == "mine"
        key = (await world.arm("POST", f"{SYSTEM}/listKeys")).json["key1"]
        for kind, status in ((name, 200), ("Microsoft.Storage.BlobCreated", 400)):
            answer = await world.call("POST", PATH, [event(eventType=kind)], headers={"aeg-sas-key": key})
            assert answer.status == status
        wrong = {"location": "here", "properties": {"source": ACCOUNT, "topicType": type}}
        assert (await world.arm("PUT", f"{SYSTEM}-2", wrong)).status == 400
        assert (await world.arm("DELETE", scope)).status == 200

    run(test, opens_system_topics=True)


def test_it_is_off_unless_asked_for() -> None:
    """Without the setting there are no keys, and the path answers 404 with the name of the setting."""

    async def test(world: World) -> None:
        assert (await world.arm("PUT", SYSTEM, BODY)).status == 201
        assert (await world.arm("POST", f"{SYSTEM}/listKeys")).status == 404
        topic = await world.topics.find("pictures", TopicKind.SYSTEM)
        assert topic is not None
        answer = await world.call("POST", PATH, [CREATED], headers={"aeg-sas-key": topic.key1})
        assert (answer.status, "publish.system_topics" in answer.error["message"]) == (404, True)

    run(test)
