// Upload small blobs one by one and side by side, a blob in blocks, and delete one: through the front of an Azurite.
import { readFileSync } from "node:fs";
import { BlobServiceClient, StorageSharedKeyCredential } from "@azure/storage-blob";

const given = JSON.parse(readFileSync(0, "utf8"));
const credential = new StorageSharedKeyCredential(given.account, given.key);
const service = new BlobServiceClient(given.url, credential, { retryOptions: { maxTries: 1 } });
const container = service.getContainerClient(given.container);
await container.create();
const blob = (name) => container.getBlockBlobClient(name);

await blob("small.txt").upload("hello", 5, { blobHTTPHeaders: { blobContentType: "text/plain" } });
await Promise.all([...Array(12).keys()].map((n) => blob(`parallel-${n}`).upload("x".repeat(n), n)));

const ids = ["one", "two"].map((text) => Buffer.from(text).toString("base64"));
for (const id of ids) await blob("staged").stageBlock(id, "y".repeat(70_000), 70_000);
await blob("staged").commitBlockList(ids);

const large = Buffer.alloc(5 << 20, "z");
await blob("large").uploadData(large, { blockSize: 1 << 20, maxSingleShotSize: 1 << 20, concurrency: 4 });
const back = await blob("large").downloadToBuffer();
await blob("small.txt").delete();
process.stdout.write(JSON.stringify({ whole: back.equals(large) }));
