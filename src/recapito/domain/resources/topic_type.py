"""The types of system topics: which Azure resources publish events by themselves, and which events those are."""

import re
from typing import NamedTuple

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
AZURE_SUBSCRIPTION, RESOURCE_GROUP = "Microsoft.Resources/subscriptions", "Microsoft.Resources/resourceGroups"
_GROUP_FORM = "/subscriptions/[^/]+/resourceGroups/[^/]+"


class EventType(NamedTuple):
    """One type of event. A subscription that names no types gets it if `default` is true."""

    name: str
    title: str
    description: str
    default: bool = True


class TopicType(NamedTuple):
    """One type of system topic; `resource_type` is that of its sources."""

    name: str
    provider: str
    resource_type: str
    title: str
    description: str
    events: tuple[EventType, ...]

    def may_have(self, source: str) -> bool:
        """Whether an Azure resource id can be that of a source."""
        if self.resource_type == AZURE_SUBSCRIPTION:
            return re.fullmatch("/subscriptions/[^/]+", source, re.IGNORECASE) is not None
        if self.resource_type == RESOURCE_GROUP:
            return re.fullmatch(_GROUP_FORM, source, re.IGNORECASE) is not None
        return f"/providers/{self.resource_type}/".lower() in source.lower()


def _type(name: str, resource_type: str, title: str, events: str) -> TopicType:
    """A type whose events are given by the last part of their names, or by all of it."""
    provider = name.rpartition(".")[0]
    full = [event if "." in event else f"{provider}.{event}" for event in events.split()]
    titles = [_WORDS.sub(" ", event.rpartition(".")[2]) for event in full]
    made = tuple(EventType(event, words, f"{words}.") for event, words in zip(full, titles, strict=True))
    return TopicType(name, provider, resource_type, title, f"Events of {title}.", made)


