// BullMQ on one node.
"use strict";

const assert = require("node:assert/strict");
const { Queue, QueueEvents, Worker } = require("bullmq");
const { check, fresh, urls, version } = require("./report.js");

function connection() {
  const { hostname, port } = new URL(urls[0]);
  return { host: hostname, port: Number(port), maxRetriesPerRequest: null };
}

async function queueChecks() {
  version("bullmq");
  await check("bullmq: jobs, a worker and events", async () => {
    const name = fresh().replaceAll(":", "-");
    const queue = new Queue(name, { connection: connection() });
    queue.on("error", () => {});
    const first = await queue.add("add", { one: 1, two: 2 });
    const events = new QueueEvents(name, { connection: connection() });
    await events.waitUntilReady();
    const worker = new Worker(name, async (job) => job.data.one + job.data.two, {
      connection: connection(),
    });
    assert.equal(await first.waitUntilFinished(events, 8000), 3);
    const delayed = await queue.add("add", { one: 3, two: 4 }, { delay: 100, priority: 2 });
    assert.equal(await delayed.waitUntilFinished(events, 8000), 7);
    assert.deepEqual(await queue.getJobCounts("completed", "failed"), { completed: 2, failed: 0 });
    await Promise.all([worker.close(), events.close(), queue.close()]);
  });
}

module.exports = { queueChecks };
