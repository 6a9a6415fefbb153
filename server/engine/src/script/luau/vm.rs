//! The interpreter: made on first use, sandboxed, and bounded while a script runs.
//!
//! Text only is ever compiled, never bytecode. A script sees the sandbox's functions and its own
//! locals; everything it could leave behind for the next one is read-only.

use std::cell::Cell;
use std::rc::Rc;

use mlua::chunk::{Chunk, ChunkMode, Compiler};
use mlua::{Either, Function, Lua, LuaOptions, LuaString, StdLib, Table, Value, Variadic, VmState};

use crate::number::truncated;
use crate::script::failure::CHUNK_NAME;
use crate::script::limits::Budget;
use crate::script::luau::convert::Names;
use crate::script::luau::fault::SANDBOX_NAME;
use crate::script::luau::library;
use crate::script::luau::redis_call::ScriptState;

/// A script as the interpreter runs it.
pub(crate) struct Compiled {
    pub(crate) function: Function,
    /// The memory that it takes.
    pub(crate) bytes: usize,
}

/// One interpreter.
#[derive(Debug)]
pub(crate) struct Vm {
    lua: Lua,
    pub(crate) names: Rc<Names>,
    runners: [Function; 3],
    /// What the interpreter may use in all while a script runs. The first step of the script puts
    /// it into force: until then only the script's arguments are made, and making them without a
    /// limit takes a third of the time.
    memory_limit: Rc<Cell<usize>>,
    /// What it used when it was last cleaned.
    clean_bytes: usize,
    /// `collectgarbage`, which no script can reach.
    memory_count: Function,
    compilations: Cell<u64>,
}

impl Vm {
    pub(crate) fn new(shared: &Rc<ScriptState>) -> mlua::Result<Vm> {
        let libraries = StdLib::MATH | StdLib::STRING | StdLib::TABLE;
        // A fault of the node itself stops the node; `pcall` and `xpcall` let it pass.
        let options = LuaOptions::new().catch_rust_panics(false);
        let lua = Lua::new_with(libraries, options)?;
        let names = Rc::new(Names::new(&lua)?);
        let memory_count: Function = lua.globals().get("collectgarbage")?;
        let natives = library::natives(&lua, shared, &names)?;
        let sandbox = lua.load(SANDBOX).set_name(format!("={SANDBOX_NAME}"));
        let (env, run0, run1, run2): (Table, Function, Function, Function) =
            sandbox.set_mode(ChunkMode::Text).call(natives)?;
        freeze(&lua, &env)?;
        lua.set_globals(env)?;
        lua.set_compiler(script_compiler());
        let memory_limit = Rc::new(Cell::new(0));
        let (watched, pending) = (Rc::clone(shared), Rc::clone(&memory_limit));
        lua.set_interrupt(move |lua| {
            let limit = pending.replace(0);
            if limit != 0 {
                lua.set_memory_limit(limit)?;
            }
            if watched.budget.note_memory(lua.used_memory()) {
                // From now on the marks in the script's text are steps, and no function is called without one.
                lua.globals().set_safeenv(false);
            }
            match watched.budget.step() {
                Ok(()) => Ok(VmState::Continue),
                Err(end) => Err(mlua::Error::external(end)),
            }
        });
        lua.gc_collect()?;
        let clean_bytes = lua.used_memory();
        Ok(Vm {
            lua,
            names,
            runners: [run0, run1, run2],
            memory_limit,
            clean_bytes,
            memory_count,
            compilations: Cell::new(0),
        })
    }

    /// Compiles a script into a function of KEYS and ARGV, which begins on the script's first line
    /// so that the numbers of its lines stay what they are.
    ///
    /// Inside a function because of what Luau does with functions that a script defines: it keeps
    /// the last one made from a point in the text if that one uses nothing but locals of the
    /// outermost level, and with it all that those locals hold. Those of a function are let go.
    ///
    /// The text must have been checked.
    pub(crate) fn compile(&self, body: &[u8]) -> mlua::Result<Compiled> {
        self.compilations
            .set(self.compilations.get().saturating_add(1));
        // Nothing else is freed meanwhile, so that the difference is what this takes.
        self.lua.gc_stop();
        let before = self.object_bytes();
        let function = self
            .chunk([BEFORE, body, AFTER].concat())
            .set_compiler(compiler_of(body))
            .call(());
        let after = self.object_bytes();
        self.lua.gc_restart();
        Ok(Compiled {
            function: function?,
            bytes: after?.saturating_sub(before?),
        })
    }

