//! What a key means: a function of what is shown. It does nothing.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::state::{Page, State};
use crate::cluster::control::ControlRequest;
use crate::cluster::view::{LocalCluster, NodeView, ProcessState};

/// What is to be done for a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    /// Let the keys mean this node.
    Select(u16),
    Show(Page),
    /// Note these words among the events.
    Say(&'static str),
    /// Ask the supervisor, in these words.
    Ask(&'static str, ControlRequest),
    /// Let the callers rest, or go on.
    FlipLoad,
    /// End the table, and the cluster where it is the table of `cluster up`.
    Quit,
}

/// What this key means now, if anything.
pub(super) fn press(state: &State, key: KeyEvent) -> Option<KeyAction> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let modifiers = key.modifiers.difference(KeyModifiers::SHIFT);
    if modifiers == KeyModifiers::CONTROL && key.code == KeyCode::Char('c') {
        return Some(KeyAction::Quit);
    }
    if !modifiers.is_empty() {
        return None;
    }
    let cluster = state.snapshot.as_ref().map(|snapshot| &snapshot.cluster);
    match (state.page, key.code) {
        (Page::Table, _) => {}
        // Who leaves a log as in other programs does not stop the cluster.
        (Page::Log, KeyCode::Esc | KeyCode::Char('l' | 'q')) => {
            return Some(KeyAction::Show(Page::Table));
        }
        (Page::Log, key) => return select(cluster?, state.selected, key),
        (Page::Help | Page::Banner, _) => return Some(KeyAction::Show(Page::Table)),
    }
    match key.code {
        KeyCode::Char('q') => Some(KeyAction::Quit),
        KeyCode::Char('?') => Some(KeyAction::Show(Page::Help)),
        _ if state.can_act => act(state, cluster?, key.code),
        _ => None,
    }
}

/// The keys of a table that changes the cluster.
fn act(state: &State, cluster: &LocalCluster, key: KeyCode) -> Option<KeyAction> {
    let selected = cluster.node(state.selected);
    match key {
        KeyCode::Char('l') if cluster.in_process => Some(KeyAction::Say(NO_LOG)),
        KeyCode::Char('l') => selected.map(|_| KeyAction::Show(Page::Log)),
        KeyCode::Char('g') if state.load.is_some() => Some(KeyAction::FlipLoad),
        KeyCode::Char('b') if cluster.ready => Some(KeyAction::Show(Page::Banner)),
        // One thing at a time: the supervisor does one after the other as well.
        KeyCode::Char(letter @ 'a'..='z') if state.pending.is_none() => request(letter, selected?),
        _ => select(cluster, state.selected, key),
    }
}

/// The keys that select a node.
fn select(cluster: &LocalCluster, selected: u16, key: KeyCode) -> Option<KeyAction> {
    let number = match key {
        KeyCode::Up => selected.checked_sub(1)?,
        KeyCode::Down => selected.checked_add(1)?,
        KeyCode::Char(digit @ '1'..='9') => u16::try_from(digit.to_digit(10)?).ok()?,
        _ => return None,
    };
    let node = cluster.node(number)?;
    Some(KeyAction::Select(node.number))
}

fn request(letter: char, node: &NodeView) -> Option<KeyAction> {
    let (is_paused, is_full) = (node.process == ProcessState::Paused, node.is_disk_full);
    let node = node.number;
    let (words, request) = match letter {
        'k' => ("kill", ControlRequest::Kill { node }),
        't' => ("stop", ControlRequest::Stop { node }),
        'r' => ("restart", ControlRequest::Restart { node }),
        'p' if is_paused => ("resume", ControlRequest::Resume { node }),
        'p' => ("pause", ControlRequest::Pause { node }),
        'd' if is_full => ("heal", ControlRequest::Heal { node: Some(node) }),
        'd' => ("fill the disk of", ControlRequest::DiskFull { node }),
        'j' => {
            let (node, by) = (Some(node), JUMP);
            (
                "advance the clocks of",
                ControlRequest::Advance { node, by },
            )
        }
        _ => return None,
    };
    Some(KeyAction::Ask(words, request))
}

/// Longer than a lock lasts whose ttl nobody has set.
const JUMP: Duration = Duration::from_secs(31);
const NO_LOG: &str = "nodes inside the supervisor write no log; start a cluster without --ephemeral and --in-process: \
     quorlock cluster up";

#[cfg(test)]
mod tests {
    use super::super::tests::{node, shown};
    use super::*;
    use crate::cluster::load::CallerFigures;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    fn letter(letter: char) -> KeyEvent {
        key(KeyCode::Char(letter))
    }

