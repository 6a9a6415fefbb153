// Users with exactly the rights that the book gives for node-redlock, and with one right less. QUORLOCK_RIGHTS is that page.
"use strict";

const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const Redis = require("ioredis").Redis;
const Redlock = require("redlock").default;
const { check, fresh, onEveryNode, urls } = require("./report.js");

function rulesOf(library) {
  const lines = readFileSync(process.env.QUORLOCK_RIGHTS, "utf8").split("\n");
  const row = lines.find((line) => line.startsWith(`| ${library} |`));
  return row.match(/\| `(\+[^`]+)`/)[1].replaceAll("\\|", "|").split(" ");
}

// Whether a lock is taken, refused to a second one, extended and released by a user with these rules.
async function works(rules) {
  const user = fresh().replaceAll(":", "-");
  const admins = urls.map((url) => new Redis(url));
  for (const admin of admins) {
    await admin.call("ACL", "SETUSER", user, "on", ">pw", "~interop:*", "+ping", ...rules);
    await admin.script("FLUSH");
  }
  const options = { username: user, password: "pw", maxRetriesPerRequest: 0, retryStrategy: null };
  const clients = urls.map((url) => new Redis(url, options));
  for (const client of clients) client.on("error", () => {});
  const redlock = new Redlock(clients, { retryCount: 0 });
  redlock.on("error", () => {});
  try {
    const name = fresh();
    const lock = await onEveryNode(redlock.acquire([name], 3000));
    await assert.rejects(redlock.acquire([name], 3000));
    for (const admin of admins) await admin.pexpire(name, 2000);
    const extended = await onEveryNode(lock.extend(5000));
    const left = await Promise.all(admins.map((admin) => admin.pttl(name)));
    if (left.some((one) => one <= 2000)) return false;
    await onEveryNode(extended.release());
    const there = await Promise.all(admins.map((admin) => admin.exists(name)));
    return there.every((one) => one === 0);
  } catch {
    return false;
  } finally {
    for (const client of clients) client.disconnect();
    for (const admin of admins) await admin.call("ACL", "DELUSER", user);
    for (const admin of admins) admin.disconnect();
  }
}

async function rightsChecks() {
  const rules = rulesOf("node-redlock");
  await check("node-redlock: works with the rights of the book", async () => {
    assert.ok(await works(rules), `not with ${rules}`);
  });
  await check("node-redlock: fails with one right less", async () => {
    const needless = [];
    for (const rule of rules) {
      if (await works(rules.filter((other) => other !== rule))) needless.push(rule);
    }
    assert.deepEqual(needless, []);
  });
}

module.exports = { rightsChecks };
