//! Functions of Lua 5.1's own libraries that Luau lacks, or has in another form.

use std::rc::Rc;

use mlua::{Error, Table, Value};

use crate::number::truncated;
use crate::script::luau::fault::Raised;
use crate::script::luau::libraries::native::{Library, NativeCall};
use crate::script::luau::random::{Drand48, ScriptRandom};

/// The functions of `math`.
pub(super) fn math(library: &Library<'_>, random: &Rc<ScriptRandom>) -> mlua::Result<Table> {
    let table = library.lua.create_table()?;
    library.add(&table, "log", |call| call.number(1).map(f64::ln))?;
    let source = Rc::clone(random);
    library.add(&table, "random", move |call| random_number(call, &source))?;
    let source = Rc::clone(random);
    library.add(&table, "randomseed", move |call| {
        let low_bits = truncated(call.number(1)?) & i64::from(u32::MAX);
        let seed = u32::try_from(low_bits).expect("masked to 32 bits");
        source.seed(seed);
        Ok(())
    })?;
    Ok(table)
}

/// The functions of `string`.
pub(super) fn string(library: &Library<'_>) -> mlua::Result<Table> {
    let table = library.lua.create_table()?;
    library.add(&table, "dump", |call| match call.value(1) {
        Some(Value::Function(_)) => Err::<(), Error>(call.fault("unable to dump given function")),
        _ => Err(call.wrong_type(1, "function")),
    })?;
    Ok(table)
}

/// The functions of `table`.
pub(super) fn table(library: &Library<'_>) -> mlua::Result<Table> {
    let table = library.lua.create_table()?;
    library.add(&table, "setn", |call| {
        Err::<(), Error>(call.fault("'setn' is obsolete"))
    })?;
    Ok(table)
}

fn random_number(call: &NativeCall<'_>, source: &ScriptRandom) -> mlua::Result<f64> {
    let number = match call.count() {
        0 => source.draw(Drand48::fraction),
        1 => source.draw(between(call, 1.0, call.number(1)?)?),
        2 => source.draw(between(call, call.number(1)?, call.number(2)?)?),
        _ => return Err(call.fault("wrong number of arguments")),
    };
    number.ok_or_else(|| Raised::by_function(NO_SEED).into())
}

/// Draws one of the whole numbers from `low` to `high`, the last argument.
fn between(
    call: &NativeCall<'_>,
    low: f64,
    high: f64,
) -> mlua::Result<impl FnOnce(&mut Drand48) -> f64 + use<>> {
    let (low, high) = (low.trunc(), high.trunc());
    if low.is_nan() || high.is_nan() || low > high {
        return Err(call.refuse(call.count(), "interval is empty"));
    }
    Ok(move |generator: &mut Drand48| generator.between(low, high))
}

const NO_SEED: &str = "the system gives no random numbers: what the script makes of them might not be unique. Its writes \
                       until here stay";
