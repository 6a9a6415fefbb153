//! How often scripts have called each command.

/// By the number of the command, which is its place in [`all_specs`](crate::all_specs).
#[derive(Clone, Debug, Default)]
pub struct ScriptCounts(Vec<ScriptCount>);

/// How often scripts have called one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptCount {
    /// Executed.
    pub calls: u64,
    /// Refused before that.
    pub rejected: u64,
    /// Executed, and answered with an error.
    pub failed: u64,
}

impl ScriptCounts {
    pub(crate) fn of(&mut self, number: usize) -> &mut ScriptCount {
        if number >= self.0.len() {
            self.0
                .resize(number.saturating_add(1), ScriptCount::default());
        }
        &mut self.0[number]
    }

    /// Those of one command.
    pub fn count(&self, number: usize) -> ScriptCount {
        self.0.get(number).copied().unwrap_or_default()
    }
}

impl ScriptCount {
    pub(crate) fn note(&mut self, has_failed: bool) {
        self.calls = self.calls.saturating_add(1);
        self.failed = self.failed.saturating_add(u64::from(has_failed));
    }
}