STORAGE = TopicType(
    "Microsoft.Storage.StorageAccounts",
    "Microsoft.Storage",
    "Microsoft.Storage/storageAccounts",
    "Storage Accounts",
    "Events of a storage account.",
    (
        EventType("Microsoft.Storage.BlobCreated", "Blob Created", "A blob was created or replaced."),
        EventType("Microsoft.Storage.BlobDeleted", "Blob Deleted", "A blob was deleted."),
        EventType("Microsoft.Storage.BlobRenamed", "Blob Renamed", "A blob was renamed.", False),
        EventType("Microsoft.Storage.BlobTierChanged", "Blob Tier Changed", "A blob moved to another tier.", False),
        EventType(
            "Microsoft.Storage.AsyncOperationInitiated",
            "Async Operation Initiated",
            "A blob began to move out of the archive.",
            False,
        ),
        EventType("Microsoft.Storage.DirectoryCreated", "Directory Created", "A directory was created.", False),
        EventType("Microsoft.Storage.DirectoryDeleted", "Directory Deleted", "A directory was deleted.", False),
        EventType("Microsoft.Storage.DirectoryRenamed", "Directory Renamed", "A directory was renamed.", False),
        EventType(
            "Microsoft.Storage.BlobInventoryPolicyCompleted",
            "Blob Inventory Completed",
            "A run of a blob inventory policy ended.",
            False,
        ),
        EventType(
            "Microsoft.Storage.LifecyclePolicyCompleted",
            "Lifecycle Policy Completed",
            "A run of a lifecycle policy ended.",
            False,
        ),
    ),
)
_RESOURCES = (
    "ResourceWriteSuccess ResourceWriteFailure ResourceWriteCancel ResourceDeleteSuccess ResourceDeleteFailure"
    " ResourceDeleteCancel ResourceActionSuccess ResourceActionFailure ResourceActionCancel"
)
_NOTIFICATIONS = "Microsoft.ResourceNotifications"
TOPIC_TYPES = (
    STORAGE,
    _type(
        "Microsoft.ApiCenter.Services",
        "Microsoft.ApiCenter/services",
        "API Centers",
        "ApiDefinitionAdded ApiDefinitionUpdated",
    ),
    _type(
        "Microsoft.ApiManagement.Service",
        "Microsoft.ApiManagement/service",
        "API Management Services",
        "APICreated APIUpdated APIDeleted APIReleaseCreated APIReleaseUpdated APIReleaseDeleted ProductCreated"
        " ProductUpdated ProductDeleted SubscriptionCreated SubscriptionUpdated SubscriptionDeleted UserCreated"
        " UserUpdated UserDeleted GatewayCreated GatewayUpdated GatewayDeleted GatewayAPIAdded GatewayAPIRemoved"
        " GatewayCertificateAuthorityCreated GatewayCertificateAuthorityUpdated GatewayCertificateAuthorityDeleted"
        " GatewayHostnameConfigurationCreated GatewayHostnameConfigurationUpdated GatewayHostnameConfigurationDeleted"
        " GatewayTokenNearExpiry GatewayTokenExpired"
        " Microsoft.ApiManagement.CircuitBreaker.Opened Microsoft.ApiManagement.CircuitBreaker.Closed",
    ),
    _type(
        "Microsoft.AppConfiguration.ConfigurationStores",
        "Microsoft.AppConfiguration/configurationStores",
        "App Configuration",
        "KeyValueModified KeyValueDeleted SnapshotCreated SnapshotModified",
    ),
    _type(
        "Microsoft.AVS.PrivateClouds",
        "Microsoft.AVS/privateClouds",
        "VMware Solution",
        "ClusterCreated ClusterUpdating ClusterUpdated ClusterDeleted ClusterFailed PrivateCloudUpdating"
        " PrivateCloudUpdated PrivateCloudFailed ScriptExecutionStarted ScriptExecutionFinished"
        " ScriptExecutionCancelled ScriptExecutionFailed",
    ),
    _type(
        "Microsoft.Cache.Redis",
        "Microsoft.Cache/Redis",
        "Cache for Redis",
        "PatchingCompleted ScalingCompleted ExportRDBCompleted ImportRDBCompleted",
    ),
    _type(
        "Microsoft.Communication.CommunicationServices",
        "Microsoft.Communication/communicationServices",
        "Communication Services",
        "SMSReceived SMSDeliveryReportReceived EmailDeliveryReportReceived EmailEngagementTrackingReportReceived"
        " AdvancedMessageReceived AdvancedMessageDeliveryStatusUpdated IncomingCall CallStarted CallEnded"
        " CallParticipantAdded CallParticipantRemoved RecordingFileStatusUpdated UserDisconnected ChatMessageReceived"
        " ChatMessageEdited ChatMessageDeleted ChatMessageReceivedInThread ChatMessageEditedInThread"
        " ChatMessageDeletedInThread ChatThreadCreated ChatThreadDeleted ChatThreadPropertiesUpdated"
        " ChatThreadCreatedWithUser ChatThreadWithUserDeleted ChatThreadPropertiesUpdatedPerUser"
        " ChatParticipantAddedToThreadWithUser ChatParticipantRemovedFromThreadWithUser"
        " ChatMemberAddedToThreadWithUser ChatMemberRemovedFromThreadWithUser ChatThreadParticipantAdded"
        " ChatThreadParticipantRemoved ChatTypingIndicatorReceivedInThread ChatAzureBotCommandReceivedInThread"
        " RouterJobReceived RouterJobClassified RouterJobClassificationFailed RouterJobQueued RouterJobClosed"
        " RouterJobCompleted RouterJobCancelled RouterJobDeleted RouterJobExceptionTriggered RouterJobUnassigned"
        " RouterJobSchedulingFailed RouterJobWaitingForActivation RouterJobWorkerSelectorsExpired"
        " RouterWorkerRegistered RouterWorkerDeregistered RouterWorkerUpdated RouterWorkerDeleted"
        " RouterWorkerOfferIssued RouterWorkerOfferAccepted RouterWorkerOfferDeclined RouterWorkerOfferExpired"
        " RouterWorkerOfferRevoked",
    ),
    _type(
        "Microsoft.ContainerRegistry.Registries",
        "Microsoft.ContainerRegistry/registries",
        "Container Registries",
        "ImagePushed ImageDeleted ChartPushed ChartDeleted",
    ),
    _type(
        "Microsoft.ContainerService.ManagedClusters",
        "Microsoft.ContainerService/managedClusters",
        "Kubernetes Services",
        "NewKubernetesVersionAvailable ClusterSupportEnding ClusterSupportEnded NodePoolRollingStarted"
        " NodePoolRollingSucceeded NodePoolRollingFailed",
    ),
    _type("Microsoft.DataBox.Jobs", "Microsoft.DataBox/jobs", "Data Box", "CopyStarted CopyCompleted OrderCompleted"),
    _type(
        "Microsoft.Devices.IoTHubs",
        "Microsoft.Devices/IotHubs",
        "IoT Hubs",
        "DeviceCreated DeviceDeleted DeviceConnected DeviceDisconnected DeviceTelemetry",
    ),
    _type(
        "Microsoft.EventGrid.Namespaces",
        "Microsoft.EventGrid/namespaces",
        "Event Grid Namespaces",
        "MQTTClientSessionConnected MQTTClientSessionDisconnected MQTTClientCreatedOrUpdated MQTTClientDeleted",
    ),
    _type(
        "Microsoft.Eventhub.Namespaces",
        "Microsoft.EventHub/namespaces",
        "Event Hubs Namespaces",
        "Microsoft.EventHub.CaptureFileCreated",
    ),
    _type(
        "Microsoft.HealthcareApis.Workspaces",
        "Microsoft.HealthcareApis/workspaces",
        "Health Data Services",
        "FhirResourceCreated FhirResourceUpdated FhirResourceDeleted DicomImageCreated DicomImageUpdated"
        " DicomImageDeleted",
    ),
    _type(
        "Microsoft.KeyVault.vaults",
        "Microsoft.KeyVault/vaults",
        "Key Vaults",
        "CertificateNewVersionCreated CertificateNearExpiry CertificateExpired KeyNewVersionCreated KeyNearExpiry"
        " KeyExpired SecretNewVersionCreated SecretNearExpiry SecretExpired VaultAccessPolicyChanged",
    ),
    _type(
        "Microsoft.MachineLearningServices.Workspaces",
        "Microsoft.MachineLearningServices/workspaces",
        "Machine Learning",
        "ModelRegistered ModelDeployed RunCompleted RunStatusChanged DatasetDriftDetected",
    ),
    _type(
        "Microsoft.Maps.Accounts", "Microsoft.Maps/accounts", "Maps", "GeofenceEntered GeofenceExited GeofenceResult"
    ),
    _type(
        "Microsoft.Media.MediaServices",
        "Microsoft.Media/mediaServices",
        "Media Services",
        "JobStateChange JobScheduled JobProcessing JobCanceling JobFinished JobCanceled JobErrored JobOutputStateChange"
        " JobOutputScheduled JobOutputProcessing JobOutputCanceling JobOutputFinished JobOutputCanceled"
        " JobOutputErrored JobOutputProgress LiveEventEncoderConnected LiveEventConnectionRejected"
        " LiveEventEncoderDisconnected LiveEventIncomingStreamReceived LiveEventIncomingDataChunkDropped"
        " LiveEventIncomingStreamsOutOfSync LiveEventIncomingVideoStreamsOutOfSync LiveEventIngestHeartbeat"
        " LiveEventTrackDiscontinuityDetected LiveEventChannelArchiveHeartbeat",
    ),
    _type(
        "Microsoft.PolicyInsights.PolicyStates",
        AZURE_SUBSCRIPTION,
        "Policy States",
        "PolicyStateCreated PolicyStateChanged PolicyStateDeleted",
    ),
    _type(
        f"{_NOTIFICATIONS}.ContainerServiceEventResources",
        AZURE_SUBSCRIPTION,
        "Kubernetes Notifications",
        f"{_NOTIFICATIONS}.ContainerServiceEventResources.ScheduledEventEmitted",
    ),
    _type(
        f"{_NOTIFICATIONS}.HealthResources",
        AZURE_SUBSCRIPTION,
        "Health Notifications",
        f"{_NOTIFICATIONS}.HealthResources.AvailabilityStatusChanged"
        f" {_NOTIFICATIONS}.HealthResources.ResourceAnnotated",
    ),
    _type(
        f"{_NOTIFICATIONS}.Resources",
        AZURE_SUBSCRIPTION,
        "Resource Notifications",
        f"{_NOTIFICATIONS}.Resources.CreatedOrUpdated {_NOTIFICATIONS}.Resources.Deleted",
    ),
    _type("Microsoft.Resources.ResourceGroups", RESOURCE_GROUP, "Resource Groups", _RESOURCES),
    _type("Microsoft.Resources.Subscriptions", AZURE_SUBSCRIPTION, "Azure Subscriptions", _RESOURCES),
    _type(
        "Microsoft.ServiceBus.Namespaces",
        "Microsoft.ServiceBus/namespaces",
        "Service Bus Namespaces",
        "ActiveMessagesAvailableWithNoListeners DeadletterMessagesAvailableWithNoListeners"
        " ActiveMessagesAvailablePeriodicNotifications DeadletterMessagesAvailablePeriodicNotifications",
    ),
    _type(
        "Microsoft.SignalRService.SignalR",
        "Microsoft.SignalRService/SignalR",
        "SignalR Services",
        "ClientConnectionConnected ClientConnectionDisconnected",
    ),
    _type("Microsoft.Web.ServerFarms", "Microsoft.Web/serverfarms", "App Service Plans", "AppServicePlanUpdated"),
    _type(
        "Microsoft.Web.Sites",
        "Microsoft.Web/sites",
        "App Services",
        "AppUpdated BackupOperationStarted BackupOperationCompleted BackupOperationFailed RestoreOperationStarted"
        " RestoreOperationCompleted RestoreOperationFailed SlotSwapStarted SlotSwapCompleted SlotSwapFailed"
        " SlotSwapWithPreviewStarted SlotSwapWithPreviewCancelled",
    ),
)
_BY_NAME = {one.name.lower(): one for one in TOPIC_TYPES}


def topic_type(name: str) -> TopicType | None:
    """The type of that name, without regard to case."""
    return _BY_NAME.get(name.lower())
