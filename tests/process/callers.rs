//! Callers that take locks again and again while something is done to their nodes.

use std::fs;
use std::process::Command;

use quorlock_testkit::{Process, binary, eventually};

use crate::shell::Shell;

/// So many take a lock of their own each, and one more holds one all the time.
pub(crate) struct Callers {
    processes: Vec<Process>,
}

const CALLERS: usize = 4;
const CALLER: &str = r#"while [ ! -e stop ]; do
    "$QUORLOCK" run "own-$1" --ttl 5s --wait 5s --nodes-file nodes.conf -- true 2>>"errors-$1" &&
        echo . >>"taken-$1" || echo "ended with $?" >>"errors-$1"
done"#;

impl Callers {
    /// Starts them, by the shell's `nodes.conf`.
    pub(crate) fn start(shell: &Shell) -> Self {
        let mut words: Vec<Vec<String>> = (0..CALLERS)
            .map(|number| vec![CALLER.to_owned(), "caller".to_owned(), number.to_string()])
            .collect();
        let holder = "\"$QUORLOCK\" run held --ttl 2s --nodes-file nodes.conf -- sh -c 'until [ -e stop ]; do sleep 0.1; done'";
        words.push(vec![holder.to_owned()]);
        let processes = words.iter().enumerate().map(|(number, words)| {
            let mut command = Command::new("sh");
            command.arg("-c").args(words).current_dir(shell.path());
            command.env("QUORLOCK", binary::quorlock());
            Process::start(&mut command, &shell.file(&format!("caller-{number}.out"))).unwrap()
        });
        let callers = Self {
            processes: processes.collect(),
        };
        callers.go_round(shell);
        callers
    }

    /// Waits until each has started a call and ended it.
    pub(crate) fn go_round(&self, shell: &Shell) {
        // The first that ends may have started before.
        let taken = |number| fs::read(shell.file(&format!("taken-{number}"))).unwrap_or_default();
        let before: Vec<usize> = (0..CALLERS).map(|number| taken(number).len()).collect();
        eventually("each caller takes its lock twice", || {
            (0..CALLERS).all(|number| taken(number).len() >= before[number] + 4)
        });
    }

    /// Ends them. Every call has succeeded, and the lock that was held stayed.
    pub(crate) fn end(mut self, shell: &Shell) {
        fs::write(shell.file("stop"), "").unwrap();
        for process in &mut self.processes {
            let ended = process.await_end();
            assert!(ended.success(), "{}", process.output());
        }
        for number in 0..CALLERS {
            let errors = fs::read_to_string(shell.file(&format!("errors-{number}"))).unwrap();
            assert_eq!(errors, "", "of caller {number}");
        }
    }
}
