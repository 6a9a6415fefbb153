// redis-semaphore: mutexes and semaphores on one node, and their like over all nodes.
"use strict";

const assert = require("node:assert/strict");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis").Redis;
const {
  Mutex, Semaphore, MultiSemaphore, RedlockMutex, RedlockSemaphore,
} = require("redis-semaphore");
const { check, delayed, fresh, suffix, urls, version } = require("./report.js");

const PATIENT = { lockTimeout: 10000, acquireTimeout: 8000, retryInterval: 5 };
const ONCE = { lockTimeout: 10000, acquireTimeout: 2000, acquireAttemptsLimit: 1 };

// Callers that take what `make` makes, at most `most` of them at once.
async function atMost(most, make, callers = 8, rounds = 3) {
  let inside = 0;
  let peak = 0;
  let count = 0;
  const caller = async () => {
    for (let round = 0; round < rounds; round += 1) {
      const lock = make();
      await lock.acquire();
      inside += 1;
      peak = Math.max(peak, inside);
      await sleep(3);
      inside -= 1;
      count += 1;
      await lock.release();
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  assert.equal(count, callers * rounds);
  assert.ok(peak <= most, `${peak} held it at once`);
  return peak;
}

async function semaphoreChecks() {
  const client = new Redis(urls[0]);
  const other = new Redis(urls[0]);
  version("redis-semaphore");

  await check("redis-semaphore: Mutex, a second owner is refused", async () => {
    const name = fresh();
    const mutex = new Mutex(client, name, ONCE);
    await mutex.acquire();
    assert.equal(await new Mutex(other, name, ONCE).tryAcquire(), false);
    await mutex.release();
    const next = new Mutex(other, name, ONCE);
    assert.equal(await next.tryAcquire(), true);
    await next.release();
  });
  await check("redis-semaphore: Mutex, is renewed", async () => {
    const name = fresh();
    const mutex = new Mutex(client, name, { lockTimeout: 300, refreshInterval: 60 });
    await mutex.acquire();
    await sleep(700);
    assert.equal(mutex.isAcquired, true);
    assert.equal(await new Mutex(other, name, ONCE).tryAcquire(), false);
    await mutex.release();
  });
  await check("redis-semaphore: Mutex, a lost lock is noticed", async () => {
    const name = fresh();
    const lost = new Promise((resolve) => {
      const options = { lockTimeout: 300, refreshInterval: 30, onLockLost: resolve };
      new Mutex(client, name, options).acquire().then(() => other.del(`mutex:${name}`));
    });
    assert.match((await lost).message, /^Lost mutex/);
  });
  await check("redis-semaphore: Mutex, eight callers, no overlap", async () => {
    const name = fresh();
    await atMost(1, () => new Mutex(client, name, PATIENT));
  });
  await check("redis-semaphore: Semaphore, three at once", async () => {
    const name = fresh();
    assert.equal(await atMost(3, () => new Semaphore(client, name, 3, PATIENT)), 3);
    const permits = [1, 2, 3].map(() => new Semaphore(client, name, 3, ONCE));
    for (const permit of permits) assert.equal(await permit.tryAcquire(), true);
    assert.equal(await new Semaphore(other, name, 3, ONCE).tryAcquire(), false);
    for (const permit of permits) await permit.release();
  });
  await check("redis-semaphore: Semaphore, permits expire", async () => {
    const name = fresh();
    const brief = { ...ONCE, lockTimeout: 200, refreshInterval: 0 };
    assert.equal(await new Semaphore(client, name, 1, brief).tryAcquire(), true);
    const next = new Semaphore(other, name, 1, { ...PATIENT, lockTimeout: 200 });
    assert.equal(await next.tryAcquire(), true);
    await next.release();
  });
  await check("redis-semaphore: MultiSemaphore", async () => {
    const name = fresh();
    const two = new MultiSemaphore(client, name, 3, 2, ONCE);
    await two.acquire();
    assert.equal(await new MultiSemaphore(other, name, 3, 2, ONCE).tryAcquire(), false);
    const one = new MultiSemaphore(other, name, 3, 1, ONCE);
    assert.equal(await one.tryAcquire(), true);
    await Promise.all([one.release(), two.release()]);
    assert.equal(await atMost(1, () => new MultiSemaphore(client, name, 3, 2, PATIENT)), 1);
  });
  client.disconnect();
  other.disconnect();
}

async function redlockSemaphoreChecks() {
  const clients = urls.map((url) => new Redis(url));
  const others = urls.map((url) => new Redis(url));
  const serving = clients.filter((_, index) => urls[index] !== delayed);
  if (delayed) version("redis-semaphore");

  await check(`redis-semaphore: RedlockMutex, a second owner is refused${suffix}`, async () => {
    const name = fresh();
    const mutex = new RedlockMutex(clients, name, ONCE);
    await mutex.acquire();
    assert.equal(await new RedlockMutex(others, name, ONCE).tryAcquire(), false);
    await mutex.release();
    for (const client of serving) assert.equal(await client.exists(`mutex:${name}`), 0);
    const next = new RedlockMutex(others, name, ONCE);
    assert.equal(await next.tryAcquire(), true);
    await next.release();
  });
  await check(`redis-semaphore: RedlockMutex, eight callers, no overlap${suffix}`, async () => {
    const name = fresh();
    await atMost(1, () => new RedlockMutex(clients, name, PATIENT));
  });
  await check(`redis-semaphore: RedlockSemaphore, at most three at once${suffix}`, async () => {
    const name = fresh();
    await atMost(3, () => new RedlockSemaphore(clients, name, 3, PATIENT));
  });
  for (const client of [...clients, ...others]) client.disconnect();
}

module.exports = { semaphoreChecks, redlockSemaphoreChecks };
