"""Fragments of the README made into programs, in folders into which `install` has put what they need.

Only what a fragment leaves to its reader stands here: imports, a function around it, the work that the lock protects. A name in
round brackets after a language in the README, such as `pip install pottery`, is what is installed.
"""

import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
INTEROP = os.path.dirname(HERE)
ROOT = os.path.normpath(os.path.join(INTEROP, "../.."))

ABSENT = "absent"

PYTHON = "{block}\n"

# The fragment leaves to its program what is open. `using` ends with the majority's answers: what is still on its way to the others, and
# what follows where a node does not know the script, is waited for before the program ends. A node that is down is not.
JS = """const ioredis = require("ioredis");
const open = [];
ioredis.Redis = class extends ioredis.Redis {{ constructor(...options) {{ super(...options); open.push(this); }} }};
(async () => {{
{block}
}})()
    .then(async () => {{
        const goes = (redis) => ["connecting", "connect", "ready"].includes(redis.status);
        const asked = () => open.some((redis) => goes(redis) && redis.commandQueue.length + redis.offlineQueue.length > 0);
        // Looked at between two events, never within one: there a refusal may be read and what follows it not yet sent.
        do await new Promise((resolve) => setTimeout(resolve, 5)); while (asked());
        await Promise.allSettled(open.filter((redis) => redis.status !== "reconnecting").map((redis) => redis.quit()));
        process.exit(0);
    }});
"""

GO = """package main

import (
	"fmt"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

func run() error {{
{block}
	return nil
}}

func main() {{
	if err := run(); err != nil {{
		fmt.Println(err)
		os.Exit(1)
	}}
}}
"""

RUST = """#![allow(unused)]
use std::time::Duration;

use quorlock_client::Redlock;
use quorlock_server::Node;

async fn back_up() {{}}
async fn do_the_backup() {{}}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {{
{block}
    Ok(())
}}
"""

RUST_PACKAGE = """[package]
name = "quorlock-blocks"
version = "0.0.0"
edition = "2024"
publish = false

[dependencies]
quorlock-client = {{ path = "{root}/client" }}
quorlock-server = {{ path = "{root}/server" }}
quorlock-test = {{ path = "{root}/quorlock-test" }}
tokio = {{ version = "1", features = ["rt-multi-thread", "macros", "time"] }}

[profile.dev]
debug = "line-tables-only"

[workspace]
"""


class Failed(Exception):
    """A program that did not end with 0, with the end of what it said."""


class Absent(Exception):
    """What a language needs is not to be had on this machine."""


def carry_out(words, folder, environment, limit):
    done = subprocess.run(words, cwd=folder, env=environment, timeout=limit, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)} ended with {done.returncode}: {done.stdout[-800:]}")


def write(path, template, block):
    with open(path, "w", encoding="utf-8") as file:
        file.write(template.format(block=block))


def run(language, block, scratch, environment, limit):
    """Runs a fragment. What is missing on this machine is a failure: install has been asked for it."""
    folder = os.path.join(scratch, "programs", language)
    if language == "python":
        write(os.path.join(folder, "block.py"), PYTHON, block)
        carry_out([os.path.join(folder, "venv/bin/python"), "block.py"], folder, environment, limit)
    elif language == "js":
        write(os.path.join(folder, "block.js"), JS, block)
        carry_out(["node", "block.js"], folder, environment, limit)
    elif language == "go":
        if os.path.exists(os.path.join(folder, ABSENT)):
            raise Absent("its modules cannot be fetched")
        write(os.path.join(folder, "block.go"), GO, block)
        carry_out(["go", "build", "-o", "block", "block.go"], folder, environment, limit)
        carry_out([os.path.join(folder, "block")], folder, environment, limit)
    elif language == "rust":
        # Copied from the root, so that what the workspace has built is used again.
        write(os.path.join(folder, "src/main.rs"), RUST, block)
        target = environment.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
        carry_out(["cargo", "run", "--quiet", "--target-dir", target], folder, environment, limit)
    else:
        raise Failed(f"nothing is known of {language}")


def named(program):
    """The command that the README names for an installation."""
    with open(os.path.join(ROOT, "README.md"), encoding="ascii") as file:
        found = re.search(rf"`({program} install [^`]+)`", file.read())
    if not found:
        raise Failed(f"the README does not say what {program} has to install")
    return found[1].split()[2:]


def install(scratch):
    """What the README's programs need, as the README says where it does."""
    environment = dict(os.environ)
    folders = {name: os.path.join(scratch, "programs", name) for name in ("python", "js", "go", "rust")}
    for folder in folders.values():
        os.makedirs(folder, exist_ok=True)
    venv = os.path.join(folders["python"], "venv")
    carry_out([sys.executable, "-m", "venv", venv], folders["python"], environment, 300)
    # Versions that the checks of clients have as well.
    constraints = os.path.join(INTEROP, "python/requirements.txt")
    packages = named("pip") + ["-c", constraints]
    carry_out([os.path.join(venv, "bin/pip"), "install", *packages], folders["python"], environment, 300)
    carry_out(["npm", "install", "--no-audit", "--no-fund", *named("npm")], folders["js"], environment, 300)
    for name in ("go.mod", "go.sum"):
        shutil.copy(os.path.join(INTEROP, "go", name), folders["go"])
    # They come from a proxy that not every machine reaches; all else is there for everyone.
    try:
        carry_out(["go", "mod", "download"], folders["go"], environment, 300)
    except (Failed, OSError, subprocess.TimeoutExpired):
        write(os.path.join(folders["go"], ABSENT), "", "")
    os.makedirs(os.path.join(folders["rust"], "src"), exist_ok=True)
    with open(os.path.join(folders["rust"], "Cargo.toml"), "w", encoding="utf-8") as file:
        file.write(RUST_PACKAGE.format(root=ROOT))
    shutil.copy(os.path.join(ROOT, "Cargo.lock"), folders["rust"])
    write(os.path.join(folders["rust"], "src/main.rs"), RUST, "")
    target = environment.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    carry_out(["cargo", "build", "--quiet", "--target-dir", target], folders["rust"], environment, 1200)


if __name__ == "__main__":
    install(sys.argv[1])
