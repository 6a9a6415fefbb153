//! How a user ends an experiment: signals, listened to before anything is made.

use std::io;

use quorlock_experiment::engine::Cancel;

use super::failed;
use crate::exit_code::Failure;
use crate::output::remark;
use crate::signals::CaughtSignals;

/// The first Ctrl-C, or a request to end, ends the run and keeps what was tried; the second ends the process. Signals are
/// listened to once this returns.
pub(super) fn on_signals() -> Result<Cancel, Failure> {
    let cannot = |error: io::Error| failed(format!("cannot listen for signals: {error}"));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(cannot)?;
    let signals = {
        let _within = runtime.enter();
        CaughtSignals::that_interrupt().map_err(cannot)?
    };
    let cancel = Cancel::default();
    let listening = listen(cancel.clone(), signals);
    let listener = std::thread::Builder::new().spawn(move || runtime.block_on(listening));
    listener.map_err(cannot)?;
    Ok(cancel)
}

async fn listen(cancel: Cancel, mut signals: CaughtSignals) {
    loop {
        let _whichever = signals.next().await;
        if cancel.is_cancelled() {
            std::process::exit(i32::from(super::ERROR));
        }
        // In this order, so that nothing begins once the user has read it.
        cancel.cancel();
        remark("ending; what was tried is kept. Once more ends at once");
    }
}
