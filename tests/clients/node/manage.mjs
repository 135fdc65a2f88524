// Create, read, list, update and delete a topic and its subscriptions, and a domain.
import { all, answer, given, management, refused } from "./story.mjs";

const group = "node";
const topic = await management.topics.beginCreateOrUpdateAndWait(group, "js-topic", { location: "local", tags: { team: "red" } });
const keys = await management.topics.listSharedAccessKeys(group, "js-topic");
const renewed = await management.topics.beginRegenerateKeyAndWait(group, "js-topic", { keyName: "key1" });
await management.topics.beginUpdateAndWait(group, "js-topic", { tags: { team: "blue" } });
const tagged = await management.topics.get(group, "js-topic");

const asked = {
  destination: {
    endpointType: "WebHook",
    endpointUrl: given.endpoint,
    maxEventsPerBatch: 7,
    preferredBatchSizeInKilobytes: 32,
    deliveryAttributeMappings: [
      { type: "Static", name: "x-secret", value: "hidden", isSecret: true },
      { type: "Dynamic", name: "x-key", sourceField: "data.key" },
    ],
  },
  filter: {
    subjectBeginsWith: "/red/",
    advancedFilters: [
      { operatorType: "NumberInRange", key: "data.n", values: [[1, 2]] },
      { operatorType: "StringNotContains", key: "data.s", values: ["x"] },
    ],
  },
  labels: ["one"],
  retryPolicy: { maxDeliveryAttempts: 3, eventTimeToLiveInMinutes: 5 },
};
const subscriptions = management.eventSubscriptions;
const made = await subscriptions.beginCreateOrUpdateAndWait(topic.id, "js-hook", asked);
const read = await subscriptions.get(topic.id, "js-hook");
const url = await subscriptions.getFullUrl(topic.id, "js-hook");
const attributes = await subscriptions.getDeliveryAttributes(topic.id, "js-hook");
const updated = await subscriptions.beginUpdateAndWait(topic.id, "js-hook", { labels: ["two"] });
const listed = await all(subscriptions.listByResource(group, "Microsoft.EventGrid", "topics", "js-topic"));
const nested = await all(management.topicEventSubscriptions.list(group, "js-topic"));
await subscriptions.beginDeleteAndWait(topic.id, "js-hook");
const gone = await refused(subscriptions.get(topic.id, "js-hook"));

const domain = await management.domains.beginCreateOrUpdateAndWait(group, "js-domain", { location: "local" });
await management.domainTopics.beginCreateOrUpdateAndWait(group, "js-domain", "north");
const domainTopics = await all(management.domainTopics.listByDomain(group, "js-domain"));
await management.domains.beginDeleteAndWait(group, "js-domain");
const topics = await all(management.topics.listByResourceGroup(group));
await management.topics.beginDeleteAndWait(group, "js-topic");

answer({ topic, keys, renewed, tagged, made, read, url, attributes, updated, listed, nested, gone, domain, domainTopics, topics });
