//! The live table: a function from what is known to what is on the screen.
//!
//! It fits any size. Columns that have no room are left out, then events, then the title. Names and events may hold any
//! character and reach the screen escaped.

use std::iter;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};

use super::columns::Column;
use super::printable::{printable, wrapped};
use super::state::{LoadShown, Page, State};
use crate::cluster::latencies::RecentLatencies;
use crate::cluster::snapshot::{self, Snapshot};
use crate::cluster::view::NodeView;

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let Some(snapshot) = &state.snapshot else {
        return frame.render_widget(Paragraph::new("the nodes are starting"), area);
    };
    if state.page == Page::Help {
        let help = Paragraph::new(help(state.can_act)).wrap(Wrap { trim: false });
        return frame.render_widget(help, area);
    }
    let quorum = quorum(snapshot);
    let is_narrow = usize::from(area.width) < quorum.len();
    // Nodes are numbered from 1.
    let last = snapshot.cluster.nodes.last().map_or(0, |node| node.number);
    let mut heights = Heights::of(area.height, is_narrow, last, state.load.is_some());
    let log = (state.page == Page::Log).then(|| snapshot.cluster.node(state.selected));
    if log.is_some() {
        heights.nodes = 0;
    }
    let parts = Layout::vertical(heights.constraints()).split(area);
    let [title, verdict, load, nodes, events, footer] = *parts else {
        return;
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let heading = match log.flatten() {
        Some(node) => heading_of_log(node),
        None => heading(snapshot),
    };
    frame.render_widget(Line::styled(heading, bold), title);
    let tone = if snapshot.can_lock() {
        Color::Green
    } else {
        Color::Red
    };
    let words = Paragraph::new(quorum).wrap(Wrap { trim: true });
    frame.render_widget(words.style(Style::new().fg(tone)), verdict);
    if let Some(shown) = &state.load {
        frame.render_widget(load_line(shown), load);
    }
    if log.is_some() {
        frame.render_widget(end_of(state.log.lines(), events), events);
    } else {
        draw_nodes(frame, state, snapshot, nodes);
        frame.render_widget(last_events(state, events), events);
    }
    frame.render_widget(Line::raw(keys(state)), footer);
}

/// How many lines each part has.
struct Heights {
    title: u16,
    verdict: u16,
    load: u16,
    nodes: u16,
    footer: u16,
}

impl Heights {
    fn of(height: u16, is_narrow: bool, count: u16, has_load: bool) -> Self {
        let title = u16::from(height > 5);
        let footer = u16::from(height > 4);
        let verdict = if is_narrow && height > 6 { 2 } else { 1 };
        let load = u16::from(has_load && height > 7);
        let free = height.saturating_sub(title + footer + verdict + load);
        // Of more nodes than have room some are scrolled away; events stay where there is room for both.
        let events = if free > 12 { EVENTS_HEIGHT } else { 0 };
        let nodes = count.saturating_add(1).min(free.saturating_sub(events));
        Self {
            title,
            verdict,
            load,
            nodes,
            footer,
        }
    }

    fn constraints(&self) -> [Constraint; 6] {
        [
            Constraint::Length(self.title),
            Constraint::Length(self.verdict),
            Constraint::Length(self.load),
            Constraint::Length(self.nodes),
            Constraint::Fill(1),
            Constraint::Length(self.footer),
        ]
    }
}

fn heading(snapshot: &Snapshot) -> String {
    let cluster = &snapshot.cluster;
    let (name, mode) = (printable(&cluster.name), &cluster.appendfsync);
    let directory = printable(&cluster.directory.to_string_lossy());
    format!("Cluster '{name}', appendfsync {mode}, in {directory}")
}

fn heading_of_log(node: &NodeView) -> String {
    let file = printable(&node.log.to_string_lossy());
    format!("Log of node {}, {file}", node.number)
}

fn quorum(snapshot: &Snapshot) -> String {
    let verdict = if snapshot.can_lock() {
        "locks can be taken"
    } else {
        "no lock can be taken"
    };
    let (serving, count) = (snapshot.serving(), snapshot.answers.len());
    let needed = snapshot.cluster.quorum;
    format!("{serving} of {count} serve: {verdict} ({needed} needed)")
}

