"""Calls the functions of scripts on redis-server and on a node, and compares the replies byte by byte.

The fixed scripts stand in library_calls.txt, what may differ in library_differences.txt. The random
ones come from seeds: values of Lua written in all formats, texts and bytes read that are often not
what a function expects, and settings. `--record FILE` writes the fixed scripts and what the
reference answers, for the tests that run without it.
"""

import argparse
import random
import sys
import time

from compare import HERE, Connection, rules, show

SHOWN_MAX = 8
RECORDED_CALLS = 500

# Writes a value with each number as its eight bytes and each table in one order.
DUMP = """local function dump(v)
  local t = type(v)
  if t == 'number' then return v ~= v and 'nan' or 'n' .. struct.pack('>d', v) end
  if t == 'string' then return 's' .. #v .. ':' .. v end
  if t == 'userdata' then return v == cjson.null and 'null' or 'userdata' end
  if t ~= 'table' then return tostring(v) end
  local parts = {}
  for key, value in pairs(v) do parts[#parts + 1] = dump(key) .. '=' .. dump(value) end
  table.sort(parts)
  return '{' .. table.concat(parts, ',') .. '}'
end
local function all(...)
  local parts = {}
  for index = 1, select('#', ...) do parts[index] = dump((select(index, ...))) end
  return table.concat(parts, ';')
end
"""

# Without -0: Lua 5.1 keeps one constant for it and 0.
NUMBERS = [
    "0", "1", "-1", "0.1", "-2.5", "1e15", "1e16", "123456789012345", "2^31", "2^32", "-2^31",
    "2^53", "2^63", "-2^63", "2^64", "1e100", "5e-324", "1e308", "127", "128", "255", "256", "65535",
    "65536", "-32", "-33", "-128", "-129", "-32768", "-32769", "1/3", "1/0", "-1/0", "14", "'12'", "'0x1f'",
]
JSON = [
    b"null", b"true", b"false", b"0", b"-1", b"1.5e3", b"0x1F", b"1e400", b"-Infinity", b"nan", b"+7",
    b"007", b"5.", b"-", b"1e", b"\"\"", b"\"a\\u00e9\\ud83d\\ude00\"", b"\"\\n\\/\\\\\"", b"\"\\ud800\"",
    b"\"\\q\"", b"\"abc", b"[]", b"{}", b"[1,2]", b"{\"a\":1}", b"[", b"]", b"{\"a\"}", b"{1:2}", b"tru",
    b"[1 ]", b" [ 1 , [ 2 ] ]", b"{\"k\":[{}]}", b"\x00", b"\"\xff\xfe\"", b"1 1", b"0x1p-3", b"0x",
]
INTEGER_OPTIONS = "bBhHlLTiI"


