//! The interpreter: made on first use, sandboxed, and bounded while a script runs.
//!
//! Text only is ever compiled, never bytecode. A script sees the sandbox's functions and its own
//! locals; everything it could leave behind for the next one is read-only.

use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, LuaString, StdLib, Table, Value, Variadic, VmState};

use crate::script::call::Shared;
use crate::script::convert::Names;
use crate::script::failure::{CHUNK_NAME, SANDBOX_NAME};
use crate::script::library;

/// One interpreter.
#[derive(Debug)]
pub(crate) struct Vm {
    lua: Lua,
    pub(crate) names: Rc<Names>,
    runners: [Function; 3],
    /// What it used when it was last cleaned.
    clean_bytes: usize,
}

impl Vm {
    pub(crate) fn new(shared: &Rc<Shared>) -> mlua::Result<Vm> {
        let libraries = StdLib::MATH | StdLib::STRING | StdLib::TABLE;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let names = Rc::new(Names::new(&lua)?);
        let natives = library::natives(&lua, shared, &names)?;
        let sandbox = lua.load(SANDBOX).set_name(format!("={SANDBOX_NAME}"));
        let (env, run0, run1, run2): (Table, Function, Function, Function) =
            sandbox.set_mode(ChunkMode::Text).call(natives)?;
        freeze(&lua, &env)?;
        lua.set_globals(env)?;
        let watched = Rc::clone(shared);
        lua.set_interrupt(move |_| match watched.budget.step() {
            Ok(()) => Ok(VmState::Continue),
            Err(end) => Err(mlua::Error::external(end)),
        });
        lua.gc_collect()?;
        let clean_bytes = lua.used_memory();
        Ok(Vm {
            lua,
            names,
            runners: [run0, run1, run2],
            clean_bytes,
        })
    }

    /// Compiles a script. KEYS and ARGV are its locals, declared on its first line so that the
    /// numbers of its lines stay what they are.
    pub(crate) fn compile(&self, body: &[u8]) -> mlua::Result<Function> {
        let mut source = Vec::with_capacity(body.len().saturating_add(PREFIX.len()));
        source.extend_from_slice(PREFIX);
        source.extend_from_slice(body);
        self.lua
            .load(source)
            .set_name(format!("={CHUNK_NAME}"))
            .set_mode(ChunkMode::Text)
            .into_function()
    }

    /// Runs a script with at most `memory_bytes` more memory than is in use now.
    pub(crate) fn run(
        &self,
        script: &Function,
        keys: &[&[u8]],
        rest: &[&[u8]],
        memory_bytes: usize,
    ) -> mlua::Result<Value> {
        let limit = self.lua.used_memory().saturating_add(memory_bytes);
        let result = if rest.len() <= STACKED_ARGUMENTS_MAX && keys.len() < self.runners.len() {
            let mut texts = Vec::with_capacity(keys.len().saturating_add(rest.len()));
            for text in keys.iter().chain(rest) {
                texts.push(self.lua.create_string(text)?);
            }
            self.lua.set_memory_limit(limit)?;
            self.runners[keys.len()].call((script, Variadic::from(texts)))
        } else {
            let (keys, rest) = (self.list_of(keys)?, self.list_of(rest)?);
            self.lua.set_memory_limit(limit)?;
            script.call((keys, rest))
        };
        self.lua.set_memory_limit(0)?;
        result
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

const SANDBOX: &str = include_str!("sandbox.luau");
const PREFIX: &[u8] = b"local KEYS, ARGV = ... ";
/// Beyond this the arguments go through tables that are filled one by one.
const STACKED_ARGUMENTS_MAX: usize = 1000;
/// A script that leaves more garbage than this pays for a full collection.
const GARBAGE_BYTES_MAX: usize = 8 << 20;
/// More than the compiled scripts of a full cache can need.
const CLEAN_BYTES_MAX: usize = 96 << 20;
