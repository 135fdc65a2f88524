// Publish in three schemas, read a system event, and manage, with Microsoft's clients for Go; one JSON value as the answer.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/messaging"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/eventgrid/azeventgrid"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/eventgrid/azsystemevents"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/eventgrid/armeventgrid/v2"
)

const group = "go"

type topic struct{ Endpoint, Key string }

type given struct {
	URL, Subscription, Tenant, Client, Secret, Endpoint string
	Topics                                              map[string]topic
	System                                              json.RawMessage
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func status(err error) int {
	var refused *azcore.ResponseError
	if errors.As(err, &refused) {
		return refused.StatusCode
	}
	return 0
}

func main() {
	var in given
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		log.Fatal(err)
	}
	configuration := cloud.Configuration{
		ActiveDirectoryAuthorityHost: in.URL,
		Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: in.URL, Audience: in.URL},
		},
	}
	options := policy.ClientOptions{Cloud: configuration}
	credential := must(azidentity.NewClientSecretCredential(in.Tenant, in.Client, in.Secret,
		&azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: true}))
	answer := publish(in, credential)
	for name, value := range manage(in, credential, &arm.ClientOptions{ClientOptions: options, DisableRPRegistration: true}) {
		answer[name] = value
	}
	answer["blob"] = blobOf(in.System)
	must(0, json.NewEncoder(os.Stdout).Encode(answer))
}

func publish(in given, credential azcore.TokenCredential) map[string]any {
	ctx, noon := context.Background(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	order := func(id string) azeventgrid.Event {
		return azeventgrid.Event{
			ID: to.Ptr(id), EventType: to.Ptr("Orders.New"), Subject: to.Ptr("s"), DataVersion: to.Ptr("2"),
			EventTime: to.Ptr(noon), Data: map[string]string{"way": id},
		}
	}
	withKey := func(name, key string) *azeventgrid.Client {
		return must(azeventgrid.NewClientWithSharedKeyCredential(in.Topics[name].Endpoint, azcore.NewKeyCredential(key), nil))
	}
	events := withKey("eventGrid", in.Topics["eventGrid"].Key)
	must(events.PublishEvents(ctx, []azeventgrid.Event{order("key"), order("second")}, nil))
	bearer := must(azeventgrid.NewClient(in.Topics["eventGrid"].Endpoint, credential, nil))
	must(bearer.PublishEvents(ctx, []azeventgrid.Event{order("bearer")}, nil))

	sold := must(messaging.NewCloudEvent("/cars", "Car.Sold", map[string]int{"price": 1}, &messaging.CloudEventOptions{Time: &noon, Subject: to.Ptr("vw")}))
	scan := must(messaging.NewCloudEvent("/cars", "Car.Scan", []byte{0, 255}, &messaging.CloudEventOptions{DataContentType: to.Ptr("image/png")}))
	sold.ID, scan.ID = "a", "b"
	sold.Extensions = map[string]any{"trace": "x1"}
	clouds := withKey("cloud", in.Topics["cloud"].Key)
	must(clouds.PublishCloudEvents(ctx, []messaging.CloudEvent{sold, scan}, nil))

	custom := withKey("custom", in.Topics["custom"].Key)
	must(custom.PublishCustomEventEvents(ctx, []any{map[string]any{"number": "n-7", "kind": "Sale", "nested": map[string]any{"deep": []int{1, 2}}}}, nil))

	_, wrongKey := withKey("eventGrid", "d3Jvbmc=").PublishEvents(ctx, []azeventgrid.Event{order("never")}, nil)
	_, wrongSchema := events.PublishCustomEventEvents(ctx, []any{map[string]string{"colour": "red"}}, nil)
	return map[string]any{"wrongKey": status(wrongKey), "wrongSchema": status(wrongSchema)}
}

func manage(in given, credential azcore.TokenCredential, options *arm.ClientOptions) map[string]any {
	ctx := context.Background()
	topics := must(armeventgrid.NewTopicsClient(in.Subscription, credential, options))
	created := must(topics.BeginCreateOrUpdate(ctx, group, "go-topic", armeventgrid.Topic{
		Location: to.Ptr("local"), Tags: map[string]*string{"team": to.Ptr("red")},
	}, nil))
	made := must(created.PollUntilDone(ctx, nil))
	keys := must(topics.ListSharedAccessKeys(ctx, group, "go-topic", nil))

	subscriptions := must(armeventgrid.NewEventSubscriptionsClient(in.Subscription, credential, options))
	subscribed := must(subscriptions.BeginCreateOrUpdate(ctx, *made.ID, "go-hook", armeventgrid.EventSubscription{
		Properties: &armeventgrid.EventSubscriptionProperties{
			Destination: &armeventgrid.WebHookEventSubscriptionDestination{
				EndpointType: to.Ptr(armeventgrid.EndpointTypeWebHook),
				Properties: &armeventgrid.WebHookEventSubscriptionDestinationProperties{
					EndpointURL: to.Ptr(in.Endpoint), MaxEventsPerBatch: to.Ptr[int32](7),
				},
			},
			Filter:      &armeventgrid.EventSubscriptionFilter{SubjectBeginsWith: to.Ptr("/red/")},
			RetryPolicy: &armeventgrid.RetryPolicy{MaxDeliveryAttempts: to.Ptr[int32](3)},
		},
	}, nil))
	hook := must(subscribed.PollUntilDone(ctx, nil))
	url := must(subscriptions.GetFullURL(ctx, *made.ID, "go-hook", nil))
	listed := []string{}
	for pager := topics.NewListByResourceGroupPager(group, nil); pager.More(); {
		for _, one := range must(pager.NextPage(ctx)).Value {
			listed = append(listed, *one.Name)
		}
	}
	unsubscribed := must(subscriptions.BeginDelete(ctx, *made.ID, "go-hook", nil))
	must(unsubscribed.PollUntilDone(ctx, nil))
	_, gone := subscriptions.Get(ctx, *made.ID, "go-hook", nil)
	deleted := must(topics.BeginDelete(ctx, group, "go-topic", nil))
	must(deleted.PollUntilDone(ctx, nil))
	return map[string]any{
		"state": made.Properties.ProvisioningState, "team": made.Tags["team"], "key": *keys.Key1 != "",
		"filter": hook.Properties.Filter.SubjectBeginsWith, "attempts": hook.Properties.RetryPolicy.MaxDeliveryAttempts,
		"url": url.EndpointURL, "listed": listed, "gone": status(gone),
	}
}

// The URL of a blob, from a system event as Recapito delivered it.
func blobOf(body json.RawMessage) string {
	var event messaging.CloudEvent
	var data azsystemevents.StorageBlobCreatedEventData
	if err := json.Unmarshal(body, &event); err != nil {
		log.Fatal(err)
	}
	if event.Type != string(azsystemevents.TypeStorageBlobCreated) {
		log.Fatal(event.Type)
	}
	if err := json.Unmarshal(event.Data.([]byte), &data); err != nil {
		log.Fatal(err)
	}
	return *data.URL
}
