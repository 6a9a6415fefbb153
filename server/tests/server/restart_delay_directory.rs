//! Real directories: moved, copied, restored and emptied. What a node tells from what it knew, what
//! it waits for, and what it cannot tell.

use std::fs;
use std::path::Path;

use quorlock_server::{Node, adopt, mark_restored, release};

use crate::machine::home::Home;
use crate::machine::said::said;
use crate::machine::shelf::{Shelf, names};
use crate::machine::{Directives, run, wire};

const ALWAYS: Directives<'static> = &[("appendfsync", "always")];
const EVERYSEC: Directives<'static> = &[("appendfsync", "everysec")];
const CAP: u64 = 61_210;

/// Runs the node once more, with a lock that a backup from before knows nothing of.
async fn run_again(home: &Home) {
    let node = home.start(ALWAYS).await;
    assert_eq!(wire(&node).ask("SET later token NX PX 30000"), "+OK");
    node.stop().await.unwrap();
}

/// A running node whose copy `hot` knows nothing of its last lock.
async fn copied_while_it_runs() -> (Shelf, Home, Node) {
    let shelf = Shelf::new();
    let home = Home::at(shelf.path("data"));
    let node = home.start(ALWAYS).await;
    assert_eq!(wire(&node).ask("SET a token NX PX 10000"), "+OK");
    copy(&home.path, &shelf.path("hot"), Way::InPlace, false);
    assert_eq!(wire(&node).ask("SET b token NX PX 10000"), "+OK");
    (shelf, home, node)
}

fn assert_moved(node: &Node) {
    let said = said(node);
    assert_eq!((said.stop.as_str(), said.left_ms), ("moved", CAP));
}

/// How files are put into a directory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// `cp`, `rsync --inplace`: into the file that is there.
    InPlace,
    /// `rsync`, `tar`, most backup programs: a new file under the old name.
    ByRename,
}

/// Each way, with and without a mirror.
const WAYS: [(Way, bool); 4] = [
    (Way::InPlace, true),
    (Way::InPlace, false),
    (Way::ByRename, true),
    (Way::ByRename, false),
];

/// Copies all files. With `is_mirror` what the source does not have goes, as with `rsync --delete`.
fn copy(from: &Path, to: &Path, way: Way, is_mirror: bool) {
    fs::create_dir_all(to).unwrap();
    let files = contents(from);
    let wanted: Vec<_> = files.iter().map(|(name, _)| name.clone()).collect();
    for (name, bytes) in files {
        match way {
            Way::InPlace => fs::write(to.join(&name), bytes).unwrap(),
            Way::ByRename => {
                fs::write(to.join(".new"), bytes).unwrap();
                fs::rename(to.join(".new"), to.join(&name)).unwrap();
            }
        }
    }
    if is_mirror {
        remove(to, |name| wanted.iter().all(|wanted| wanted != name));
    }
}

/// Removes the files of these names.
fn remove(directory: &Path, is_lost: impl Fn(&str) -> bool) {
    for name in names(directory).iter().filter(|name| is_lost(name)) {
        fs::remove_file(directory.join(name)).unwrap();
    }
}

/// All files of a directory. A running node gives the segment it has just made another name: then
/// the whole is read again.
fn contents(from: &Path) -> Vec<(String, Vec<u8>)> {
    for _ in 0..100 {
        let read = names(from).into_iter().map(|name| {
            let bytes = fs::read(from.join(&name))?;
            Ok::<_, std::io::Error>((name, bytes))
        });
        match read.collect() {
            Ok(files) => return files,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
        }
    }
    panic!("the files of {} do not settle", from.display());
}

/// What was done to the directory of a stopped node, and what its next start says.
struct Case {
    what: &'static str,
    deed: fn(&Path, &Path),
    stop: &'static str,
    delay_ms: u64,
    /// Two runs are on record; what was put back may know of one only.
    incarnation: u64,
}

