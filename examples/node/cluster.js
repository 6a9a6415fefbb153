// A cluster of Quorlock nodes for a test. QUORLOCK names the program, if it is not in the PATH.
"use strict";

const { execFile, spawn } = require("node:child_process");
const { once } = require("node:events");
const { createInterface } = require("node:readline");
const { promisify } = require("node:util");

const PROGRAM = process.env.QUORLOCK ?? "quorlock";
const run = promisify(execFile);

// Starts five nodes in memory. They end with `stop`.
async function startCluster() {
  const words = ["cluster", "up", "--ephemeral", "--base-port", "0", "--json"];
  const child = spawn(PROGRAM, words, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  const [line] = await once(createInterface(child.stdout), "line");
  // Events follow; a pipe that nobody reads would fill up.
  child.stdout.destroy();
  const said = JSON.parse(line);
  if (said.error) throw new Error(said.error.message);
  return {
    urls: said.nodes.map((node) => node.url),
    // Has something done to nodes, such as `kill 3`. Rejects where that is refused.
    does: (...words) => run(PROGRAM, ["cluster", ...words, "--dir", said.dir]),
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

module.exports = { startCluster };
