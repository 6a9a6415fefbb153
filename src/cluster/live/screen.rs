//! The terminal of a live table.
//!
//! Invariant: however the table ends, the terminal is as it was before: its own mode, its own screen, the cursor shown.
//! What is to stay on the terminal goes to its own screen, behind the table.

use std::io::{self, IsTerminal, Write};
use std::mem::ManuallyDrop;

use ratatui::DefaultTerminal;
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{
    self, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, is_raw_mode_enabled,
};
use ratatui::layout::{Position, Rect};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use super::state::State;
use super::table;
use crate::output::ERASE_LINE;

/// A terminal that shows a table.
#[derive(Debug)]
pub(in crate::cluster) struct Screen {
    /// Not dropped: where the terminal is gone its drop would write to standard error, and panic.
    terminal: ManuallyDrop<DefaultTerminal>,
    /// Whether the terminal's own screen is shown instead of the table.
    is_aside: bool,
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
            && tcgetpgrp(&stdin).ok() == Some(getpgrp())
            && has_usual_size().is_ok_and(|is_usual| is_usual)
    }

    /// Takes the terminal. A panic gives it back before it prints anything.
    pub(in crate::cluster) fn open() -> io::Result<Self> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self {
                terminal: ManuallyDrop::new(terminal),
                is_aside: false,
            }),
            Err(error) => {
                let _as_far_as_possible = ratatui::try_restore();
                Err(error)
            }
        }
    }

    pub(super) fn draw(&mut self, state: &State) -> io::Result<()> {
        // A panic of another thread has given the terminal back.
        if !is_raw_mode_enabled()? {
            self.is_aside = true;
            return Err(io::Error::other("the terminal was given back"));
        }
        if !has_usual_size()? {
            return Err(io::Error::other("the terminal is too large"));
        }
        if std::mem::take(&mut self.is_aside) {
            execute!(io::stdout(), Print(ERASE_LINE), EnterAlternateScreen)?;
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
            execute!(io::stdout(), LeaveAlternateScreen)?;
        }
        Ok(())
    }

    /// Shows how to get back to the table.
    pub(super) fn hint(&mut self) -> io::Result<()> {
        self.set_aside()?;
        let mut stdout = io::stdout().lock();
        write!(stdout, "{ERASE_LINE}Any key: back to the table")?;
        stdout.flush()
    }

    /// Writes lines that stay on the terminal after the table.
    pub(super) fn print(&mut self, text: &str) -> io::Result<()> {
        self.set_aside()?;
        // The terminal is in raw mode, where a new line does not begin at the left.
        let text = text.replace('\n', "\r\n");
        let mut stdout = io::stdout().lock();
        write!(stdout, "{ERASE_LINE}{text}\r\n")?;
        stdout.flush()
    }
}

/// Whether the memory for a table is in proportion. Any program may set any size.
fn has_usual_size() -> io::Result<bool> {
    let (columns, rows) = terminal::size()?;
    Ok(u32::from(columns) * u32::from(rows) <= CELLS_MAX)
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Leaving the other screen twice would put the cursor back to where it was at first.
        let _terminal_is_gone = match self.is_aside {
            true => disable_raw_mode().and_then(|()| write!(io::stdout(), "{ERASE_LINE}")),
            false => ratatui::try_restore(),
        };
        let _terminal_is_gone = self.terminal.show_cursor();
    }
}

const CELLS_MAX: u32 = 1 << 18;
