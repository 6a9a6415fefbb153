// ioredis, node-redis and node-redlock, and the checks of the other files here.
"use strict";

const assert = require("node:assert/strict");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis").Redis;
const { createClient } = require("redis");
const Redlock = require("redlock").default;
const { check, delayed, finish, fresh, onEveryNode, suffix, urls, version } = require("./report.js");
const { semaphoreChecks, redlockSemaphoreChecks } = require("./semaphores.js");
const { queueChecks } = require("./queues.js");
const { rightsChecks } = require("./rights.js");

const UNLOCK =
  'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';
const connect = () => urls.map((url) => new Redis(url));
const close = (clients) => Promise.all(clients.map((client) => client.quit()));

async function ioredisChecks() {
  const client = new Redis(urls[0], { connectionName: "interop" });
  await check("ioredis: connects with its defaults", async () => {
    assert.equal(await client.ping(), "PONG");
    assert.equal(await client.client("GETNAME"), "interop");
  });
  await check("ioredis: SET NX PX", async () => {
    const key = fresh();
    assert.equal(await client.set(key, "t1", "PX", 30000, "NX"), "OK");
    assert.equal(await client.set(key, "t2", "PX", 30000, "NX"), null);
    const left = await client.pttl(key);
    assert.ok(left > 0 && left <= 30000, `time left ${left}`);
    assert.equal(await client.eval(UNLOCK, 1, key, "t2"), 0);
    assert.equal(await client.eval(UNLOCK, 1, key, "t1"), 1);
  });
  await check("ioredis: defineCommand", async () => {
    client.defineCommand("unlock", { numberOfKeys: 1, lua: UNLOCK });
    const key = fresh();
    await client.script("FLUSH");
    await client.set(key, "t1", "PX", 30000);
    assert.equal(await client.unlock(key, "t1"), 1);
  });
  await check("ioredis: pipelining", async () => {
    const key = fresh();
    const pipeline = client.pipeline();
    for (let number = 0; number < 200; number += 1) pipeline.set(key, number, "PX", 30000).get(key);
    const replies = await pipeline.exec();
    assert.equal(replies.length, 400);
    replies.forEach(([error, value], index) => {
      assert.equal(error, null);
      assert.equal(value, index % 2 ? String((index - 1) / 2) : "OK");
    });
    await client.del(key);
  });
  await check("ioredis: multi() is all or nothing", async () => {
    const key = fresh();
    const replies = await client.multi().set(key, "1", "PX", 30000).incr(key).exec();
    assert.deepEqual(replies, [[null, "OK"], [null, 2]]);
    await assert.rejects(client.multi().set(key, "9").call("NOSUCHCOMMAND").exec(), /EXECABORT/);
    assert.equal(await client.get(key), "2");
    const other = new Redis(urls[0]);
    await client.watch(key);
    await other.incr(key);
    assert.equal(await client.multi().set(key, "9").exec(), null);
    await other.del(key);
    await other.quit();
  });
  await check("ioredis: an error names the command", async () => {
    await assert.rejects(client.call("NOSUCHCOMMAND"), /ERR unknown command/);
  });
  await client.quit();
}

async function nodeRedisChecks(protocol) {
  const client = createClient({ url: urls[0], RESP: protocol });
  client.on("error", () => {});
  await check(`node-redis: connects with RESP${protocol}`, async () => {
    await client.connect();
    assert.equal(await client.ping(), "PONG");
  });
  await check(`node-redis: SET NX PX and EVAL with RESP${protocol}`, async () => {
    const key = fresh();
    assert.equal(await client.sendCommand(["SET", key, "t1", "NX", "PX", "30000"]), "OK");
    assert.equal(await client.sendCommand(["SET", key, "t2", "NX", "PX", "30000"]), null);
    assert.equal(await client.eval(UNLOCK, { keys: [key], arguments: ["t1"] }), 1);
    await client.hSet(key, { a: "1", b: "2" });
    assert.deepEqual({ ...(await client.hGetAll(key)) }, { a: "1", b: "2" });
    await client.del(key);
  });
  await check(`node-redis: multi() with RESP${protocol}`, async () => {
    const key = fresh();
    const replies = await client.multi().set(key, "1", { PX: 30000 }).incr(key).get(key).exec();
    assert.deepEqual(replies, ["OK", 2, "2"]);
    await client.del(key);
  });
  await client.close();
}

