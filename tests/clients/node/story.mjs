// What every story needs: what it was given, the signed-in management client, and one JSON value as its answer.
import { readFileSync } from "node:fs";
import { EventGridManagementClient } from "@azure/arm-eventgrid";
import { ClientSecretCredential } from "@azure/identity";

export const given = JSON.parse(readFileSync(0, "utf8"));

export const credential = new ClientSecretCredential(given.tenant, given.client, given.secret, {
  authorityHost: given.url,
  disableInstanceDiscovery: true,
});

export const management = new EventGridManagementClient(credential, given.subscription, {
  endpoint: given.url,
  credentialScopes: [`${given.url}/.default`],
});

export const answer = (value) => process.stdout.write(JSON.stringify(value));

export const refused = async (promise) => {
  try {
    await promise;
  } catch (error) {
    return { status: error.statusCode, code: error.code, message: error.message };
  }
  return null;
};

export const all = async (pages) => {
  const found = [];
  for await (const one of pages) found.push(one);
  return found;
};
