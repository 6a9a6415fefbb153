//! How a user ends an experiment: signals, listened to before anything is made.

use std::io;
use std::sync::mpsc;

use quorlock_experiment::engine::Cancel;

use super::failed;
use crate::exit_code::Failure;
use crate::output::remark;
use crate::signals::Signals;

/// The first Ctrl-C, or a request to end, ends the run and keeps what was tried; the second ends the process. Signals are
/// listened to once this returns.
pub(super) fn on_signals() -> Result<Cancel, Failure> {
    let cancel = Cancel::default();
    let told = cancel.clone();
    let (says, listens) = mpsc::channel();
    let listener = std::thread::Builder::new().spawn(move || listen(&told, &says));
    let cannot = |error: io::Error| failed(format!("cannot listen for signals: {error}"));
    listener.map_err(cannot)?;
    match listens.recv() {
        Ok(listening) => listening.map_err(cannot)?,
        Err(ended) => return Err(failed(format!("cannot listen for signals: {ended}"))),
    }
    Ok(cancel)
}

fn listen(cancel: &Cancel, says: &mpsc::Sender<io::Result<()>>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _nobody_waits = says.send(Err(error));
            return;
        }
    };
    runtime.block_on(async {
        let mut signals = match Signals::that_interrupt() {
            Ok(signals) => signals,
            Err(error) => {
                let _nobody_waits = says.send(Err(error));
                return;
            }
        };
        let _nobody_waits = says.send(Ok(()));
        loop {
            let _whichever = signals.next().await;
            if cancel.is_cancelled() {
                std::process::exit(i32::from(super::ERROR));
            }
            // In this order, so that nothing begins once the user has read it.
            cancel.cancel();
            remark("ending; what was tried is kept. Once more ends at once");
        }
    });
}