    /// What all objects take. The memory that was asked of the system says less: it does not grow
    /// where an object is put into what another one has left.
    fn object_bytes(&self) -> mlua::Result<usize> {
        let kilobytes: f64 = self.memory_count.call("count")?;
        Ok(usize::try_from(truncated(kilobytes * 1024.0)).expect("a size is not negative"))
    }

    /// Whether a text is a script, without leaving anything in the interpreter's memory.
    ///
    /// On its own: a text that closes the surrounding function early is none.
    pub(crate) fn check(&self, body: &[u8]) -> mlua::Result<()> {
        let compiler = Compiler::new().set_optimization_level(0).set_debug_level(0);
        match compiler.compile(body) {
            Ok(_) => Ok(()),
            // Once more for the error as the interpreter words it.
            Err(_) => self.chunk(body.to_vec()).into_function().map(drop),
        }
    }

    /// Whether a text that was checked becomes a function: no code of it is too large. What that
    /// takes is not kept.
    pub(crate) fn check_size(&self, body: &[u8]) -> mlua::Result<()> {
        let text = [BEFORE, body, AFTER].concat();
        match compiler_of(body).compile(&text) {
            Ok(_) => Ok(()),
            Err(_) => self.chunk(text).into_function().map(drop),
        }
    }

    /// How many scripts were compiled so far.
    #[cfg(test)]
    pub(crate) fn compilations(&self) -> u64 {
        self.compilations.get()
    }

    fn chunk(&self, source: Vec<u8>) -> Chunk<'static> {
        self.lua
            .load(source)
            .set_name(format!("={CHUNK_NAME}"))
            .set_mode(ChunkMode::Text)
    }

    /// Runs a script with as much more memory than is in use now as the limits say.
    pub(crate) fn run(
        &self,
        script: &Function,
        keys: &[&[u8]],
        rest: &[&[u8]],
        budget: &Budget,
    ) -> mlua::Result<Value> {
        let memory_bytes = budget.limits().memory_bytes;
        let used = self.lua.used_memory();
        let limit = used.saturating_add(memory_bytes);
        budget.set_memory(used, limit);
        self.memory_limit.set(limit);
        let result = if rest.len() <= STACKED_ARGUMENTS_MAX && keys.len() < self.runners.len() {
            self.run_stacked(script, keys, rest)
        } else {
            let (keys, rest) = (self.list_of(keys)?, self.list_of(rest)?);
            self.lua.set_memory_limit(limit)?;
            script.call((keys, rest))
        };
        self.memory_limit.set(0);
        self.lua.set_memory_limit(0)?;
        if budget.holds_long_texts() {
            self.lua.globals().set_safeenv(true);
        }
        result
    }

    /// Hands the arguments over on the interpreter's stack. Those of the usual lock scripts, a key and
    /// up to three more, go there one by one: a list of them on the way costs as much as two calls.
    fn run_stacked(
        &self,
        script: &Function,
        keys: &[&[u8]],
        rest: &[&[u8]],
    ) -> mlua::Result<Value> {
        let runner = &self.runners[keys.len()];
        match (keys, rest) {
            ([key], []) => runner.call((script, self.text(key)?)),
            ([key], [a]) => runner.call((script, self.text(key)?, self.text(a)?)),
            ([key], [a, b]) => runner.call((script, self.text(key)?, self.text(a)?, self.text(b)?)),
            ([key], [a, b, c]) => {
                let (key, a, b) = (self.text(key)?, self.text(a)?, self.text(b)?);
                runner.call((script, key, a, b, self.text(c)?))
            }
            _ => {
                let mut texts = Vec::with_capacity(keys.len().saturating_add(rest.len()));
                for text in keys.iter().chain(rest) {
                    texts.push(self.text(text)?);
                }
                runner.call((script, Variadic::from(texts)))
            }
        }
    }

    /// A text in the form that is put on the stack without a handle, if it has one.
    fn text<'a>(&self, text: &'a [u8]) -> mlua::Result<Either<&'a str, LuaString>> {
        Ok(match std::str::from_utf8(text) {
            Ok(text) => Either::Left(text),
            Err(_) => Either::Right(self.lua.create_string(text)?),
        })
    }

    /// Gives back the memory of a script that used much. False if that has not helped, and the
    /// interpreter is better replaced.
    pub(crate) fn clean(&mut self, is_forced: bool) -> bool {
        let used = self.lua.used_memory();
        if !is_forced && used < self.clean_bytes.saturating_add(GARBAGE_BYTES_MAX) {
            return true;
        }
        if self.lua.gc_collect().is_err() {
            return false;
        }
        self.clean_bytes = self.lua.used_memory();
        self.clean_bytes < CLEAN_BYTES_MAX
    }

    pub(crate) fn used_memory(&self) -> usize {
        self.lua.used_memory()
    }

    fn list_of(&self, texts: &[&[u8]]) -> mlua::Result<Table> {
        let list = self.lua.create_table_with_capacity(texts.len(), 0)?;
        for text in texts {
            list.raw_push(self.lua.create_string(text)?)?;
        }
        Ok(list)
    }
}

