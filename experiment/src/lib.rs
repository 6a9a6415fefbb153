//! Experiments that show what each fsync mode loses, costs and risks when nodes crash.
//!
//! A *cell* is one combination of fsync mode, restart delay, fault and number of nodes. An engine carries out a trial of
//! a cell and records what happened; the checks judge the record, the same ones for every engine, and never ask the
//! nodes or clients what they think of it. The summary and the report show what the trials came to.

pub mod cell;
pub mod checks;
pub mod compare;
pub mod effect;
pub mod engine;
pub mod fault;
pub mod history;
pub mod machine;
pub mod plan;
pub mod preset;
pub mod report;
pub mod results;
pub mod run;
pub mod statistics;
mod step_log;
pub mod summary;
pub mod trial;
mod words;