const fn case(
    what: &'static str,
    deed: fn(&Path, &Path),
    (stop, delay_ms, incarnation): (&'static str, u64, u64),
) -> Case {
    Case {
        what,
        deed,
        stop,
        delay_ms,
        incarnation,
    }
}

/// `data` is the directory, `backup` a copy of it from before the second run.
const CASES: &[Case] = &[
    case("nothing", |_, _| {}, ("clean", 0, 3)),
    case(
        "said to be restored, twice: nothing else tells it from its last run",
        |data, _| {
            mark_restored(data).unwrap();
            mark_restored(data).unwrap();
        },
        ("moved", CAP, 5),
    ),
    case(
        "renamed, and back",
        |data, _| {
            fs::rename(data, data.with_extension("moved")).unwrap();
            fs::rename(data.with_extension("moved"), data).unwrap();
        },
        ("clean", 0, 3),
    ),
    case(
        "the backup copied over it, nothing removed: a segment made ahead comes back blank in the \
         place of one that was used since",
        |data, backup| copy(backup, data, Way::InPlace, false),
        ("moved", CAP, 3),
    ),
    case(
        "mirrored from the backup, in place",
        |data, backup| copy(backup, data, Way::InPlace, true),
        ("moved", CAP, 2),
    ),
    case(
        "mirrored from the backup, by rename",
        |data, backup| copy(backup, data, Way::ByRename, true),
        ("moved", CAP, 2),
    ),
    case(
        "removed and copied back",
        |data, backup| {
            fs::remove_dir_all(data).unwrap();
            copy(backup, data, Way::InPlace, false);
        },
        ("moved", CAP, 2),
    ),
    case(
        "removed, the backup renamed to it",
        |data, backup| {
            fs::remove_dir_all(data).unwrap();
            fs::rename(backup, data).unwrap();
        },
        ("moved", CAP, 2),
    ),
    case(
        "only the log put back: the marker knows of the second run",
        |data, backup| {
            let is_log = |name: &str| name.starts_with("segment-");
            remove(data, is_log);
            for name in names(backup).iter().filter(|name| is_log(name)) {
                fs::copy(backup.join(name), data.join(name)).unwrap();
            }
        },
        ("moved", CAP, 3),
    ),
    case(
        "the marker is lost",
        |data, _| fs::remove_file(data.join("incarnation-0000000002.stopped")).unwrap(),
        ("moved", CAP, 3),
    ),
    case(
        "node.id is lost: the log carries the id",
        |data, _| fs::remove_file(data.join("node.id")).unwrap(),
        ("moved", CAP, 3),
    ),
    case(
        "the log is lost",
        |data, _| remove(data, |name| name.starts_with("segment-")),
        ("emptied", CAP, 3),
    ),
    case(
        "log and identity are lost, the marker tells that somebody lived here",
        |data, _| remove(data, |name| !name.starts_with("incarnation-")),
        ("emptied", CAP, 3),
    ),
    case(
        "all is lost: that is for first-start to judge, which says here that nothing ever ran",
        |data, _| remove(data, |_| true),
        ("unknown", 0, 1),
    ),
];

#[test]
fn what_is_put_back_or_lost_is_noticed_and_waited_for() {
    run(async {
        for case in CASES {
            let shelf = Shelf::new();
            let home = shelf.stopped().await;
            let id = {
                let text = fs::read_to_string(home.path.join("node.id")).unwrap();
                text.lines().nth(1).unwrap().to_owned()
            };
            let backup = shelf.path("backup");
            copy(&home.path, &backup, Way::InPlace, false);
            run_again(&home).await;
            (case.deed)(&home.path, &backup);
            let node = home.start(ALWAYS).await;
            let said = said(&node);
            assert_eq!(
                (said.stop.as_str(), said.left_ms, node.incarnation()),
                (case.stop, case.delay_ms, case.incarnation),
                "{}",
                case.what
            );
            let is_same = wire(&node).info("restart_same_directory");
            assert_eq!(is_same, if case.stop == "moved" { "0" } else { "1" });
            if case.stop == "moved" {
                assert_eq!(format!("id {}", node.id()), id, "{}", case.what);
            }
            // Once it has waited, it is at home: the next start is a clean one.
            home.clock
                .advance(std::time::Duration::from_millis(CAP + 1));
            node.serving().await.unwrap();
            node.stop().await.unwrap();
            let node = home.start(ALWAYS).await;
            assert_eq!(
                crate::machine::said::said(&node).stop,
                "clean",
                "{}",
                case.what
            );
        }
    });
}

/// The original serves on, each copy waits: after a clean stop, after a crash, and while the
/// original runs.
#[test]
fn a_copy_waits_whatever_the_original_does() {
    run(async {
        let shelf = Shelf::new();
        let home = shelf.stopped().await;
        copy(&home.path, &shelf.path("one"), Way::InPlace, false);
        let original = home.start(ALWAYS).await;
        assert_eq!(said(&original).stop, "clean");
        let one = home.beside(shelf.path("one")).start(ALWAYS).await;
        assert_eq!(one.id(), original.id(), "clients count both as one node");
        assert_moved(&one);

        // Taken from the running node: its end is missing, but first of all it is a copy.
        copy(&home.path, &shelf.path("two"), Way::InPlace, false);
        let two = home.beside(shelf.path("two")).start(ALWAYS).await;
        assert_moved(&two);
        // A copy of a copy that still waits; the delay it carries is not the longer one.
        one.stop().await.unwrap();
        copy(
            &shelf.path("one"),
            &shelf.path("three"),
            Way::InPlace,
            false,
        );
        let three = home.beside(shelf.path("three")).start(ALWAYS).await;
        assert_eq!(said(&three).left_ms, CAP);
        original.stop().await.unwrap();
    });
}

/// `cp -al`: the files are the very same, only the directory is another one.
#[test]
fn a_copy_of_hard_links_is_a_copy() {
    run(async {
        let shelf = Shelf::new();
        let home = shelf.stopped().await;
        fs::create_dir(shelf.path("links")).unwrap();
        for name in names(&home.path) {
            fs::hard_link(home.path.join(&name), shelf.path("links").join(&name)).unwrap();
        }
        let node = home.beside(shelf.path("links")).start(ALWAYS).await;
        assert_moved(&node);
        let error = home.try_start(ALWAYS).await.unwrap_err().to_string();
        assert!(
            error.contains("in use by another node of this process"),
            "the lock is one: {error}"
        );
    });
}

/// A longer promise than today's cap is waited out in full, and a copy waits for the longer cap on
/// record: what it lacks may be a longer promise.
#[test]
fn a_lower_cap_today_shortens_no_delay() {
    run(async {
        let shelf = Shelf::new();
        let home = Home::at(shelf.path("data"));
        let high: Directives<'_> = &[("restart-delay-max", "1h")];
        let node = home.start(high).await;
        assert_eq!(wire(&node).ask("SET a token NX PX 1800000"), "+OK");
        node.crash().await;
        copy(&home.path, &shelf.path("copy"), Way::InPlace, false);
        let half_an_hour_ms = 1_800_000 + 36_000 + 10;
        let hour_ms = 3_600_000 + 72_000 + 10;
        for (path, stop, left_ms) in [
            ("data", "unclean", half_an_hour_ms),
            ("copy", "moved", hour_ms),
        ] {
            let node = home.beside(shelf.path(path)).start(EVERYSEC).await;
            let said = said(&node);
            assert_eq!((said.stop.as_str(), said.left_ms), (stop, left_ms));
        }
    });
}

/// A copy of a running node, put back over its directory: told after a clean stop and after another
/// start. After a crash no program can see it from inside the directory. The book says so; this
/// keeps it honest.
#[test]
fn a_running_nodes_copy_put_back_is_noticed_unless_the_node_had_crashed() {
    run(async {
        for (way, is_mirror) in WAYS {
            let (shelf, home, node) = copied_while_it_runs().await;
            node.stop().await.unwrap();
            copy(&shelf.path("hot"), &home.path, way, is_mirror);
            let node = home.start(ALWAYS).await;
            assert_eq!(said(&node).stop, "moved", "{way:?}, mirror: {is_mirror}");
        }
        let (shelf, home, node) = copied_while_it_runs().await;
        node.crash().await;
        copy(&shelf.path("hot"), &home.path, Way::InPlace, true);
        let node = home.start(ALWAYS).await;
        assert_eq!(
            said(&node).stop,
            "complete",
            "b is forgotten, and nobody knows"
        );
        node.crash().await;
        // One start later the same copy is told by the marker of that start.
        copy(&shelf.path("hot"), &home.path, Way::InPlace, true);
        assert_eq!(said(&home.start(ALWAYS).await).stop, "moved");
    });
}

#[test]
fn a_start_that_died_before_its_record_is_no_move() {
    run(async {
        let shelf = Shelf::new();
        let home = shelf.stopped().await;
        // The marker of the second start was made, its START was not.
        fs::write(home.path.join("incarnation-0000000002"), "").unwrap();
        let node = home.start(ALWAYS).await;
        assert_eq!(said(&node).stop, "clean");
        assert_eq!(node.incarnation(), 3, "a number is never used twice");
        node.stop().await.unwrap();
        let markers: Vec<String> = names(&home.path)
            .into_iter()
            .filter(|name| name.starts_with("incarnation-"))
            .collect();
        assert_eq!(markers, ["incarnation-0000000003.stopped"]);
    });
}

/// The log alone taken from a running node: the marker that says "stopped" contradicts it.
#[test]
fn a_running_nodes_log_alone_put_back_after_a_clean_stop_is_noticed() {
    run(async {
        let shelf = Shelf::new();
        let home = Home::at(shelf.path("data"));
        let node = home.start(ALWAYS).await;
        assert_eq!(wire(&node).ask("SET a token NX PX 10000"), "+OK");
        let hot = shelf.path("hot");
        fs::create_dir(&hot).unwrap();
        for name in names(&home.path) {
            // One that is just being made changes its name.
            if name.starts_with("segment-") && name.ends_with(".segment") {
                fs::copy(home.path.join(&name), hot.join(&name)).unwrap();
            }
        }
        assert_eq!(wire(&node).ask("SET b token NX PX 10000"), "+OK");
        node.stop().await.unwrap();
        copy(&hot, &home.path, Way::InPlace, false);
        let node = home.start(ALWAYS).await;
        assert_moved(&node);
    });
}

/// All its files are those that were there, but for the marker, which the release has removed. The segment of the release
/// goes: a blank one of the same number comes back in its place.
#[test]
fn an_older_state_put_back_over_a_released_directory_is_noticed() {
    run(async {
        for (way, is_mirror) in WAYS {
            let shelf = Shelf::new();
            let home = shelf.stopped().await;
            copy(&home.path, &shelf.path("backup"), Way::InPlace, false);
            release(&home.path).unwrap();
            copy(&shelf.path("backup"), &home.path, way, is_mirror);
            let node = home.start(ALWAYS).await;
            assert_eq!(said(&node).stop, "moved", "{way:?}, mirror: {is_mirror}");
        }
    });
}

/// A release counts as a start that has never been, and an adoption as one of many: no number is used twice.
#[test]
fn a_node_that_is_moved_to_and_fro_serves_at_once_and_its_incarnation_grows() {
    run(async {
        let shelf = Shelf::new();
        let mut home = shelf.stopped().await;
        let mut newest = 1;
        for name in ["one", "two", "three"] {
            let released = release(&home.path).unwrap();
            let path = shelf.path(name);
            copy(&home.path, &path, Way::InPlace, false);
            fs::remove_dir_all(&home.path).unwrap();
            assert_eq!(adopt(&path, Some(&released.receipt)).unwrap(), released.id);
            home = Home::at(path);
            let node = home.start(ALWAYS).await;
            let said = said(&node);
            assert_eq!((said.stop.as_str(), said.left_ms), ("clean", 0), "{name}");
            assert_eq!(node.id(), released.id);
            assert!(node.incarnation() > newest, "{name}");
            newest = node.incarnation();
            assert_eq!(wire(&node).ask("EXISTS a"), ":1", "{name}");
            node.stop().await.unwrap();
        }
        let names = names(&home.path);
        let markers = names.iter().filter(|name| name.starts_with("incarnation-"));
        assert_eq!(markers.count(), 1, "{names:?}");
    });
}