class Maker:
    """Random scripts with their arguments; the same for the same seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def call(self):
        name, arguments = self.random.choice(
            [self.encode, self.decode, self.pack, self.unpack, self.structure, self.structure_data, self.bits]
        )()
        if self.random.random() < 0.2:
            return f"{DUMP}return {{pcall(function() return all({name}) end)}}", arguments
        return f"{DUMP}return all({name})", arguments

    def settings(self):
        choice = self.random.choice
        setting = choice([
            f"encode_number_precision({self.random.randint(0, 15)})",
            f"encode_max_depth({self.random.randint(0, 4)})",
            f"decode_max_depth({self.random.randint(0, 4)})",
            f"encode_sparse_array({choice(['true', 'false'])},{self.random.randint(0, 3)},{self.random.randint(0, 5)})",
            f"encode_invalid_numbers({choice(['true', 'false'])})",
            "encode_invalid_numbers('null')",
            f"decode_invalid_numbers({choice(['true', 'false'])})",
            "encode_keep_buffer(false)",
        ])
        return f"local own = cjson.new() own.{setting} "

    def encode(self):
        if self.random.random() < 0.3:
            return f"(function() {self.settings()} return own.encode({self.value(3)}) end)()", []
        return f"cjson.encode({self.value(4)})", []

    def decode(self):
        text = b"".join(self.random.choice(JSON) for _ in range(self.random.choice([1, 1, 1, 2])))
        for _ in range(self.random.randint(0, 3)):
            text = self.random.choice([b"[%s]", b"{\"a\":%s}", b"[1,%s]", b"%s"]).replace(b"%s", text)
        if self.random.random() < 0.3:
            text = self.mutated(text)
        if self.random.random() < 0.3:
            return f"(function() {self.settings()} return own.decode(ARGV[1]) end)()", [text]
        return "cjson.decode(ARGV[1])", [text]

    def pack(self):
        values = ",".join(self.value(4) for _ in range(self.random.choice([1, 1, 2, 3])))
        return f"cmsgpack.pack({values})", []

    def unpack(self):
        data = bytes(
            self.random.choice([self.random.randrange(256), self.random.choice(b"\x81\x91\x92\xa3\xc0\xca\xcb\xcd\xd9\xdc\x01")])
            for _ in range(self.random.randint(0, 14))
        )
        function = self.random.choice([
            "unpack(ARGV[1])",
            "unpack(ARGV[1])",
            f"unpack_one(ARGV[1],{self.random.randint(-1, 6)})",
            f"unpack_limit(ARGV[1],{self.random.randint(-1, 4)},{self.random.randint(0, 6)})",
        ])
        return f"cmsgpack.{function}", [data]

    def format(self):
        parts = []
        for _ in range(self.random.randint(0, 5)):
            option = self.random.choice(INTEGER_OPTIONS + "xfdcs<>! ?")
            parts.append(option)
            if option in "iIc!" and self.random.random() < 0.7:
                parts.append(str(self.random.choice([0, 1, 2, 3, 4, 7, 8, 9, 16, 32, 33])))
        return "".join(parts)

    def structure(self):
        text = self.format()
        arguments = []
        for option in text:
            if option in INTEGER_OPTIONS + "fd":
                arguments.append(self.number())
            elif option in "cs":
                arguments.append(self.text())
        if self.random.random() < 0.15:
            arguments = arguments[:-1]
        values = "".join(f",{argument}" for argument in arguments)
        return self.random.choice([f"struct.pack('{text}'{values})", f"struct.size('{text}')"]), []

    def structure_data(self):
        data = bytes(self.random.choice([0, 1, 2, 255, self.random.randrange(256)]) for _ in range(self.random.randint(0, 40)))
        position = self.random.choice(["", "", f",{self.random.randint(-2, 12)}"])
        return f"struct.unpack('{self.format()}',ARGV[1]{position})", [data]

    def bits(self):
        name = self.random.choice("tobit tohex bnot band bor bxor lshift rshift arshift rol ror bswap".split())
        count = self.random.choice([0, 1, 2, 2, 2, 3])
        values = [self.number() if self.random.random() < 0.95 else self.value(1) for _ in range(count)]
        return f"bit.{name}({','.join(values)})", []

    def number(self):
        kind = self.random.random()
        if kind < 0.5:
            return self.random.choice(NUMBERS)
        if kind < 0.8:
            return str(self.random.randint(-300, 70000))
        return repr(self.random.uniform(-1, 1) * 10 ** self.random.randint(-20, 20))

    def text(self):
        data = bytes(self.random.randrange(256) for _ in range(self.random.choice([0, 1, 3, 8, 33])))
        return "'" + "".join(f"\\{byte:03d}" for byte in data) + "'"

    def value(self, depth):
        kind = self.random.random()
        if depth == 0 or kind < 0.3:
            return self.number()
        if kind < 0.5:
            return self.text()
        if kind < 0.6:
            return self.random.choice(["true", "false", "nil", "cjson.null", "bit.bor"])
        if kind < 0.85:
            return "{" + ",".join(self.value(depth - 1) for _ in range(self.random.randint(0, 4))) + "}"
        # One entry: the order of several is the interpreter's own.
        key = self.random.choice([self.text(), self.number(), "1.5", "3", "12", "true"])
        return f"{{[{key}]={self.value(depth - 1)}}}"

    def mutated(self, data):
        data = bytearray(data)
        for _ in range(self.random.randint(1, 3)):
            position = self.random.randrange(len(data) + 1)
            if self.random.random() < 0.5 and position < len(data):
                del data[position]
            else:
                data[position:position] = self.random.choice([b"[", b"]", b"{", b"}", b",", b":", b"\"", b"\\", b"1", b"e", b" "])
        return bytes(data)


def fixed():
    """The scripts of library_calls.txt: one a line, `\\n` in it ends a line of the script."""
    with open(f"{HERE}/library_calls.txt", encoding="ascii") as file:
        for line in file:
            line = line.rstrip("\n")
            if line and not line.startswith("# "):
                yield line.replace("\\n", "\n") if line.startswith("#!") else line


def command(script, arguments=()):
    return [b"EVAL", script.encode(), b"0", *arguments]


def compare(scripts, servers, known):
    problems = []
    for script, arguments in scripts:
        replies = [server.send(command(script, arguments)) for server in servers]
        if replies[0] == replies[1]:
            continue
        line = script.replace(DUMP, "").encode()
        if any(rule == "any" and pattern.fullmatch(line) for rule, pattern in known):
            continue
        problems.append(
            f"{line.decode()} {list(arguments)}\n"
            f"      reference {show(replies[0])}\n      subject   {show(replies[1])}"
        )
    return problems


def report(check, problems):
    print("\n".join(f"   {problem}" for problem in problems[:SHOWN_MAX]), end="\n" if problems else "")
    print(f"FAIL {check}: {len(problems)} differences" if problems else f"ok {check}", flush=True)
    return bool(problems)


def raw(reply):
    kind, value = reply
    if isinstance(value, list):
        count = len(value) // 2 if kind == "%" else len(value)
        return f"{kind}{count}\r\n".encode() + b"".join(raw(part) for part in value)
    if value is None:
        return f"{kind}-1\r\n".encode()
    if kind in "$=!":
        return f"{kind}{len(value)}\r\n".encode() + value + b"\r\n"
    return kind.encode() + value + b"\r\n"


def escaped(data):
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02x}" for byte in data)


def record(path, port, known):
    """A line for each script: the script, the reply with RESP2 and with RESP3, the arguments."""
    servers = [Connection(port, protocol) for protocol in (2, 3)]
    for server in servers:
        server.send([b"FLUSHALL"])
    scripts = [(script, []) for script in fixed()]
    scripts += [Maker(seed).call() for seed in range(RECORDED_CALLS)]
    with open(path, "w", encoding="ascii") as file:
        file.write("# What redis-server answers to scripts; made by library_calls.py --record.\n")
        file.write("# Separated by tabs: script, reply with RESP2, reply with RESP3, arguments.\n")
        file.write("# An @ at the start of a script stands for this text.\n")
        file.write(f"@\t{escaped(DUMP.encode())}\n")
        for script, arguments in scripts:
            line = script.replace(DUMP, "")
            if any(pattern.fullmatch(line.encode()) for _, pattern in known):
                continue
            replies = [raw(server.send(command(script, arguments))) for server in servers]
            shown = script.replace(DUMP, "@").encode()
            file.write("\t".join(map(escaped, [shown, *replies, *arguments])) + "\n")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--reference", type=int, required=True)
    arguments.add_argument("--subject", type=int)
    arguments.add_argument("--calls", type=int, default=2000)
    arguments.add_argument("--seed", type=int, help="of the first one; random if not given")
    arguments.add_argument("--record", metavar="FILE")
    options = arguments.parse_args()
    known = rules("library_differences.txt")
    if options.record:
        record(options.record, options.reference, known)
        return
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    failed = False
    for protocol in (2, 3):
        servers = [Connection(port, protocol) for port in (options.reference, options.subject)]
        for server in servers:
            server.send([b"FLUSHALL"])
        scripts = [(script, []) for script in fixed()]
        check = f"differential: {len(scripts)} calls of libraries with RESP{protocol}"
        failed |= report(check, compare(scripts, servers, known))
        began = time.monotonic()
        seeds = range(first, first + options.calls)
        problems = compare((Maker(seed).call() for seed in seeds if seed % 2 == protocol % 2), servers, known)
        check = (
            f"differential: {options.calls // 2} random calls of libraries with RESP{protocol} "
            f"from seed {first} ({time.monotonic() - began:.0f} s)"
        )
        failed |= report(check, problems)
    print("done")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
