// One line for each check: `ok NAME` or `FAIL NAME: why`. QUORLOCK_NODES names the nodes.
"use strict";

const { randomUUID } = require("node:crypto");

const urls = process.env.QUORLOCK_NODES.split(",");
// A node in its restart delay, which gives no locks.
const delayed = process.env.QUORLOCK_DELAYED;
const suffix = delayed ? " with a node in its restart delay" : "";
let failures = 0;

async function check(name, run) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAIL ${name}: ${String(error.message).replaceAll("\n", " ")}`);
  }
}

// Says which version of a client is checked.
function version(client, name = client) {
  const found = require(`./node_modules/${name}/package.json`).version;
  console.log(`version ${client} Node.js ${found.replace(/^v/, "")}`);
}

// What a call of node-redlock gives, which it does once a majority has answered, when every node has answered.
async function onEveryNode(call) {
  const given = await call;
  await Promise.all(given.attempts);
  return given;
}

const fresh = () => `interop:${randomUUID()}`;

function finish() {
  console.log("done");
  process.exit(failures ? 1 : 0);
}

module.exports = { check, delayed, finish, fresh, onEveryNode, suffix, urls, version };
