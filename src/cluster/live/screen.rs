//! The terminal of a live table.
//!
//! Invariant: however the table ends, the terminal is as it was before: its own mode, its own screen, the cursor shown.
//! What is to stay on the terminal goes to its own screen, behind the table. What is pasted comes as one event, and not as keys.

use std::io::{self, IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::panic;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{
    self, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
    is_raw_mode_enabled,
};
use ratatui::layout::{Position, Rect};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use super::state::State;
use super::table;
use crate::cluster::queued_output::QueuedOutput;
use crate::output::ERASE_LINE;

/// A terminal that shows a table.
#[derive(Debug)]
pub(in crate::cluster) struct Screen {
    /// Not dropped: where the terminal is gone its drop would write to standard error, and panic.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<TerminalFrame>>>,
    output: QueuedOutput,
    /// Whether the terminal's own screen is shown instead of the table.
    is_aside: bool,
    /// Whether something else may have written to the terminal.
    is_stale: bool,
}

/// What is collected here goes to the terminal at once.
#[derive(Debug)]
struct TerminalFrame {
    bytes: Vec<u8>,
    output: QueuedOutput,
}

impl Screen {
    /// Whether there is a terminal for a table: for input and output, in whose foreground this process runs, and which can do
    /// more than print lines.
    pub(in crate::cluster) fn is_available() -> bool {
        let stdin = io::stdin();
        let kind = std::env::var_os("TERM").unwrap_or_default();
        stdin.is_terminal()
            && io::stdout().is_terminal()
            && !(kind.is_empty() || kind == "dumb")
            && is_in_foreground()
            && has_usual_size().is_ok_and(|is_usual| is_usual)
    }

    /// Takes the terminal. A panic gives it back before it prints anything.
    pub(in crate::cluster) fn open(output: QueuedOutput) -> io::Result<Self> {
        let terminal = Terminal::new(CrosstermBackend::new(TerminalFrame::to(&output)))?;
        let (at_panic, print_panic) = (output.clone(), panic::take_hook());
        panic::set_hook(Box::new(move |panic| {
            give_back(&at_panic, false);
            at_panic.finish();
            print_panic(panic);
        }));
        enable_raw_mode()?;
        let screen = Self {
            terminal: ManuallyDrop::new(terminal),
            output,
            is_aside: false,
            is_stale: false,
        };
        let mut frame = TerminalFrame::to(&screen.output);
        execute!(frame, EnterAlternateScreen, EnableBracketedPaste)?;
        Ok(screen)
    }

    /// Whether the terminal has taken all that was written.
    pub(super) fn is_written(&self) -> bool {
        self.output.is_idle()
    }

    /// Waits until the terminal has taken something.
    pub(super) async fn written(&self) {
        self.output.written().await;
    }

    /// Takes the terminal again after this process was stopped: a shell may have set it otherwise, and written to it.
    pub(super) fn retake(&mut self) -> io::Result<()> {
        self.is_stale = true;
        if is_raw_mode_enabled()? && is_in_foreground() {
            disable_raw_mode()?;
            enable_raw_mode()?;
        }
        Ok(())
    }

    pub(super) fn draw(&mut self, state: &State) -> io::Result<()> {
        // A panic of another thread has given the terminal back.
        if !is_raw_mode_enabled()? {
            return Err(io::Error::other("the terminal was given back"));
        }
        if !has_usual_size()? {
            return Err(io::Error::other("the terminal is too large"));
        }
        let is_back = std::mem::take(&mut self.is_aside);
        if std::mem::take(&mut self.is_stale) || is_back {
            let mut frame = TerminalFrame::to(&self.output);
            execute!(
                frame,
                Print(ERASE_LINE),
                EnterAlternateScreen,
                EnableBracketedPaste
            )?;
            // Draws all of it. A `clear` would ask the terminal where the cursor is, and its answer would come among the keys.
            let size = self.terminal.size()?;
            self.terminal.resize(Rect::from((Position::ORIGIN, size)))?;
        }
        self.terminal.draw(|frame| table::draw(frame, state))?;
        Ok(())
    }

    /// Shows the terminal's own screen, until something is drawn.
    fn set_aside(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_aside, true) {
            let mut frame = TerminalFrame::to(&self.output);
            execute!(frame, LeaveAlternateScreen)?;
        }
        Ok(())
    }

    /// Shows how to get back to the table.
    pub(super) fn hint(&mut self) -> io::Result<()> {
        self.set_aside()?;
        let hint = format!("{ERASE_LINE}Any key: back to the table");
        self.output.send(hint.as_bytes())
    }

    /// Writes lines that stay on the terminal after the table. One that is not read misses them, once enough is waiting for it.
    pub(super) fn print(&mut self, text: &str) -> io::Result<()> {
        if !self.output.has_room() {
            return Ok(());
        }
        self.set_aside()?;
        // The terminal is in raw mode, where a new line does not begin at the left.
        let text = text.replace('\n', "\r\n");
        let text = format!("{ERASE_LINE}{text}\r\n");
        self.output.send(text.as_bytes())
    }
}

impl TerminalFrame {
    fn to(output: &QueuedOutput) -> Self {
        Self {
            bytes: Vec::new(),
            output: output.clone(),
        }
    }
}

impl Write for TerminalFrame {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.send(&std::mem::take(&mut self.bytes))
    }
}

fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).ok() == Some(getpgrp())
}

/// Sets the terminal as it was before, unless that is done already.
fn give_back(output: &QueuedOutput, is_aside: bool) {
    if !is_raw_mode_enabled().is_ok_and(|is_enabled| is_enabled) {
        return;
    }
    let _terminal_is_gone = disable_raw_mode();
    let mut frame = TerminalFrame::to(output);
    // Leaving the other screen twice would put the cursor back to where it was at first.
    let _terminal_is_gone = match is_aside {
        true => execute!(frame, DisableBracketedPaste, Print(ERASE_LINE), Show),
        false => execute!(frame, DisableBracketedPaste, LeaveAlternateScreen, Show),
    };
}

/// Whether the memory for a table is in proportion. Any program may set any size.
fn has_usual_size() -> io::Result<bool> {
    let (columns, rows) = terminal::size()?;
    Ok(u32::from(columns) * u32::from(rows) <= CELLS_MAX)
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back(&self.output, self.is_aside);
    }
}

const CELLS_MAX: u32 = 1 << 18;
