"""Fragments of the README and of the book made into programs, in folders into which `install` has put what they need.

Only what a fragment leaves to its reader stands here: imports, a function around it, the work that the lock protects. What a page
says is installed, such as `pip install pottery`, is installed, in the version that the checks of clients have.
"""

import glob
import json
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
        // Looked at between events, and again and again: a refusal may be read and what follows it not yet sent.
        for (let quiet = 0; quiet < 20; quiet = asked() ? 0 : quiet + 1) await new Promise((resolve) => setTimeout(resolve, 5));
        await Promise.allSettled(open.filter((redis) => redis.status !== "reconnecting").map((redis) => redis.quit()));
        process.exit(0);
    }});
"""

GO = """package main

import (
	"fmt"
	"os"
{imports}
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

# What a fragment has of a package, and the package: what is imported in vain is an error of Go's.
GO_IMPORTS = {
    "context.": '"context"',
    "time.": '"time"',
    "redislock.": '"github.com/bsm/redislock"',
    "redis.NewClient": '"github.com/redis/go-redis/v9"',
    "redsync.": '"github.com/go-redsync/redsync/v4"',
    "redis.Pool": '"github.com/go-redsync/redsync/v4/redis"',
    "goredis.": '"github.com/go-redsync/redsync/v4/redis/goredis/v9"',
    "goredislib.": 'goredislib "github.com/redis/go-redis/v9"',
}

JAVA = """import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;

public final class Block {{
    static void backUp() {{}}

    static void run() {{
{block}
    }}

    /** Clients have threads that keep a program running. */
    public static void main(String[] arguments) {{
        try {{
            run();
        }} catch (Throwable error) {{
            error.printStackTrace();
            System.exit(1);
        }}
        System.exit(0);
    }}
}}
"""

PHP = """<?php
set_error_handler(fn ($level, $message) => throw new ErrorException($message, 0, $level));
function back_up(): void {{}}
{block}
"""

RUBY = """require "redis"
require "securerandom"

def back_up; end

{block}
"""

# A block brings its imports.
RUST = """#![allow(unused)]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {{
{block}
    Ok(())
}}
"""

# The crates of Rust that blocks may name.
RUST_CRATES = ("quorlock_client", "quorlock_server", "quorlock_test", "tokio")


class Failed(Exception):
    """A program that did not end with 0, with the end of what it said."""


class Absent(Exception):
    """What a language needs is not to be had on this machine."""


def carry_out(words, folder, environment=None, limit=300):
    done = subprocess.run(words, cwd=folder, env=environment, timeout=limit, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)} ended with {done.returncode}: {done.stdout[-800:]}")


def write(path, template, block, imports=""):
    with open(path, "w", encoding="utf-8") as file:
        file.write(template.format(block=block, imports=imports))


def named(program):
    """The packages that the README and the book name for an installation."""
    found = set()
    for document in ["README.md"] + sorted(glob.glob("docs/book/*.md", root_dir=ROOT)):
        with open(os.path.join(ROOT, document), encoding="ascii") as file:
            for words in re.findall(rf"`{program} install ([^`]+)`", file.read()):
                found.update(words.split())
    if not found:
        raise Failed(f"no page says what {program} has to install")
    return sorted(found)


def prepare_python(folder):
    carry_out([sys.executable, "-m", "venv", "venv"], folder)
    constraints = os.path.join(INTEROP, "python/requirements.txt")
    carry_out(["venv/bin/pip", "install", *named("pip"), "-c", constraints], folder)


def prepare_js(folder):
    with open(os.path.join(INTEROP, "node/package.json"), encoding="utf-8") as file:
        pinned = json.load(file)["dependencies"]
    packages = []
    for package in named("npm"):
        name, _, version = package.partition("@")
        if name not in pinned or version not in ("", pinned[name]):
            raise Failed(f"a page says `npm install {package}`, and the checks of clients have {pinned.get(name)}")
        packages.append(f"{name}@{pinned[name]}")
    carry_out(["npm", "install", "--no-audit", "--no-fund", *packages], folder)


def prepare_go(folder):
    for name in ("go.mod", "go.sum"):
        shutil.copy(os.path.join(INTEROP, "go", name), folder)
    # They come from a proxy that not every machine reaches; all else is there for everyone.
    try:
        carry_out(["go", "mod", "download"], folder)
    except (Failed, OSError, subprocess.TimeoutExpired) as error:
        raise Absent("its modules cannot be fetched") from error


