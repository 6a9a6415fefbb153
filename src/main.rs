//! The `quorlock` command: one file per subcommand, chosen here.
//!
//! Started under the name `redis-server` it is `quorlock server`. Nothing in this package decides
//! anything about locks: nodes live in `quorlock-server`, acquisition in `quorlock-client`.

mod acquire;
mod agent;
mod arguments;
mod clock;
mod cluster;
mod clusters;
mod command_words;
mod disk_probe;
mod duration;
mod elect;
mod exit_code;
#[cfg(feature = "experiment")]
mod experiment;
mod extend;
mod generated;
mod guesses;
mod holder_options;
mod inspect;
mod launch;
mod local_node;
mod lock_options;
mod lock_variables;
mod log;
mod membership;
mod no_quorum;
mod node;
mod node_address;
mod nodes;
mod nodes_file;
mod outer_runs;
mod output;
#[cfg(feature = "http")]
mod page;
mod release;
mod reply;
mod run;
mod runtime;
mod server;
mod signal_state;
mod signals;
mod tls_options;
mod waiting;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};

use arguments::{Arguments, Subcommand};
use exit_code::{Failure, USAGE};
use output::Format;

#[cfg(not(target_os = "linux"))]
compile_error!("quorlock runs on Linux only: its clocks and its way of tying children are Linux's");

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let own_name = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    if Path::new(&own_name)
        .file_name()
        .is_some_and(|name| name == "redis-server")
    {
        return server::run(&words);
    }
    match words.first().and_then(|word| word.to_str()) {
        Some(launch::MARK) => launch::become_child(words.into_iter().skip(1)),
        #[cfg(feature = "experiment")]
        Some(experiment::node::MARK) => experiment::node::run(words.get(1..).unwrap_or_default()),
        // The directives of a node have their own grammar, which is Redis's.
        Some("server") => server::run(words.get(1..).unwrap_or_default()),
        _ => parse(std::iter::once(own_name).chain(words)),
    }
}

fn parse(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words = command_words::separated(words.collect());
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&words, error),
    };
    let format = Format::from_json_flag(arguments.json);
    match dispatch(arguments.subcommand, format) {
        Ok(code) => code,
        Err(failure) => {
            format.failure(&failure);
            failure.into()
        }
    }
}

/// Answers a command line that cannot be carried out, or that asks for help.
fn refuse(words: &[OsString], mut error: clap::Error) -> ExitCode {
    if let Some(failure) = guesses::answer(words, &error) {
        Format::from_json_flag(words.iter().any(|word| word == "--json")).failure(&failure);
        return failure.into();
    }
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        let _closed_pipe = error.print();
        return ExitCode::SUCCESS;
    }
    guesses::drop_far_proposals(&mut error);
    let mut own_words = words.iter().take_while(|word| *word != "--");
    if own_words.any(|word| word == "--json") {
        let text = error.to_string();
        Format::Json.failure(&Failure::usage(
            text.trim_start_matches("error: ").trim_end(),
        ));
    } else {
        let _closed_pipe = error.print();
        let first = words.get(1).and_then(|word| word.to_str());
        let is_run = matches!(first, Some("run" | "lock"));
        if is_run && error.kind() == ErrorKind::UnknownArgument && !words.iter().any(|w| w == "--")
        {
            output::remark("the command to run stands after --: quorlock run NAME -- COMMAND...");
        }
    }
    ExitCode::from(USAGE)
}

#[cfg(feature = "http")]
const SERVE_PAGE: cluster::ServePage = page::serve_to_all;
#[cfg(feature = "http")]
const SERVE_PAGE_OF_AGENT: agent::ServePage = page::serve_with_key;
#[cfg(not(feature = "http"))]
const SERVE_PAGE: cluster::ServePage = |_, _, _| Err(no_page());
#[cfg(not(feature = "http"))]
const SERVE_PAGE_OF_AGENT: agent::ServePage = |_, _| Err(no_page());

#[cfg(not(feature = "http"))]
fn no_page() -> Failure {
    Failure::usage("this program was built without the feature http, and has no page")
}

fn dispatch(subcommand: Subcommand, format: Format) -> Result<ExitCode, Failure> {
    match subcommand {
        Subcommand::Agent(arguments) => agent::run(arguments, format, SERVE_PAGE_OF_AGENT),
        Subcommand::Server { words } => Ok(server::run(&words)),
        Subcommand::Node(arguments) => node::run(arguments, format),
        Subcommand::Log(arguments) => log::run(arguments, format),
        Subcommand::Cluster(arguments) => cluster::run(arguments, format, SERVE_PAGE),
        #[cfg(feature = "experiment")]
        Subcommand::Experiment(arguments) => experiment::run(arguments, format),
        Subcommand::Run(arguments) => run::run(&arguments, format),
        Subcommand::Elect(arguments) => elect::run(&arguments, format),
        Subcommand::Acquire(arguments) => acquire::run(&arguments, format),
        Subcommand::Extend(arguments) => extend::run(&arguments, format),
        Subcommand::Release(arguments) => release::run(&arguments, format),
        Subcommand::Locks(arguments) => inspect::locks::run(&arguments, format),
        Subcommand::Status(arguments) => inspect::status::run(&arguments, format),
        Subcommand::Members(arguments) => inspect::members::run(&arguments, format),
        Subcommand::Doctor(arguments) => inspect::doctor::run(&arguments, format),
        Subcommand::ForceRelease(arguments) => inspect::force_release::run(&arguments, format),
        Subcommand::Wait(arguments) => inspect::wait::run(&arguments, format),
        Subcommand::Who(arguments) => inspect::who::run(&arguments, format),
        #[cfg(feature = "http")]
        Subcommand::Page(arguments) => page::run(arguments, format),
        Subcommand::Completions(arguments) => {
            Ok(generated::complete(&arguments, Arguments::command()))
        }
        Subcommand::Man(arguments) => generated::write_man_pages(&arguments, Arguments::command()),
    }
}
