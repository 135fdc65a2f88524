// Publish to topics of the three input schemas, with each kind of credential.
import { AzureKeyCredential, AzureSASCredential, EventGridPublisherClient, generateSharedAccessSignature } from "@azure/eventgrid";
import { answer, credential, given, refused } from "./story.mjs";

const { eventGrid, cloud, custom } = given.topics;
const noon = new Date("2026-01-01T12:00:00Z");
const order = (id) => ({ id, eventType: "Orders.New", subject: "s", dataVersion: "2", eventTime: noon, data: { way: id } });

const withKey = new EventGridPublisherClient(eventGrid.endpoint, "EventGrid", new AzureKeyCredential(eventGrid.key));
await withKey.send([order("key"), order("second")]);

const soon = new Date(Date.now() + 3_600_000);
const token = await generateSharedAccessSignature(eventGrid.endpoint, new AzureKeyCredential(eventGrid.key), soon);
const withToken = new EventGridPublisherClient(eventGrid.endpoint, "EventGrid", new AzureSASCredential(token));
await withToken.send([order("sas")]);

const withBearer = new EventGridPublisherClient(eventGrid.endpoint, "EventGrid", credential);
await withBearer.send([order("bearer")]);

const clouds = new EventGridPublisherClient(cloud.endpoint, "CloudEvent", new AzureKeyCredential(cloud.key));
await clouds.send([
  { id: "a", type: "Car.Sold", source: "/cars", subject: "vw", time: noon, data: { price: 1 }, extensionAttributes: { trace: "x1" } },
  { id: "b", type: "Car.Scan", source: "/cars", data: new Uint8Array([0, 255]), datacontenttype: "image/png" },
]);

const customs = new EventGridPublisherClient(custom.endpoint, "Custom", new AzureKeyCredential(custom.key));
await customs.send([{ number: "n-7", kind: "Sale", nested: { deep: [1, 2] } }]);

const stranger = new EventGridPublisherClient(eventGrid.endpoint, "EventGrid", new AzureKeyCredential("d3Jvbmc="));
const wrongSchema = new EventGridPublisherClient(eventGrid.endpoint, "Custom", new AzureKeyCredential(eventGrid.key));
answer({
  wrongKey: await refused(stranger.send([order("never")])),
  wrongSchema: await refused(wrongSchema.send([{ colour: "red" }])),
});