def prepare_java(folder):
    for program in ("javac", "mvn"):
        if not shutil.which(program):
            raise Absent(f"there is no {program} on this machine")
    shutil.copy(os.path.join(INTEROP, "java/pom.xml"), folder)
    carry_out(["mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=libraries"], folder)


def prepare_php(folder):
    present("php", "exit(extension_loaded('redis') ? 0 : 1);", "-r", folder)


def prepare_ruby(folder):
    present("ruby", "require 'redis'", "-e", folder)


def present(program, asks, option, folder):
    """What comes from Debian's packages is there, or has not been installed."""
    try:
        carry_out([program, option, asks], folder)
    except (Failed, OSError) as error:
        raise Absent(f"{program} and its client are not on this machine") from error


def prepare_rust(folder):
    """Blocks are linked with what the workspace has built: as a package of their own they would have all of it compiled again,
    with other features."""
    words = ["cargo", "build", "--quiet", "--locked", "--lib", "--bins", "--examples", "--message-format", "json"]
    told = subprocess.run(words, cwd=ROOT, timeout=1200, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if told.returncode != 0:
        raise Failed(f"{' '.join(words)} ended with {told.returncode}")
    built = {}
    for line in told.stdout.splitlines():
        message = json.loads(line)
        target = message.get("target", {})
        libraries = [name for name in message.get("filenames", []) if name.endswith(".rlib")]
        if target.get("name") in RUST_CRATES and libraries:
            built[target["name"]] = libraries[0]
    lacking = [crate for crate in RUST_CRATES if crate not in built]
    if lacking:
        raise Failed(f"{' '.join(words)} has built no {', '.join(lacking)}")
    arguments = ["--edition=2024", f"-Ldependency={os.path.dirname(built['tokio'])}"]
    arguments += [f"--extern={crate}={path}" for crate, path in built.items()]
    with open(os.path.join(folder, "arguments"), "w", encoding="utf-8") as file:
        file.write("\n".join(arguments))


class Language:
    """The file that a fragment becomes, what stands around it there, the commands that run it, and what they need."""

    def __init__(self, prepare, file, template, *commands, imports=()):
        self.prepare, self.file, self.template, self.commands, self.imports = prepare, file, template, commands, dict(imports)


LANGUAGES = {
    "python": Language(prepare_python, "block.py", PYTHON, ["venv/bin/python", "block.py"]),
    "js": Language(prepare_js, "block.js", JS, ["node", "block.js"]),
    "go": Language(prepare_go, "block.go", GO, ["go", "build", "-o", "block", "block.go"], ["./block"],
                   imports=GO_IMPORTS),
    "java": Language(prepare_java, "Block.java", JAVA, ["javac", "-cp", "libraries/*", "Block.java"],
                     ["java", "-cp", "libraries/*:.", "Block"]),
    "php": Language(prepare_php, "block.php", PHP, ["php", "block.php"]),
    "ruby": Language(prepare_ruby, "block.rb", RUBY, ["ruby", "block.rb"]),
    "rust": Language(prepare_rust, "main.rs", RUST, ["rustc", "@arguments", "main.rs", "-o", "block"], ["./block"]),
}


def run(name, block, scratch, environment, limit):
    """Runs a fragment. What is missing on this machine is a failure, unless `install` has found it absent."""
    folder = os.path.join(scratch, "programs", name)
    language = LANGUAGES.get(name)
    if language is None:
        raise Failed(f"nothing is known of {name}")
    if os.path.exists(os.path.join(folder, ABSENT)):
        with open(os.path.join(folder, ABSENT), encoding="utf-8") as file:
            raise Absent(file.read())
    used = [package for name, package in language.imports.items() if re.search(rf"\b{re.escape(name)}", block)]
    imports = "\n".join(f"\t{package}" for package in used)
    write(os.path.join(folder, language.file), language.template, block, imports)
    for words in language.commands:
        carry_out(words, folder, environment, limit)


def install(scratch):
    """What programs of all languages need."""
    for name, language in LANGUAGES.items():
        folder = os.path.join(scratch, "programs", name)
        os.makedirs(folder, exist_ok=True)
        try:
            language.prepare(folder)
        except Absent as error:
            with open(os.path.join(folder, ABSENT), "w", encoding="utf-8") as file:
                file.write(str(error))


if __name__ == "__main__":
    install(sys.argv[1])
