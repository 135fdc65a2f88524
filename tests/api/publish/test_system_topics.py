"""POST /systemTopics/{name}/api/events: the events of an Azure resource, posted by its emulator."""

import json

from recapito.contracts.log import EntryKind
from recapito.domain.access.sas import sign
from recapito.domain.events.segment import Segment
from recapito.domain.resources.topic import TopicKind
from tests.api.client import GROUP, World, event, run

ACCOUNT = "/subscriptions/5b4b650e/resourceGroups/examplerg/providers/Microsoft.Storage/storageAccounts/pictures"
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