/// The compiler replaces calls of Luau's functions by instructions of their own, whether or not scripts have a function of
/// that name. It leaves alone those that they lack or have in another form.
fn script_compiler() -> Compiler {
    Compiler::new()
        .set_mutable_globals(ABSENT_GLOBALS)
        .set_disabled_builtins(ABSENT_FUNCTIONS)
}

/// The same for this script. Calls of the functions that read or copy a long text without a step are replaced only where
/// they are few and written out.
fn compiler_of(body: &[u8]) -> Compiler {
    let mut calls: usize = 0;
    let mut is_all_calls = true;
    for name in INLINED_AND_SLOW {
        let ends = name.len()..=body.len();
        for end in ends.filter(|&end| body[..end].ends_with(name)) {
            calls = calls.saturating_add(1);
            is_all_calls &= body.get(end) == Some(&b'(');
        }
    }
    if calls == 0 || is_all_calls && calls <= INLINED_MAX {
        return script_compiler();
    }
    Compiler::new()
        .set_mutable_globals(ABSENT_GLOBALS)
        .set_disabled_builtins(
            ABSENT_FUNCTIONS
                .into_iter()
                .chain(["tonumber", "string.sub"]),
        )
}

/// Makes the environment of all scripts read-only, down to the metatables.
fn freeze(lua: &Lua, env: &Table) -> mlua::Result<()> {
    for pair in env.pairs::<Value, Value>() {
        if let (_, Value::Table(library)) = pair?
            && &library != env
        {
            library.set_readonly(true);
        }
    }
    if let Some(metatable) = env.metatable() {
        metatable.set_readonly(true);
    }
    if let Some(strings) = lua.type_metatable::<LuaString>() {
        strings.set_readonly(true);
    }
    env.set_readonly(true);
    // Lets the compiler look up `redis.call` once per script: nothing can ever change it.
    env.set_safeenv(true);
    Ok(())
}

const ABSENT_GLOBALS: [&str; 6] = ["typeof", "rawlen", "bit32", "buffer", "vector", "integer"];
const ABSENT_FUNCTIONS: [&str; 9] = [
    "math.clamp",
    "math.sign",
    "math.round",
    "math.lerp",
    "math.isnan",
    "math.isinf",
    "math.isfinite",
    "math.log",
    "table.unpack",
];
/// `tonumber` and `string.sub`, whatever the latter is called with.
const INLINED_AND_SLOW: [&[u8]; 2] = [b"tonumber", b"sub"];
const INLINED_MAX: usize = 6;
const SANDBOX: &str = include_str!("sandbox.luau");
const BEFORE: &[u8] = b"return function(KEYS, ARGV, ...) ";
const AFTER: &[u8] = b"\nend";
/// Beyond this the arguments go through tables that are filled one by one.
const STACKED_ARGUMENTS_MAX: usize = 1000;
/// A script that leaves more garbage than this pays for a full collection.
const GARBAGE_BYTES_MAX: usize = 8 << 20;
/// More than the compiled scripts of a full cache can need.
const CLEAN_BYTES_MAX: usize = 96 << 20;
