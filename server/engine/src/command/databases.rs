//! Whole databases and the node itself: DBSIZE, FLUSHDB, FLUSHALL, SWAPDB, TIME.

use crate::command::about::Categories;
use crate::command::arguments::is_option;
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::number::parse_integer;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&DBSIZE, &FLUSHDB, &FLUSHALL, &SWAPDB, &TIME];

const DBSIZE: Spec = Spec::on_keys("dbsize", 1, dbsize)
    .flags(Flags::READ_KEYS.with(Flags::FAST))
    .about(Categories::KEYSPACE, &[]);

/// Counts keys that have expired and are about to be reclaimed, as Redis does.
fn dbsize(context: &mut CommandContext<'_>, _: &[&[u8]]) -> Result<Reply, ErrorReply> {
    context.reveal_all();
    let keys = context.keyspace.count(context.caller.database).keys;
    Ok(Reply::Integer(
        i64::try_from(keys).expect("slots have 32 bits"),
    ))
}

const FLUSHDB: Spec = Spec::on_keys("flushdb", -1, |context, arguments| {
    let database = context.caller.database;
    flush(context, arguments, Some(database))
})
.flags(Flags::WRITE_KEYS.with(Flags::DANGEROUS))
.about(Categories::KEYSPACE.with(Categories::DANGEROUS), &[]);

const FLUSHALL: Spec = FLUSHDB.variant("flushall", |context, arguments| {
    flush(context, arguments, None)
});

fn flush(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    database: Option<u8>,
) -> Result<Reply, ErrorReply> {
    // Both ways are the same here: the keys are gone when the reply comes.
    match arguments[1..] {
        [] => {}
        [option] if is_option(option, "sync") || is_option(option, "async") => {}
        _ => return Err(ErrorReply::SYNTAX),
    }
    context.reveal_all();
    context.flush(database)?;
    Ok(Reply::Ok)
}

const SWAPDB: Spec = Spec::on_keys("swapdb", 3, swapdb)
    .flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::DANGEROUS))
    .about(Categories::KEYSPACE.with(Categories::DANGEROUS), &[]);

fn swapdb(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    // As in Redis both are numbers before either is a database.
    let number = |argument, error| {
        let number = parse_integer(argument).and_then(|number| i32::try_from(number).ok());
        number.ok_or(ErrorReply::fixed(error))
    };
    let numbers = [
        number(arguments[1], "ERR invalid first DB index")?,
        number(arguments[2], "ERR invalid second DB index")?,
    ];
    let databases = numbers.map(|number| u8::try_from(number).ok());
    let count = context.keyspace.rules.databases;
    let databases = databases.map(|number| number.filter(|&number| number < count));
    let [Some(one), Some(other)] = databases else {
        return Err(NO_SUCH_DATABASE);
    };
    context.reveal_all();
    context.swap_databases([one, other])?;
    Ok(Reply::Ok)
}

const TIME: Spec = Spec::on_keys("time", 1, time)
    .flags(Flags::FAST.with(Flags::ALWAYS))
    .about(Categories::NONE, &[]);

fn time(context: &mut CommandContext<'_>, _: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let part = |number: u64| Reply::bulk(itoa::Buffer::new().format(number));
    let wall_us = context.shown_wall_us();
    Ok(Reply::Array(vec![
        part(wall_us / 1_000_000),
        part(wall_us % 1_000_000),
    ]))
}

/// The database that SELECT names, of so many.
///
/// # Errors
/// As Redis has them: what is no number, no number of 32 bits, or no database.
pub fn database_index(index: &[u8], databases: u8) -> Result<u8, ErrorReply> {
    let index = parse_integer(index).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let index = i32::try_from(index).map_err(|_| NOT_32_BITS)?;
    let database = u8::try_from(index).ok();
    database
        .filter(|&database| database < databases)
        .ok_or(NO_SUCH_DATABASE)
}

const NOT_32_BITS: ErrorReply =
    ErrorReply::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
const NO_SUCH_DATABASE: ErrorReply = ErrorReply::fixed("ERR DB index is out of range");
