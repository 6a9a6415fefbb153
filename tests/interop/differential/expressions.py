"""Runs random scripts over the language and library of Lua 5.1 on redis-server and on a node, and compares the replies.

The scripts are expressions and statements of every kind: string functions with patterns, tables, numbers, varargs with
`arg`, loops, closures, pcall and error. Where a type is expected, another one is given now and then. Some are damaged, and
only what the compiler says of them is compared. Texts that may differ stand in expression_differences.txt, each with its
sentence of the book. Not written are things whose outcome Lua leaves open: the order of pairs, addresses, the length of a
table with holes, and numbers of more than 14 digits as texts.
"""

import argparse
import random
import re
import sys
import time

from compare import HERE, Connection, show

SHOWN_MAX = 8
TOGETHER = 50
METHOD = re.compile(r"[\w']\)*:\w")
BOOK = f"{HERE}/../../../docs/book/scripts.md"

# Collects what is recorded: each value with its type, numbers with all digits, tables in one order. -0 reads as 0.
PRELUDE = """local out = {}
local function dump(v)
  local t = type(v)
  if t == 'number' then return v ~= v and 'nan' or v == 0 and '0' or ('%.17g'):format(v) end
  if t == 'string' then return '<' .. v .. '>' end
  if t ~= 'table' then return t == 'boolean' and tostring(v) or t end
  local parts = {}
  for key, value in pairs(v) do parts[#parts + 1] = dump(key) .. '=' .. dump(value) end
  table.sort(parts)
  return '{' .. table.concat(parts, ',') .. '}'
end
local function R(...)
  local parts = {}
  for index = 1, select('#', ...) do parts[index] = dump((select(index, ...))) end
  out[#out + 1] = table.concat(parts, ';')
end
"""

WORDS = ["", "a", "lock", "Ab1", "a-b", "x y", "key:{1}:z", "%", "(a(b)c)", "\\n", "\\0z", "12", "0x1F", " 7 ", "1e2", "-3.5", "1_0", "0b1", "\\200"]
PIECES = [
    "a", "b", "l", ":", "-", " ", ".", "%a", "%d", "%l", "%s", "%u", "%w", "%x", "%p", "%c", "%z", "%W", "%A", "%S", "%%", "%.", "%-",
    "[abc]", "[^:]", "[%w_]", "[a-f]", "[^%s]", "[]]", "[a-]", "%b()", "%b{}", "%f[%w]", "()",
]
BROKEN = ["%", "[", "[a", "(", ")", "%b", "%bx", "%f", "%1", "[%", "(()", "%2", "[^", "%g"]
NUMBER_TEXTS = ["12", " 0x1f ", "1e1", "1e", "0x", "", " ", "7f", "-12", "+5", "1 2", ".5", "5.", "z", "zz", "1e400", "nan", "-inf", "0x1p4", "1__0", "0b11", "10\\0"]
FORMATS = "d i u c x X o e f g G s q 5d -5d| +d 05d x #x 5.2f .3f .0f 10s -10s| .2s .5d 5s % 2d s y ll 123d".split()
TOKENS = [
    "end", "(", ")", "=", "==", "..", "...", ",", "nil", "then", "do", "local", "return", "break", "function", "and", "not", "+=", "//",
    "!=", "[[", "]]", "--", "'", "{", "}", ":", ";", "goto", "continue", "`", "0b1", "1_0", "0x", "1e", "&", "::x::", "~", "#", "@", "?", "\\",
]


