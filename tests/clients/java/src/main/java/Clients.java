// Publish in three schemas with Microsoft's client for Java, and manage by ARM's requests; one JSON value as the answer.

import com.azure.core.credential.AzureKeyCredential;
import com.azure.core.credential.AzureSasCredential;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.http.HttpMethod;
import com.azure.core.http.HttpPipeline;
import com.azure.core.http.HttpPipelineBuilder;
import com.azure.core.http.HttpRequest;
import com.azure.core.http.policy.BearerTokenAuthenticationPolicy;
import com.azure.core.models.CloudEvent;
import com.azure.core.models.CloudEventDataFormat;
import com.azure.core.util.BinaryData;
import com.azure.core.util.Context;
import com.azure.identity.ClientSecretCredential;
import com.azure.identity.ClientSecretCredentialBuilder;
import com.azure.messaging.eventgrid.EventGridEvent;
import com.azure.messaging.eventgrid.EventGridPublisherClient;
import com.azure.messaging.eventgrid.EventGridPublisherClientBuilder;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;

public final class Clients {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final OffsetDateTime NOON = OffsetDateTime.parse("2026-01-01T12:00:00Z");

    public static void main(String[] arguments) throws Exception {
        JsonNode given = JSON.readTree(System.in);
        ClientSecretCredential credential = new ClientSecretCredentialBuilder()
                .authorityHost(given.get("url").asText())
                .disableInstanceDiscovery()
                .tenantId(given.get("tenant").asText())
                .clientId(given.get("client").asText())
                .clientSecret(given.get("secret").asText())
                .build();
        ObjectNode answer = JSON.createObjectNode();
        publish(given.get("topics"), credential, answer);
        manage(given, credential, answer);
        System.out.println(answer);
        System.exit(0); // the client's threads would keep the process for a while
    }

    private static EventGridPublisherClientBuilder at(JsonNode topic) {
        return new EventGridPublisherClientBuilder().endpoint(topic.get("endpoint").asText());
    }

    private static EventGridPublisherClientBuilder keyed(JsonNode topic) {
        return at(topic).credential(new AzureKeyCredential(topic.get("key").asText()));
    }

    private static EventGridEvent order(String id) {
        return new EventGridEvent("s", "Orders.New", BinaryData.fromObject(Map.of("way", id)), "2")
                .setId(id)
                .setEventTime(NOON);
    }

    private static void publish(JsonNode topics, ClientSecretCredential credential, ObjectNode answer) {
        JsonNode orders = topics.get("eventGrid");
        keyed(orders).buildEventGridEventPublisherClient().sendEvents(List.of(order("key"), order("second")));
        String token = EventGridPublisherClient.generateSas(
                orders.get("endpoint").asText(),
                new AzureKeyCredential(orders.get("key").asText()),
                OffsetDateTime.now().plusHours(1));
        at(orders).credential(new AzureSasCredential(token)).buildEventGridEventPublisherClient().sendEvent(order("sas"));
        at(orders).credential(credential).buildEventGridEventPublisherClient().sendEvent(order("bearer"));

        BinaryData price = BinaryData.fromObject(Map.of("price", 1));
        CloudEvent sold = new CloudEvent("/cars", "Car.Sold", price, CloudEventDataFormat.JSON, "application/json")
                .setId("a")
                .setTime(NOON)
                .addExtensionAttribute("trace", "x1");
        BinaryData picture = BinaryData.fromBytes(new byte[] {0, -1});
        CloudEvent scan = new CloudEvent("/cars", "Car.Scan", picture, CloudEventDataFormat.BYTES, "image/png").setId("b");
        keyed(topics.get("cloud")).buildCloudEventPublisherClient().sendEvents(List.of(sold, scan));

        Map<String, Object> own = Map.of("number", "n-7", "kind", "Sale", "nested", Map.of("deep", List.of(1, 2)));
        keyed(topics.get("custom")).buildCustomEventPublisherClient().sendEvent(BinaryData.fromObject(own));

        AzureKeyCredential wrong = new AzureKeyCredential("d3Jvbmc=");
        answer.put("wrongKey", refused(() ->
                at(orders).credential(wrong).buildEventGridEventPublisherClient().sendEvent(order("never"))));
        BinaryData colour = BinaryData.fromObject(Map.of("colour", "red"));
        answer.put("wrongSchema", refused(() -> keyed(orders).buildCustomEventPublisherClient().sendEvent(colour)));
    }

    private static int refused(Runnable request) {
        try {
            request.run();
        } catch (HttpResponseException error) {
            return error.getResponse().getStatusCode();
        }
        return 0;
    }

    private static void manage(JsonNode given, ClientSecretCredential credential, ObjectNode answer) throws Exception {
        String url = given.get("url").asText();
        HttpPipeline pipeline = new HttpPipelineBuilder()
                .policies(new BearerTokenAuthenticationPolicy(credential, url + "/.default"))
                .build();
        String group = url + "/subscriptions/" + given.get("subscription").asText() + "/resourceGroups/java";
        Arm arm = (method, path, body) -> {
            HttpRequest request = new HttpRequest(method, group + "/providers/Microsoft.EventGrid/" + path + "?api-version=2022-06-15");
            if (body != null) {
                request.setBody(JSON.writeValueAsBytes(body)).setHeader("Content-Type", "application/json");
            }
            var response = pipeline.sendSync(request, Context.NONE);
            byte[] content = response.getBodyAsBinaryData() == null ? new byte[0] : response.getBodyAsBinaryData().toBytes();
            ObjectNode shown = content.length == 0 ? JSON.createObjectNode() : (ObjectNode) JSON.readTree(content);
            return shown.put("status", response.getStatusCode());
        };
        JsonNode topic = arm.call(HttpMethod.PUT, "topics/java-topic", Map.of("location", "local", "tags", Map.of("team", "red")));
        answer.set("team", topic.at("/tags/team"));
        answer.put("key", !arm.call(HttpMethod.POST, "topics/java-topic/listKeys", Map.of()).get("key1").asText().isEmpty());
        String hook = "topics/java-topic/eventSubscriptions/java-hook";
        Map<String, Object> destination = Map.of("endpointType", "WebHook", "properties", Map.of("endpointUrl", given.get("endpoint").asText()));
        JsonNode made = arm.call(HttpMethod.PUT, hook, Map.of("properties", Map.of(
                "destination", destination, "filter", Map.of("subjectBeginsWith", "/red/"), "retryPolicy", Map.of("maxDeliveryAttempts", 3))));
        answer.set("filter", made.at("/properties/filter/subjectBeginsWith"));
        answer.set("attempts", made.at("/properties/retryPolicy/maxDeliveryAttempts"));
        answer.set("url", arm.call(HttpMethod.POST, hook + "/getFullUrl", Map.of()).get("endpointUrl"));
        arm.call(HttpMethod.DELETE, hook, null);
        answer.set("gone", arm.call(HttpMethod.GET, hook, null).get("status"));
        arm.call(HttpMethod.DELETE, "topics/java-topic", null);
    }

    private interface Arm {
        JsonNode call(HttpMethod method, String path, Object body) throws Exception;
    }
}