/// What the callers do, what matters first: a narrow terminal cuts the end.
fn load_line(load: &LoadShown) -> Line<'static> {
    let figures = load.figures;
    let rate = match figures.is_on {
        true => format!("{} locks/s", load.taken_per_second),
        false => "resting".to_owned(),
    };
    let tone = match figures.overlaps {
        0 => Color::Green,
        _ => Color::Red,
    };
    let text = format!("load: {rate}, {figures} ({} callers)", figures.callers);
    Line::styled(text, Style::new().fg(tone))
}

fn draw_nodes(frame: &mut Frame<'_>, state: &State, snapshot: &Snapshot, area: Rect) {
    let columns = Column::fitting(area.width.saturating_sub(NODE_WIDTH + 1 + STATE_WIDTH));
    let right = |text: String| Cell::new(Line::raw(text).alignment(Alignment::Right));
    let recent = state.latencies.iter().map(RecentLatencies::p99);
    let recent = recent.chain(iter::repeat(None));
    let rows = snapshot.rows().zip(recent).map(|((node, answer), p99)| {
        let is_selected = state.can_act && node.number == state.selected;
        let mark = if is_selected { ">" } else { " " };
        let (word, words) = snapshot::state(node, answer);
        let words = Cell::new(printable(&words)).style(Style::new().fg(tone(word)));
        let figures = columns.iter().map(|column| right(column.text(answer, p99)));
        let first = Cell::new(format!("{mark} {}", node.number));
        Row::new([first, words].into_iter().chain(figures))
    });
    let headings = columns
        .iter()
        .map(|column| right(column.heading.to_owned()));
    let headings = [Cell::new("node"), Cell::new("state")]
        .into_iter()
        .chain(headings);
    let widths = [Constraint::Length(NODE_WIDTH), Constraint::Fill(1)]
        .into_iter()
        .chain(
            columns
                .iter()
                .map(|column| Constraint::Length(column.width)),
        );
    let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
    let table = Table::new(rows, widths)
        .header(Row::new(headings).style(underlined))
        .row_highlight_style(Style::new().add_modifier(Modifier::BOLD));
    let is_selected = |node: &NodeView| node.number == state.selected;
    let selected = snapshot.cluster.nodes.iter().position(is_selected);
    let mut scroll = TableState::new().with_selected(selected.filter(|_| state.can_act));
    frame.render_stateful_widget(table, area, &mut scroll);
}

/// The colour of a state; the words say the same.
fn tone(word: &str) -> Color {
    match word {
        "serving" => Color::Green,
        "down" => Color::Red,
        _ => Color::Yellow,
    }
}

fn last_events(state: &State, area: Rect) -> Text<'static> {
    let below = Rect {
        height: area.height.saturating_sub(1),
        ..area
    };
    let events = end_of(state.events.iter().map(String::as_str), below);
    iter::once(Line::default()).chain(events).collect()
}

/// The last lines of a text, as many as there is room for.
fn end_of<'a>(text: impl Iterator<Item = &'a str>, area: Rect) -> Text<'static> {
    let lines: Vec<String> = text.flat_map(|line| wrapped(line, area.width)).collect();
    let hidden = lines.len().saturating_sub(area.height.into());
    lines.into_iter().skip(hidden).map(Line::raw).collect()
}

fn keys(state: &State) -> String {
    let keys = match (&state.pending, state.page) {
        (Some(pending), _) => return format!("{pending} ..."),
        (None, Page::Log) => "l, Esc  back to the table  1-9 select",
        (None, _) if state.can_act => {
            "? help  q stop all  1-9 select  k kill  r restart  p pause  l log  b paste"
        }
        (None, _) => "? help  q end",
    };
    keys.to_owned()
}

fn help(can_act: bool) -> &'static str {
    if can_act { HELP } else { WATCH_HELP }
}

const HELP: &str = "\
1-9, up, down  select a node
k  kill -9; it stays down
t  stop it cleanly (SIGTERM)
r  restart it
p  pause it (SIGSTOP), or resume it
d  fill its disk, or heal it (*)
j  move its clocks 31 s ahead (*)
l  the end of its log, and back
g  let the load rest, or go on
b  the lines to paste
q, Ctrl-C  stop all nodes and end
(*) with cluster up --ephemeral
Any other key: back to the table";
const WATCH_HELP: &str = "\
q, Ctrl-C  end; the nodes go on
kill, restart and pause nodes with:
quorlock cluster --help
Any other key: back to the table";
const NODE_WIDTH: u16 = 4;
/// As long as a restart delay is written.
const STATE_WIDTH: u16 = 25;
const EVENTS_HEIGHT: u16 = 6;