class Maker:
    """A random script; the same for the same seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = 0
        self.scopes = [{}]
        self.is_vararg = False

    def pick(self, choices):
        return self.random.choice(choices)

    def chance(self, share):
        return self.random.random() < share

    def script(self):
        lines = []
        for _ in range(self.random.randint(2, 7)):
            lines += self.statement(2)
        if self.chance(0.15):
            lines.append(f"return {self.expression(self.pick(['int', 'str', 'bool', 'list']), 2)}")
        else:
            lines.append("return out")
        return PRELUDE + "\n".join(lines)

    def damaged(self):
        """A script that may not compile any more; its text without what it begins with."""
        tokens = re.findall(r"\s+|\w+|'[^']*'|.", self.script()[len(PRELUDE):], re.DOTALL)
        for _ in range(self.random.randint(1, 3)):
            place = self.random.randrange(len(tokens))
            match self.random.randrange(3):
                case 0:
                    del tokens[place]
                case 1:
                    tokens[place] = self.pick(TOKENS)
                case _:
                    tokens.insert(place, f" {self.pick(TOKENS)} ")
            tokens = tokens or [" "]
        return "".join(tokens)

    # Names

    def declare(self, kind):
        self.names += 1
        name = f"v{self.names}"
        self.scopes[-1].setdefault(kind, []).append(name)
        return name

    def known(self, kind):
        return [name for scope in self.scopes for name in scope.get(kind, [])]

    def block(self, depth, count=2):
        self.scopes.append({})
        lines = [line for _ in range(self.random.randint(1, count)) for line in self.statement(depth)]
        self.scopes.pop()
        return lines

    # Statements

    def statement(self, depth):
        simple = [self.record, self.record, self.record, self.new_local, self.new_local, self.assign, self.change_list]
        nested = [self.branch, self.count_loop, self.while_loop, self.each, self.define, self.scoped, self.several]
        return self.pick(simple if depth == 0 or self.chance(0.6) else nested)(depth)

    def record(self, depth):
        kind = self.pick(["int", "num", "str", "str", "bool", "list", "many", "many"])
        expression = self.expression(kind, 3)
        if self.is_vararg:
            return [f"R({expression})"]
        if self.chance(0.2):
            handler = "function(e) return 'h:' .. (type(e) == 'table' and tostring(e.err) or type(e) == 'string' and e or type(e)) end"
            return [f"R(xpcall(function() return {expression} end, {handler}))"]
        return [f"R(pcall(function() return {expression} end))"]

    def new_local(self, depth):
        kind = self.pick(["int", "str", "bool", "list", "map"])
        value = self.literal(kind)
        if kind in ("int", "str", "bool") and self.chance(0.4):
            # What may fail leaves a value of the same type.
            fallback = self.literal(kind)
            ok, got = self.declare("ok"), None
            expression = self.expression(kind, 2)
            got = self.declare("got")
            name = self.declare(kind)
            check = {"int": "number", "str": "string", "bool": "boolean"}[kind]
            guard = f" and {got} == math.floor({got}) and math.abs({got}) < 1e9" if kind == "int" else ""
            guard += f" and #{got} < 200" if kind == "str" else ""
            return [
                f"local {ok}, {got} = pcall(function() return {expression} end)",
                f"local {name} = {ok} and type({got}) == '{check}'{guard} and {got} or {fallback}",
            ]
        return [f"local {self.declare(kind)} = {value}"]

    def assign(self, depth):
        kind = self.pick(["int", "str", "bool"])
        names = self.known(kind)
        if not names:
            return self.new_local(depth)
        if len(names) > 1 and self.chance(0.3):
            one, other = self.random.sample(names, 2)
            return [f"{one}, {other} = {other}, {one}"]
        value = {
            "int": lambda name: f"({name} {self.pick('+-')} {self.literal('int')}) % 1000",
            "str": lambda name: f"({name} .. {self.literal('str')}):sub(1, 60)",
            "bool": lambda name: f"not {name}",
        }[kind]
        name = self.pick(names)
        return [f"{name} = {value(name)}"]

    def change_list(self, depth):
        names = self.known("list")
        if not names:
            return [f"local {self.declare('list')} = {self.literal('list')}"]
        name = self.pick(names)
        item = self.literal("int")
        return [self.pick([
            f"{name}[#{name} + 1] = {item}",
            f"table.insert({name}, {item})",
            f"table.insert({name}, 1, {item})",
            f"R(table.remove({name}))",
            f"R(table.remove({name}, 1))",
            f"table.sort({name})",
            f"table.sort({name}, function(a, b) return a > b end)",
            f"R(#{name}, {name}[1], {name}[#{name}], {name}[0], {name}.x)",
        ])]

    def branch(self, depth):
        lines = [f"if {self.condition()} then", *self.block(depth - 1)]
        if self.chance(0.3):
            lines += [f"elseif {self.condition()} then", *self.block(depth - 1)]
        if self.chance(0.5):
            lines += ["else", *self.block(depth - 1)]
        return [*lines, "end"]

    def count_loop(self, depth):
        first, last, step = self.random.randint(-3, 4), self.random.randint(-3, 6), self.pick(["", "", ", 2", ", -1", ", 0.5"])
        self.scopes.append({})
        name = self.declare("loop")
        lines = [f"R({name})"] + (self.statement(depth - 1) if self.chance(0.5) else [])
        if self.chance(0.2):
            lines.append(f"if {name} > 2 then break end")
        self.scopes.pop()
        return [f"for {name} = {first}, {last}{step} do", *lines, "end"]

    def while_loop(self, depth):
        self.names += 1
        name = f"n{self.names}"
        body = self.block(depth - 1, 1)
        count = self.random.randint(0, 4)
        if self.chance(0.5):
            return [f"local {name} = 0", f"while {name} < {count} do", f"{name} = {name} + 1", *body, "end"]
        return [f"local {name} = 0", "repeat", f"{name} = {name} + 1", f"local last = {name} >= {count}", *body, "until last"]

    def each(self, depth):
        kind = self.pick(["list", "map"])
        source = self.expression(kind, 1) if kind == "map" else self.pick(self.known("list") or [self.literal("list")])
        self.names += 1
        name = f"n{self.names}"
        if kind == "map" or self.chance(0.3):
            return [
                f"local {name} = {{}}", f"for k, v in pairs({source}) do {name}[#{name} + 1] = tostring(k) .. '=' .. tostring(v) end",
                f"table.sort({name})", f"R(table.concat({name}, ','))",
            ]
        if self.chance(0.3):
            return [f"R(next({source}))"] if "{}" in source else [f"R((next({{{self.literal('int')}}})))"]
        return [f"for i, v in ipairs({source}) do R(i, v) end"]

    def define(self, depth):
        self.names += 1
        name = f"f{self.names}"
        outer, self.is_vararg = self.is_vararg, True
        call = ", ".join(self.pick([self.literal("int"), self.literal("str"), "nil", "true"]) for _ in range(self.random.randint(0, 4)))
        body = self.pick([
            "R(select('#', ...), ...)",
            "R(arg.n, arg[1], arg[2])",
            "R(unpack(arg, 1, arg.n))",
            "local a, b = ... R(a, b)",
            "local t = {...} R(t[1], t[2])",
            f"R((select({self.pick(['1', '2', '-1'])}, ..., 9)))",
            "for i, v in ipairs(arg) do R(i, v) end",
            "return ...",
            "return (...), 1",
            "return select('#', ...), unpack(arg)",
            "local function g(...) return arg.n, ... end return g(1, ...)",
            "return (function(...) return select('#', ...) end)(..., ...)",
        ])
        self.is_vararg = outer
        lines = [f"local function {name}(...) {body} end", f"R(pcall({name}, {call}))" if call else f"R(pcall({name}))"]
        if self.chance(0.3):
            # A closure keeps its variables; each call of its maker has its own.
            self.names += 1
            maker = f"m{self.names}"
            lines += [
                f"local function {maker}(n) return function(by) n = n + (by or 1) return n end end",
                f"local {name}a, {name}b = {maker}({self.literal('int')}), {maker}(0)",
                f"R({name}a(), {name}a(2), {name}b(), {name}a())",
            ]
        return lines

    def scoped(self, depth):
        return ["do", *self.block(depth - 1), "end"]

    def several(self, depth):
        one, two, three = self.declare("any"), self.declare("any"), self.declare("any")
        return [f"local {one}, {two}, {three} = {self.expression('pair', 1)}", f"R({one}, {two}, {three})"]

    # Expressions

    def condition(self):
        return self.expression("safe", 2)

    def literal(self, kind):
        match kind:
            case "int":
                return str(self.pick([1, 2, 3, 5, 7, 10, 16, 36, 100, 255, 256, -1, -2, -3, -7, self.random.randint(1, 999)]))
            case "num":
                return self.pick(["0.5", "1.25", "-2.75", "1e10", "2^31", "2^53", "1/3", "-7.5", "1e300", "0x10", ".5", "3."])
            case "str":
                return f"'{self.pick(WORDS)}'"
            case "bool":
                return self.pick(["true", "false"])
            case "list":
                return "{" + ", ".join(self.literal("int") for _ in range(self.random.randint(0, 5))) + "}"
            case "map":
                return "{" + ", ".join(f"{key} = {self.literal('int')}" for key in self.random.sample("abcd", self.random.randint(0, 3))) + "}"

    def receiver(self, depth):
        """A text: what has no methods is noticed before or after the arguments."""
        text = self.pick(self.known("str") or [self.literal("str")])
        return self.pick([text, f"({text})", f"('' .. {text})", f"({text} .. {self.literal('str')})"]) if depth > 0 else f"({text})"

    def expression(self, kind, depth):
        if depth <= 0:
            names = self.known(kind)
            return self.pick(names) if names and self.chance(0.6) else self.literal(kind if kind in ("int", "num", "str", "bool", "list", "map") else "int")
        if self.chance(0.04) and kind in ("int", "str", "bool", "list"):
            return self.pick(["nil", "{}", "true", "'x'", "-1", "R", "'7'"])
        return getattr(self, f"make_{kind}")(depth - 1)

    def make_int(self, depth):
        i, s, l = (lambda: self.expression("int", depth)), (lambda: self.expression("str", depth)), (lambda: self.expression("list", depth))
        return self.pick([
            lambda: self.expression("int", 0),
            lambda: f"({i()} {self.pick('+-')} {i()})",
            lambda: f"({i()} * {self.pick('23')})",
            lambda: f"({i()} % {self.pick(['7', '10', '-3', i()])})",
            lambda: f"-({i()})",
            lambda: f"#{s()}" if self.chance(0.5) else f"#({l()})",
            lambda: f"({self.receiver(depth)}):len()",
            lambda: f"string.len({s()})",
            # What is not a number is any number as a whole one.
            lambda: f"(function(n) return n == n and n or 1 end)(math.floor({self.expression('num', depth)} % 1000))",
            lambda: f"math.{self.pick(['max', 'min'])}({i()}, {i()}, {i()})",
            lambda: f"math.abs({i()})",
            lambda: f"(string.byte({s()}, {i()}) or 7)",
            lambda: f"(tonumber({s()}) or 3)" if self.chance(0.5) else f"(tonumber({s()}, {self.pick(['2', '8', '10', '16', '36'])}) or 4) % 1000",
            lambda: f"select('#', {i()}, nil, {s()})",
            lambda: f"(({self.receiver(depth)}):find({self.pattern()}) or 0)",
            lambda: f"select(2, ({self.receiver(depth)}):gsub({self.pattern()}, {self.pick(['', self.replacement()]) or chr(39) * 2}))",
            lambda: f"bit.{self.pick(['band', 'bor', 'bxor'])}({i()}, {i()})",
            lambda: f"({self.expression('safe', depth)} and {i()} or {i()})",
        ])()

    def make_num(self, depth):
        n = lambda: self.expression("num", depth)
        i = lambda: self.expression("int", depth)
        return self.pick([
            lambda: self.literal("num"),
            lambda: f"({n()} {self.pick('+-*/')} {n()})",
            lambda: f"({i()} / {self.pick(['2', '3', '-7', '10'])})",
            lambda: f"({n()} % {self.pick(['3', '-2.5', '0.75'])})",
            lambda: f"({i()} ^ {self.pick(['2', '0.5', '-1', '3'])})",
            lambda: f"-{n()}",
            lambda: f"math.{self.pick(['floor', 'ceil', 'abs', 'sqrt', 'deg', 'rad'])}({n()})",
            lambda: f"math.{self.pick(['fmod', 'max', 'min', 'ldexp'])}({n()}, {self.pick(['2', '3', '-3'])})",
            lambda: f"math.{self.pick(['modf', 'frexp'])}({n()})",
            lambda: self.pick(["math.huge", "-math.huge", "math.pi"]),
            lambda: f"tonumber('{self.pick(NUMBER_TEXTS)}')",
            lambda: f"tonumber('{self.pick(NUMBER_TEXTS)}', {self.pick(['2', '10', '16', '36', '37', '1'])})",
            lambda: f"(function() math.randomseed({i()}) return math.random({self.pick(['', '10', '5, 9', '-3, 3', '1'])}) end)()",
        ])()

    def make_str(self, depth):
        i, s = (lambda: self.expression("int", depth)), (lambda: self.expression("str", depth))
        return self.pick([
            lambda: self.expression("str", 0),
            lambda: f"({s()} .. {s()})",
            lambda: f"({s()} .. {i()})",
            lambda: f"tostring({self.pick([self.literal('int'), self.literal('str'), 'nil', 'true', *self.known('int')])})",
            lambda: f"({self.receiver(depth)}):{self.pick(['upper', 'lower', 'reverse'])}()",
            lambda: f"string.{self.pick(['upper', 'lower', 'reverse'])}({s()})",
            lambda: f"({self.receiver(depth)}):sub({i()}{self.pick(['', f', {i()}'])})",
            lambda: f"string.sub({s()}, {i()}, {i()})",
            lambda: f"({self.receiver(depth)}):rep({self.pick(['0', '1', '3', '-1'])})",
            lambda: f"string.char({self.random.randint(32, 255)}, {self.random.randint(0, 255)})",
            lambda: self.format(depth),
            lambda: f"table.concat({self.expression('list', depth)}{self.pick(['', ', ' + s(), ', ' + s() + ', 2', ', ' + s() + ', 1, 2'])})",
            lambda: f"(({self.receiver(depth)}):gsub({self.pattern()}, {self.replacement()}))",
            lambda: f"(({self.receiver(depth)}):match({self.pattern()}) or 'none')",
            lambda: f"type({self.pick([i(), s(), 'nil', '{}', 'R', 'print', 'string.rep'])})",
            lambda: f"({self.expression('safe', depth)} and {s()} or {s()})",
            lambda: self.pick(["[[long]]", "[==[a]]b]==]", '"\\65\\066\\n\\z\\x41"', "'\\u0041\\\\'", "_VERSION"]),
        ])()

    def make_safe(self, depth):
        """Has no error, so that it may stand in a condition."""
        i, s = (lambda: self.pick(self.known("int") or ["5"])), (lambda: self.pick(self.known("str") or ["'k'"]))
        return self.pick([
            lambda: f"({i()} {self.pick(['<', '<=', '>', '>=', '==', '~='])} {self.literal('int')})",
            lambda: f"({s()} {self.pick(['<', '<=', '>', '>=', '==', '~='])} {self.literal('str')})",
            lambda: f"not ({i()} == {s()})",
            lambda: self.pick(self.known("bool") or ["true", "false", "nil"]),
            lambda: f"({self.make_safe(0)} {self.pick(['and', 'or'])} {self.make_safe(0)})",
        ])()

    def make_bool(self, depth):
        i, s = (lambda: self.expression("int", depth)), (lambda: self.expression("str", depth))
        compare = lambda: self.pick(["<", "<=", ">", ">=", "==", "~="])
        return self.pick([
            lambda: f"({i()} {compare()} {i()})",
            lambda: f"({s()} {compare()} {s()})",
            lambda: f"not {self.expression('bool', depth)}",
            lambda: f"({self.expression('bool', depth)} {self.pick(['and', 'or'])} {self.expression('bool', depth)})",
            lambda: f"rawequal({i()}, {i()})",
            lambda: f"({i()} == {s()})",
            lambda: f"(({self.receiver(depth)}):find({s()}, {i()}, true) ~= nil)",
            lambda: "(nil == false)",
        ])()

    def make_list(self, depth):
        i = lambda: self.expression("int", depth)
        return self.pick([
            lambda: self.expression("list", 0),
            lambda: f"{{{i()}, {i()}}}",
            lambda: f"{{{i()}, ({self.receiver(depth)}):byte(1, {self.pick(['2', '-1'])})}}",
            lambda: f"(function(...) return {{...}} end)({i()}, {i()})",
            lambda: f"{{unpack({self.expression('list', depth)})}}",
            lambda: f"(function() local t = {{}} for w in ({self.receiver(depth)}):gmatch({self.pattern()}) do t[#t + 1] = w if #t > 9 then break end end return t end)()",
        ])()

    def make_map(self, depth):
        return self.expression("map", 0)

    def make_pair(self, depth):
        return self.pick([self.make_list_values, lambda _: "(function() return 1, nil, 3 end)()", lambda _: "((function() return 1, 2 end)())", lambda _: "nil, 2"])(depth)

    def make_list_values(self, depth):
        return f"unpack({self.literal('list')}{self.pick(['', ', 2', ', 1, 2', ', -1, 1', ', 3, 1'])})"

    def make_many(self, depth):
        """Of any number of values; often an error."""
        i, s, l = (lambda: self.expression("int", depth)), (lambda: self.expression("str", depth)), (lambda: self.expression("list", depth))
        return self.pick([
            lambda: f"({self.receiver(depth)}):find({self.pattern()}{self.pick(['', ', ' + i(), ', ' + i() + ', true'])})",
            lambda: f"string.find({s()}, {self.pattern()})",
            lambda: f"({self.receiver(depth)}):match({self.pattern()}{self.pick(['', ', ' + i()])})",
            lambda: f"({self.receiver(depth)}):gsub({self.pattern()}, {self.replacement()}{self.pick(['', ', ' + self.pick(['0', '1', '2'])])})",
            lambda: f"({self.receiver(depth)}):byte({i()}, {i()})",
            lambda: f"unpack({l()}{self.pick(['', ', ' + i(), ', 1, 3'])})",
            lambda: f"select({i()}, {i()}, {s()}, nil, 4)",
            lambda: f"pcall({self.pick(['error', 'type', 'string.rep', 'math.floor', 'next', 'ipairs', 'unpack'])}, {self.pick(['nil', s(), i(), '{}'])})",
            lambda: f"error({self.pick([s(), i()])}{self.pick(['', ', 0', ', 1', ', 2'])})",
            lambda: f"pcall(error, {{err = {self.literal('str')}}})",
            lambda: f"assert({self.pick([i(), 'false', 'nil'])}{self.pick(['', ', ' + s()])})",
            lambda: f"next({{}})",
            lambda: f"({s()} {self.pick(['+', '-', '*', '..', '<'])} {i()})",
            lambda: f"({self.pick(['nil', '{}', 'true', 'R'])} {self.pick(['+', '..', '<'])} {i()})",
            lambda: f"({self.pick(['nil', '(5)', 'true'])}){self.pick(['.x', '[1]', '()', ':len()'])}" if self.chance(0.5) else f"undefined{self.random.randint(1, 3)}",
            lambda: f"setmetatable({{}}, {{__index = function(t, k) return k .. '!' end}}).{self.pick('abc')}",
            lambda: f"tostring(setmetatable({{}}, {{__tostring = function() return {self.literal('str')} end}}))",
            lambda: f"(setmetatable({{}}, {{__{self.pick(['add', 'concat', 'sub', 'mul'])} = function(a, b) return type(a) .. type(b) end}}) {self.pick(['+', '..', '-', '*'])} {i()})",
            lambda: f"setmetatable({{}}, {{__call = function(self, ...) return ... end}})({i()}, {s()})",
            lambda: f"(setmetatable({{}}, {{__newindex = function(t, k, v) rawset(t, k, v * 2) end}}))",
            lambda: f"getmetatable(setmetatable({{}}, {{__metatable = {self.literal('str')}}}))",
            lambda: f"table.maxn({l()})",
            lambda: f"string.format({self.pick(['nil', '{}', self.literal('str')])})",
            lambda: f"{self.pick(['string.rep', 'string.sub', 'string.char', 'table.concat', 'table.insert', 'math.max', 'tonumber', 'setmetatable', 'ipairs', 'select', 'unpack', 'string.byte', 'string.gsub', 'table.remove'])}({self.pick(['', 'nil', i(), s(), '{}', '{}, nil', s() + ', ' + s(), 'R'])})",
            lambda: f"tonumber({self.pick(['nil', '{}', 'true', s()])}{self.pick(['', ', 10', ', 99', ', 16'])})",
        ])()

    def format(self, depth):
        parts, arguments = [], []
        for _ in range(self.random.randint(1, 3)):
            form = self.pick(FORMATS).rstrip("|")
            parts.append(self.pick(["", " ", "a="]) + "%" + form)
            if form == "%":
                continue
            kind = "str" if form[-1] in "sq" else self.pick(["int", "int", "num"]) if form[-1] in "efgG" else "int"
            argument = self.pick(["65", "90"]) if form[-1] == "c" else self.expression(kind, depth)
            # A NUL ends a text there.
            arguments.append(f"(string.gsub({argument}, '%z', ''))" if form[-1] == "s" else argument)
        if self.chance(0.08):
            arguments = arguments[:-1]
        text = "".join(parts)
        if self.chance(0.3):
            return f"('{text}'):format({', '.join(arguments)})"
        return f"string.format({', '.join([repr(text), *arguments])})"

    def pattern(self):
        pieces = []
        for _ in range(self.random.randint(1, 4)):
            piece = self.pick(PIECES)
            if piece != "()" and self.chance(0.4):
                piece += self.pick("*+-?")
            if self.chance(0.2):
                piece = f"({piece})"
            pieces.append(piece)
        if self.chance(0.15):
            pieces.insert(0, "^")
        if self.chance(0.15):
            pieces.append("$")
        if self.chance(0.08):
            pieces.insert(self.random.randrange(len(pieces) + 1), self.pick(BROKEN))
        return "'" + "".join(pieces) + "'"

    def replacement(self):
        return self.pick([
            "'-'", "'%0%0'", "'[%1]'", "'%%'", "'%2'", "'%-'", "'%x'", "{a = 'A', b = 1}", "{a = false}", "string.upper", "''",
            "function(x, y) return x end", "function() end", "function() return false end", "function(x) return 7 end", "function(x) return {} end",
        ])


def differences():
    """What is taken out of both replies before they are compared: (only with methods, expression, replacement)."""
    with open(BOOK, encoding="utf-8") as file:
        book = " ".join(file.read().split())
    found = []
    with open(f"{HERE}/expression_differences.txt", encoding="ascii") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                pattern, replacement, sentence = (part.strip() for part in line.rstrip("\n").split(" || "))
                if sentence not in book:
                    raise ValueError(f"the book does not say: {sentence}")
                found.append((pattern.startswith("(?#method)"), re.compile(pattern.encode(), re.DOTALL), replacement.encode()))
    return found


def same(reply, known):
    """The reply without what may differ."""
    kind, value = reply
    if isinstance(value, list):
        return (kind, [same(part, known) for part in value])
    for pattern, replacement in known:
        value = pattern.sub(replacement, value) if value is not None else None
    return (kind, value)


def compare(scripts, servers, known):
    """Each script is (text without PRELUDE, command)."""
    problems = []
    for start in range(0, len(scripts), TOGETHER):
        some = scripts[start:start + TOGETHER]
        replies = [server.exchange([command for _, _, command in some]) for server in servers]
        for (seed, text, _), one, other in zip(some, *replies):
            allowed = [rule[1:] for rule in known if not rule[0] or METHOD.search(text)]
            if one != other and same(one, allowed) != same(other, allowed):
                one, other = parts(one, other, allowed)
                problems.append(f"seed {seed}\n{text}\n      reference {show(one)}\n      subject   {show(other)}")
    return problems


def parts(one, other, known):
    """The parts that differ, where both are lists of one length."""
    if not isinstance(one[1], list) or not isinstance(other[1], list) or len(one[1]) != len(other[1]):
        return one, other
    pairs = [pair for pair in zip(one[1], other[1]) if same(pair[0], known) != same(pair[1], known)]
    return ("*", [pair[0] for pair in pairs]), ("*", [pair[1] for pair in pairs])


def made(seed):
    maker = Maker(seed)
    if seed % 5 == 0:
        text = maker.damaged()
        return seed, text, [b"SCRIPT", b"LOAD", text.encode()]
    text = maker.script()
    return seed, text.replace(PRELUDE, ""), [b"EVAL", text.encode(), b"0"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--reference", type=int, required=True)
    arguments.add_argument("--subject", type=int, required=True)
    arguments.add_argument("--sequences", type=int, default=2000, help="scripts")
    arguments.add_argument("--seed", type=int, help="of the first one; random if not given")
    options = arguments.parse_args()
    known = differences()
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    servers = [Connection(port, 2) for port in (options.reference, options.subject)]
    began, problems = time.monotonic(), []
    for start in range(first, first + options.sequences, 1000):
        seeds = range(start, min(start + 1000, first + options.sequences))
        for server in servers:
            server.send([b"SCRIPT", b"FLUSH"])
        problems += compare([made(seed) for seed in seeds], servers, known)
    print("\n".join(f"   {problem}" for problem in problems[:SHOWN_MAX]), end="\n" if problems else "")
    check = f"differential: {options.sequences} random scripts over Lua's library from seed {first} ({time.monotonic() - began:.0f} s)"
    print(f"FAIL {check}: {len(problems)} differences" if problems else f"ok {check}", flush=True)
    print("done")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
