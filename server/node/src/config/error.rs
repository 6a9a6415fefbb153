//! What can be wrong with a configuration, in the shape Redis prints it.

use std::path::PathBuf;

/// Why one value was refused: names what is allowed. The directive and the value are named around it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Problem {
    reason: String,
}

impl Problem {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }

    /// Redis's words for too few or too many values.
    pub(super) fn wrong_number_of_arguments() -> Self {
        Self::new("wrong number of arguments")
    }

    /// Adds what the writer probably meant.
    pub(super) fn with_suggestion(mut self, suggestion: Option<&str>) -> Self {
        if let Some(suggestion) = suggestion {
            self.reason
                .push_str(&format!(". Did you mean '{suggestion}'?"));
        }
        self
    }
}

/// Where a line of configuration came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line of the file named on the command line, or of standard input.
    File {
        /// Counted from 1.
        line: usize,
    },
    /// A line of a file that another one includes.
    Included {
        /// The path as written.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// `--directive value ...`.
    CommandLine,
}

impl Origin {
    fn heading(&self) -> String {
        match self {
            Self::File { line } => format!("Reading the configuration file, at line {line}"),
            Self::Included { path, line } => {
                let path = path.display();
                format!("Reading the configuration file '{path}', at line {line}")
            }
            Self::CommandLine => "Reading the command line".to_owned(),
        }
    }
}

/// Why there is no configuration. The text is complete: print it and exit with status 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be opened or read.
    #[error("Fatal error, can't open config file '{}': {error}", path.display())]
    Unreadable {
        /// The path as written.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: std::io::Error,
    },
    /// Larger than any configuration is, for example because it is a device or a log file.
    #[error(
        "Fatal error, config file '{}' has more than {bytes_max} bytes (includes counted). Is it the right file?",
        path.display()
    )]
    TooLarge {
        /// The path as written.
        path: PathBuf,
        /// What one configuration may have, with all that it includes.
        bytes_max: u64,
    },
    /// A line that cannot be accepted.
    #[error(
        "*** FATAL CONFIG FILE ERROR (Quorlock {}) ***\n{}\n>>> '{text}'\n{problem}",
        env!("CARGO_PKG_VERSION"),
        .origin.heading()
    )]
    Line {
        /// Where it stands.
        origin: Origin,
        /// The line itself, shortened and without control characters; passwords are hidden.
        text: String,
        /// Why.
        #[source]
        problem: Problem,
    },
}
