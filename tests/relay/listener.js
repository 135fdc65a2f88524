// A listener of a hybrid connection with Microsoft's own library: it prints each request that arrives as a line of JSON.
const https = require("hyco-https");

const [host, path, name, key] = process.argv.slice(2);
// The library writes port 443 and TLS into every address; the front of the tests has neither.
const address = https.createRelayListenUri(host, path).replace(":443/", "/").replace("wss://", "ws://");
const token = () => https.createRelayToken(`http://${host}/${path}`, name, key);
const tell = (what) => process.stdout.write(JSON.stringify(what) + "\n");

const server = https.createRelayedServer({ server: address, token }, (request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(Buffer.from(part)));
  request.on("end", () => {
    const body = Buffer.concat(parts).toString("utf8");
    tell({ method: request.method, url: request.url, headers: request.headers, body });
    response.statusCode = Number(request.headers["x-answer"] || 202);
    response.end(response.statusCode === 202 ? "" : "the listener says so");
  });
});
server.on("error", (error) => tell({ error: String(error) }));
server.on("listening", () => tell({ listening: true }));
server.listen();
