// Lock libraries of Node.js on one server, which is an agent. QUORLOCK_AGENTS names two agents of the same nodes: the
// first owner asks one of them, the second owner the other one.
"use strict";

const assert = require("node:assert/strict");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis").Redis;
const Redlock = require("redlock").default;
const { Mutex, Semaphore } = require("redis-semaphore");
const { check, finish, fresh, version } = require("./report.js");

const clients = process.env.QUORLOCK_AGENTS.split(",").map((url) => new Redis(url));
const AWAY = /NOQUORUM|TRYAGAIN/;

// Asks again where the agent could not reach a majority.
async function patiently(call) {
  const end = Date.now() + 30000;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!AWAY.test(error.message) || Date.now() > end) throw error;
      await sleep(20);
    }
  }
}

// Eight callers at the two agents, each of which gets three locks of `acquire` in the end. No two hold one at once.
async function excludes(acquire) {
  const name = fresh();
  const held = [];
  const caller = async (_, index) => {
    const end = Date.now() + 60000;
    for (let round = 0; round < 3; round += 1) {
      let release = null;
      while (!(release = await patiently(() => acquire(clients[index % 2], name)))) {
        assert.ok(Date.now() < end, "no lock within 60 s");
        await sleep(5 + Math.random() * 20);
      }
      const start = process.hrtime.bigint();
      await sleep(2);
      held.push([start, process.hrtime.bigint()]);
      await patiently(release);
    }
  };
  await Promise.all(Array.from({ length: 8 }, caller));
  held.sort((a, b) => (a[0] < b[0] ? -1 : 1));
  assert.equal(held.length, 24);
  const overlaps = held.filter((one, index) => index > 0 && one[0] < held[index - 1][1]);
  assert.equal(overlaps.length, 0);
}

async function redlockChecks() {
  const client = "node-redlock through an agent";
  const [owner, second] = clients.map((one) => new Redlock([one], { retryCount: 0 }));
  version(client, "redlock");
  await check(`${client}: acquires, and a second owner is refused`, async () => {
    const name = fresh();
    const lock = await owner.acquire([name], 4000);
    await assert.rejects(second.acquire([name], 4000));
    await lock.release();
    await (await second.acquire([name], 4000)).release();
    assert.equal(await clients[0].exists(name), 0);
  });
  await check(`${client}: extends`, async () => {
    const name = fresh();
    const extended = await (await owner.acquire([name], 800)).extend(4000);
    await sleep(1200);
    await assert.rejects(second.acquire([name], 1000));
    await extended.release();
  });
  await check(`${client}: expires, and a lost lock is not released`, async () => {
    const name = fresh();
    const lock = await owner.acquire([name], 500);
    const patient = new Redlock([clients[1]], { retryCount: 100, retryDelay: 50 });
    const next = await patient.acquire([name], 4000);
    assert.ok(Date.now() >= lock.expiration, "before its time was over");
    await assert.rejects(lock.extend(4000));
    // It answers as if the lock were released, and the next owner keeps it.
    await lock.release().catch(() => {});
    assert.equal(await clients[0].exists(name), 1);
    await next.release();
  });
  await check(`${client}: eight callers, no overlap`, () =>
    excludes(async (server, name) => {
      const lock = await new Redlock([server], { retryCount: 0 }).acquire([name], 4000).catch(() => null);
      return lock && (() => lock.release());
    }));
  await check(`${client}: several names at once are taken, extended and released together`, async () => {
    const [one, two, free] = [fresh(), fresh(), fresh()];
    let lock = await owner.acquire([one, two], 4000);
    // Another agent refuses one of them, and gives none of what was asked for with it.
    await assert.rejects(second.acquire([free, two], 4000));
    assert.equal(await clients[1].exists(free, one), 1);
    lock = await lock.extend(8000);
    assert.ok((await clients[1].pttl(one)) > 5000);
    await lock.release();
    await (await second.acquire([two, free, one], 4000)).release();
  });
}

async function semaphoreChecks() {
  const client = "redis-semaphore through an agent";
  const once = { lockTimeout: 4000, acquireTimeout: 5000, acquireAttemptsLimit: 1 };
  version(client, "redis-semaphore");
  await check(`${client}: Mutex, a second owner is refused`, async () => {
    const name = fresh();
    const mutex = new Mutex(clients[0], name, once);
    await mutex.acquire();
    const other = new Mutex(clients[1], name, once);
    assert.equal(await other.tryAcquire(), false);
    await mutex.release();
    assert.equal(await other.tryAcquire(), true);
    await other.release();
  });
  await check(`${client}: Mutex, is renewed`, async () => {
    const name = fresh();
    const mutex = new Mutex(clients[0], name, { lockTimeout: 1000, refreshInterval: 100 });
    await mutex.acquire();
    await sleep(2000);
    assert.equal(mutex.isAcquired, true);
    assert.equal(await new Mutex(clients[1], name, once).tryAcquire(), false);
    await mutex.release();
  });
  await check(`${client}: Mutex, a lost lock is noticed`, async () => {
    const name = fresh();
    const lost = new Promise((resolve) => {
      const options = { lockTimeout: 1000, refreshInterval: 50, onLockLost: resolve };
      new Mutex(clients[0], name, options).acquire().then(() => clients[1].del(`mutex:${name}`));
    });
    const late = sleep(10000, new Error("nothing was noticed"), { ref: false });
    assert.match((await Promise.race([lost, late])).message, /^Lost mutex/);
  });
  await check(`${client}: Mutex, eight callers, no overlap`, () =>
    excludes(async (server, name) => {
      const mutex = new Mutex(server, name, { ...once, refreshInterval: 0 });
      return (await mutex.tryAcquire()) && (() => mutex.release());
    }));
  await check(`${client}: Semaphore is refused by name`, async () => {
    await assert.rejects(new Semaphore(clients[0], fresh(), 2, once).tryAcquire(), /^ReplyError: NOTALOCK/);
  });
}

async function main() {
  await redlockChecks();
  await semaphoreChecks();
  finish();
}

main().catch((error) => {
  console.log(`FAIL node: ${String(error.stack).replaceAll("\n", " ")}`);
  process.exit(1);
});