    #[test]
    fn keys_select_nodes_that_there_are() {
        let mut state = shown(3);
        assert_eq!(press(&state, letter('3')), Some(KeyAction::Select(3)));
        assert_eq!(press(&state, letter('4')), None);
        assert_eq!(press(&state, letter('0')), None);
        assert_eq!(press(&state, key(KeyCode::Up)), None);
        assert_eq!(
            press(&state, key(KeyCode::Down)),
            Some(KeyAction::Select(2))
        );
        state.selected = 3;
        assert_eq!(press(&state, key(KeyCode::Down)), None);
        assert_eq!(press(&state, key(KeyCode::Up)), Some(KeyAction::Select(2)));
        state.selected = u16::MAX;
        assert_eq!(press(&state, key(KeyCode::Down)), None);
        assert_eq!(press(&state, letter('k')), None);
    }

    #[test]
    fn keys_ask_for_what_the_commands_ask() {
        let mut state = shown(3);
        state.selected = 2;
        let requests = [
            ('k', "kill", ControlRequest::Kill { node: 2 }),
            ('t', "stop", ControlRequest::Stop { node: 2 }),
            ('r', "restart", ControlRequest::Restart { node: 2 }),
            ('p', "pause", ControlRequest::Pause { node: 2 }),
            (
                'd',
                "fill the disk of",
                ControlRequest::DiskFull { node: 2 },
            ),
            (
                'j',
                "advance the clocks of",
                ControlRequest::Advance {
                    node: Some(2),
                    by: Duration::from_secs(31),
                },
            ),
        ];
        for (key, words, request) in requests {
            let asked = Some(KeyAction::Ask(words, request));
            assert_eq!(press(&state, letter(key)), asked);
        }
        node(&mut state, 2).process = ProcessState::Paused;
        let resume = ControlRequest::Resume { node: 2 };
        let asked = Some(KeyAction::Ask("resume", resume));
        assert_eq!(press(&state, letter('p')), asked);
        node(&mut state, 2).is_disk_full = true;
        let heal = ControlRequest::Heal { node: Some(2) };
        let asked = Some(KeyAction::Ask("heal", heal));
        assert_eq!(press(&state, letter('d')), asked);
        assert_eq!(press(&state, letter('x')), None);
        state.pending = Some("resume node 2".to_owned());
        assert_eq!(press(&state, letter('k')), None, "one thing at a time");
        assert_eq!(press(&state, letter('q')), Some(KeyAction::Quit));
    }

    #[test]
    fn a_log_is_left_by_keys_that_leave_and_shows_the_node_that_is_selected() {
        let mut state = shown(3);
        let table = Some(KeyAction::Show(Page::Table));
        assert_eq!(press(&state, letter('l')), Some(KeyAction::Show(Page::Log)));
        state.page = Page::Log;
        for leaves in [letter('l'), letter('q'), key(KeyCode::Esc)] {
            assert_eq!(press(&state, leaves), table);
        }
        assert_eq!(press(&state, letter('3')), Some(KeyAction::Select(3)));
        assert_eq!(
            press(&state, key(KeyCode::Down)),
            Some(KeyAction::Select(2))
        );
        for nothing in "kdjtrp?b4".chars() {
            assert_eq!(press(&state, letter(nothing)), None, "{nothing}");
        }
        state.page = Page::Table;
        let snapshot = state.snapshot.as_mut().expect("it was looked at");
        snapshot.cluster.in_process = true;
        assert_eq!(press(&state, letter('l')), Some(KeyAction::Say(NO_LOG)));
    }

    #[test]
    fn a_load_rests_and_goes_on_where_there_is_one() {
        let mut state = shown(3);
        assert_eq!(press(&state, letter('g')), None);
        state.look_at_load(Some(CallerFigures::default()), Duration::ZERO);
        assert_eq!(press(&state, letter('g')), Some(KeyAction::FlipLoad));
        state.can_act = false;
        assert_eq!(press(&state, letter('g')), None);
    }

    #[test]
    fn a_table_that_only_watches_changes_nothing() {
        let mut state = shown(3);
        state.can_act = false;
        for key in "ktrpb12ldj".chars() {
            assert_eq!(press(&state, letter(key)), None, "{key}");
        }
        assert_eq!(press(&state, letter('q')), Some(KeyAction::Quit));
    }

    #[test]
    fn ctrl_c_always_ends_and_other_keys_leave_a_page() {
        let ctrl = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        let mut state = State::new(true);
        assert_eq!(press(&state, ctrl('c')), Some(KeyAction::Quit));
        assert_eq!(press(&state, letter('k')), None, "no node is known yet");
        state = shown(3);
        assert_eq!(press(&state, ctrl('k')), None);
        let released = KeyEvent::new_with_kind(
            KeyCode::Char('q'),
            KeyModifiers::NONE,
            KeyEventKind::Release,
        );
        assert_eq!(press(&state, released), None);
        assert_eq!(
            press(&state, letter('?')),
            Some(KeyAction::Show(Page::Help))
        );
        assert_eq!(
            press(&state, letter('b')),
            Some(KeyAction::Show(Page::Banner))
        );
        for page in [Page::Help, Page::Banner] {
            state.page = page;
            assert_eq!(
                press(&state, letter('k')),
                Some(KeyAction::Show(Page::Table))
            );
            assert_eq!(press(&state, ctrl('c')), Some(KeyAction::Quit));
        }
    }
}
