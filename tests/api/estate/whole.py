"""An estate with every kind of resource, as an export writes it."""

from recapito.domain.estate.estate import NO_SUBSCRIPTION

SHOP = f"/subscriptions/{NO_SUBSCRIPTION}/resourceGroups/shop/providers"
STORE = f"{SHOP}/Microsoft.Storage/storageAccounts/store"
KEY = "MDEyMzQ1Njc4OWFiY2RlZg=="
BUS = f"{SHOP}/Microsoft.ServiceBus/namespaces/bus"
NEWER, OLDER = f"whsec_{'bmV3' * 11}", f"whsec_{'b2xk' * 11}"

WHOLE = f"""
resourceGroup: shop
resourceGroups:
  - {{name: shop, location: local, tags: {{env: prod}}, managedBy: people}}
storageAccounts:
  - name: other
    location: local
    kind: StorageV2
    sku: {{name: Standard_LRS}}
    subscriptions:
      - {{name: of-account, endpoint: 'https://example.com/a', options: {{maxRequests: 1}}}}
  - name: store
    location: local
    kind: BlobStorage
    sku: {{name: Standard_GRS}}
    tags: {{env: prod}}
connections:
  - resourceId: {BUS}
    connectionString: SharedAccessKeyName=p;SharedAccessKey=a2V5;Endpoint=amqps://bus.servicebus.windows.net:5671
  - {{resourceId: {STORE}, azurite: true}}
topics:
  - name: orders
    location: there
    tags: {{env: prod, recapito-profile: 2023-03}}
    inputSchema: CustomEventSchema
    publicNetworkAccess: Disabled
    inboundIpRules: [{{ipMask: 10.0.0.0/8, action: Allow}}]
    disableLocalAuth: true
    inputSchemaMapping:
      inputSchemaMappingType: Json
      properties:
        id: {{sourceField: number}}
        eventType: {{sourceField: kind, defaultValue: none}}
    identity: {{type: SystemAssigned}}
    keys: {{key1: {KEY}, key2: {KEY}}}
    subscriptions:
      - name: everything
        destination:
          endpointType: WebHook
          properties:
            endpointUrl: https://example.com/hook?code=secret
            maxEventsPerBatch: 10
            preferredBatchSizeInKilobytes: 128
            deliveryAttributeMappings:
              - {{name: X-Secret, type: Static, properties: {{value: hush, isSecret: true}}}}
              - {{name: X-Subject, type: Dynamic, properties: {{sourceField: subject}}}}
        filter:
          subjectBeginsWith: /a
          isSubjectCaseSensitive: true
          includedEventTypes: [One, Two]
          enableAdvancedFilteringOnArrays: true
          advancedFilters:
            - {{operatorType: NumberInRange, key: data.n, values: [[1.0, 2.0]]}}
            - {{operatorType: BoolEquals, key: data.b, value: true}}
            - {{operatorType: IsNotNull, key: data.c}}
        options:
          maxRequests: 4
          eventsPerSecond: 50
          signingSecrets: [{NEWER}, {OLDER}]
        labels: [red, green]
        expirationTimeUtc: '2030-01-01T00:00:00.0000000Z'
        eventDeliverySchema: CloudEventSchemaV1_0
        retryPolicy: {{maxDeliveryAttempts: 5, eventTimeToLiveInMinutes: 60}}
        deadLetterDestination:
          endpointType: StorageBlob
          properties: {{resourceId: {STORE}, blobContainerName: dead}}
      - name: to-queue
        destination:
          endpointType: StorageQueue
          properties: {{resourceId: {STORE}, queueName: waiting, queueMessageTimeToLiveInSeconds: 60}}
      - name: to-bus
        deliveryWithResourceIdentity:
          identity: {{type: SystemAssigned}}
          destination: {{endpointType: ServiceBusQueue, properties: {{resourceId: {BUS}/queues/q}}}}
domains:
  - name: many
    location: local
    autoDeleteTopicWithLastSubscription: false
    keys: {{key1: {KEY}, key2: {KEY}}}
    topics:
      - {{name: one}}
      - name: two
        subscriptions:
          - {{name: inner, endpoint: 'https://example.com/b'}}
    subscriptions:
      - {{name: outer, endpoint: 'https://example.com/c', eventDeliverySchema: CloudEventSchemaV1_0}}
systemTopics:
  - name: files
    location: local
    source: {STORE}
    topicType: Microsoft.Storage.StorageAccounts
    subscriptions:
      - name: created
        endpoint: https://example.com/d
        filter: {{includedEventTypes: [Microsoft.Storage.BlobCreated]}}
"""
