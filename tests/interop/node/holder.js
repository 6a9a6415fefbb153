// Holds a lock of node-redlock over all nodes. The arguments are the name and how long, in milliseconds. Prints `held` and the token, and
// releases it at the end of its input.
"use strict";

const Redis = require("ioredis").Redis;
const Redlock = require("redlock").default;

async function main() {
  const clients = process.env.QUORLOCK_NODES.split(",").map((url) => new Redis(url));
  const lock = await new Redlock(clients, { retryCount: 0 }).acquire([process.argv[2]], Number(process.argv[3]));
  console.log(`held ${lock.value}`);
  process.stdin.resume();
  process.stdin.on("end", async () => {
    // The lock may have been ended by force.
    await lock.release().catch(() => {});
    // It is content with a majority, and sends the text of its script where that is not known: this may be on its way.
    const end = Date.now() + 5000;
    for (const client of clients) {
      while (Date.now() < end && (await client.exists(process.argv[2]))) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    }
    console.log("released");
    process.exit(0);
  });
}

main().catch((error) => {
  console.log(`refused: ${error}`);
  process.exit(1);
});
