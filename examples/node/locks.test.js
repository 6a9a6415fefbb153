// What happens to locks of node-redlock when nodes die, hang and are cut off, and when their time is up.
"use strict";

const assert = require("node:assert/strict");
const { afterEach, beforeEach, test } = require("node:test");
const { Redis } = require("ioredis");
const Redlock = require("redlock").default;
const { startCluster } = require("./cluster.js");

let cluster, clients, locks;

beforeEach(async () => {
  cluster = await startCluster();
  // A node that does not answer must not take the lock's time.
  const options = { commandTimeout: 500, maxRetriesPerRequest: 0 };
  clients = cluster.urls.map((url) => new Redis(url, options));
  for (const client of clients) client.on("error", () => {});
  locks = new Redlock(clients, { retryCount: 0 });
});

afterEach(async () => {
  for (const client of clients) client.disconnect();
  await cluster.stop();
});

const refused = (name) => assert.rejects(locks.acquire([name], 30000));

test("a majority is enough", async () => {
  await cluster.does("kill", "1");
  await cluster.does("kill", "2");
  await locks.acquire(["a"], 30000);
  await cluster.does("kill", "3");
  await refused("b");
});

test("nodes that hang or are cut off do not vote", async () => {
  await cluster.does("pause", "1");
  await cluster.does("cut", "2");
  await locks.acquire(["a"], 30000);
  await cluster.does("slow", "3", "2s");
  await refused("b");
  await cluster.does("heal");
  await locks.acquire(["c"], 30000);
});

test("a lock ends by its ttl", async () => {
  await locks.acquire(["a"], 30000);
  await refused("a");
  await cluster.does("advance", "31s");
  await locks.acquire(["a"], 30000);
});