async function redlockChecks() {
  const clients = connect();
  const others = connect();
  const serving = clients.filter((_, index) => urls[index] !== delayed);
  const once = { retryCount: 0 };
  const owner = new Redlock(clients, once);
  const second = new Redlock(others, once);

  await check(`node-redlock: acquires, and a second owner is refused${suffix}`, async () => {
    const name = fresh();
    const lock = await owner.acquire([name], 10000);
    assert.ok(lock.expiration > Date.now());
    await assert.rejects(second.acquire([name], 10000));
    await lock.release();
  });
  await check(`node-redlock: several names at once${suffix}`, async () => {
    const names = [fresh(), fresh(), fresh()];
    const lock = await owner.acquire(names, 10000);
    await assert.rejects(second.acquire([names[1]], 10000));
    await lock.release();
    await (await second.acquire([names[1]], 10000)).release();
  });
  await check(`node-redlock: extends${suffix}`, async () => {
    const name = fresh();
    const lock = await onEveryNode(owner.acquire([name], 1000));
    const extended = await onEveryNode(lock.extend(20000));
    const left = await clients[0].pttl(name);
    assert.ok(left > 10000 && left <= 20000, `time left ${left}`);
    await extended.release();
  });
  await check(`node-redlock: releases on every node${suffix}`, async () => {
    const name = fresh();
    const lock = await onEveryNode(owner.acquire([name], 10000));
    await onEveryNode(lock.release());
    for (const client of serving) assert.equal(await client.exists(name), 0);
  });
  await check(`node-redlock: expires${suffix}`, async () => {
    const name = fresh();
    await owner.acquire([name], 400);
    await assert.rejects(second.acquire([name], 400));
    await sleep(500);
    await (await second.acquire([name], 5000)).release();
  });
  await check(`node-redlock: a lost lock cannot be extended${suffix}`, async () => {
    const name = fresh();
    const lock = await onEveryNode(owner.acquire([name], 10000));
    for (const client of serving) await client.del(name);
    await assert.rejects(lock.extend(10000));
  });
  await check(`node-redlock: ten callers, no overlap${suffix}`, async () => {
    const name = fresh();
    const held = [];
    // Between its own tries node-redlock keeps the votes of a split, and ten callers may block each other without end.
    // Only an acquire that failed as a whole gives them back: one try each, repeated here.
    const end = Date.now() + 60000;
    const acquired = async (redlock) => {
      for (;;) {
        try {
          return await redlock.acquire([name], 1000);
        } catch (error) {
          if (Date.now() > end) throw error;
          await sleep(5 + Math.random() * 30);
        }
      }
    };
    const callers = Array.from({ length: 10 }, async () => {
      const nodes = connect();
      const redlock = new Redlock(nodes, { retryCount: 0 });
      for (let round = 0; round < 3; round += 1) {
        const lock = await acquired(redlock);
        const start = process.hrtime.bigint();
        await sleep(2);
        held.push([start, process.hrtime.bigint()]);
        await lock.release();
      }
      await close(nodes);
    });
    await Promise.all(callers);
    held.sort((a, b) => (a[0] < b[0] ? -1 : 1));
    assert.equal(held.length, 30);
    const overlaps = held.filter((one, index) => index > 0 && one[0] < held[index - 1][1]);
    assert.equal(overlaps.length, 0);
  });
  await close([...clients, ...others]);
}

async function main() {
  if (!delayed) {
    version("ioredis");
    await ioredisChecks();
    version("node-redis", "redis");
    await nodeRedisChecks(2);
    await nodeRedisChecks(3);
    await semaphoreChecks();
    await queueChecks();
  }
  await redlockSemaphoreChecks();
  version("node-redlock", "redlock");
  await redlockChecks();
  if (!delayed) await rightsChecks();
  finish();
}

main().catch((error) => {
  console.log(`FAIL node: ${String(error.stack).replaceAll("\n", " ")}`);
  process.exit(1);
});
