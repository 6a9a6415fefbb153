//! Real directories: moved, copied, restored, emptied, with foreign or damaged parts, and two nodes
//! on one. What a node tells from what it knew, what it waits for, and what it cannot tell.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod machine;
mod wire;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use machine::{Directives, Home, run, said, wire};
use quorlock_server::init;
use tempfile::TempDir;

const ALWAYS: Directives<'static> = &[("appendfsync", "always")];
const EVERYSEC: Directives<'static> = &[("appendfsync", "everysec")];
const CAP: u64 = 61_210;

/// A directory for directories: the node's, and those of its backups.
struct Shelf(TempDir);

impl Shelf {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A node that has granted a lock of 10 s in its first run and has stopped in order.
    async fn stopped(&self) -> Home {
        let home = Home::at(self.path("data"));
        let node = home.start(ALWAYS).await;
        assert_eq!(wire(&node).ask("SET a token NX PX 10000"), "+OK");
        node.stop().await.unwrap();
        home
    }
}

/// Runs the node once more, with a lock that a backup from before knows nothing of.
async fn run_again(home: &Home) {
    let node = home.start(ALWAYS).await;
    assert_eq!(wire(&node).ask("SET later token NX PX 30000"), "+OK");
    node.stop().await.unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// How files are put into a directory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// `cp`, `rsync --inplace`: into the file that is there.
    InPlace,
    /// `rsync`, `tar`, most backup programs: a new file under the old name.
    ByRename,
}

/// Copies all files. With `is_mirror` what the source does not have goes, as with `rsync --delete`.
fn copy(from: &Path, to: &Path, way: Way, is_mirror: bool) {
    fs::create_dir_all(to).unwrap();
    let wanted = names(from);
    for name in &wanted {
        let bytes = fs::read(from.join(name)).unwrap();
        match way {
            Way::InPlace => fs::write(to.join(name), bytes).unwrap(),
            Way::ByRename => {
                fs::write(to.join(".new"), bytes).unwrap();
                fs::rename(to.join(".new"), to.join(name)).unwrap();
            }
        }
    }
    for name in names(to) {
        if is_mirror && !wanted.contains(&name) {
            fs::remove_file(to.join(name)).unwrap();
        }
    }
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
            let is_log = |name: &String| name.starts_with("segment-");
            for name in names(data).iter().filter(|name| is_log(name)) {
                fs::remove_file(data.join(name)).unwrap();
            }
            for name in names(backup).iter().filter(|name| is_log(name)) {
                fs::copy(backup.join(name), data.join(name)).unwrap();
            }
        },
        ("moved", CAP, 3),
    ),
    case(
        "the marker is lost",
        |data, _| fs::remove_file(data.join("incarnation-0000000002")).unwrap(),
        ("moved", CAP, 3),
    ),
    case(
        "node.id is lost: the log carries the id",
        |data, _| fs::remove_file(data.join("node.id")).unwrap(),
        ("moved", CAP, 3),
    ),
    case(
        "the log is lost",
        |data, _| {
            for name in names(data) {
                if name.starts_with("segment-") {
                    fs::remove_file(data.join(name)).unwrap();
                }
            }
        },
        ("emptied", CAP, 3),
    ),
    case(
        "log and identity are lost, the marker tells that somebody lived here",
        |data, _| {
            for name in names(data) {
                if !name.starts_with("incarnation-") {
                    fs::remove_file(data.join(name)).unwrap();
                }
            }
        },
        ("emptied", CAP, 3),
    ),
    case(
        "all is lost: that is for first-start to judge, and a loopback address serves",
        |data, _| {
            for name in names(data) {
                fs::remove_file(data.join(name)).unwrap();
            }
        },
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
            let same_place = wire(&node).info("restart_same_place");
            assert_eq!(same_place, if case.stop == "moved" { "0" } else { "1" });
            if case.stop == "moved" {
                assert_eq!(format!("id {}", node.id()), id, "{}", case.what);
            }
            // Once it has waited, it is at home: the next start is a clean one.
            home.clock
                .advance(std::time::Duration::from_millis(CAP + 1));
            node.serving().await;
            node.stop().await.unwrap();
            let node = home.start(ALWAYS).await;
            assert_eq!(machine::said(&node).stop, "clean", "{}", case.what);
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
        assert_eq!(
            (said(&one).stop.as_str(), said(&one).left_ms),
            ("moved", CAP)
        );

        // Taken from the running node: its end is missing, but first of all it is a copy.
        copy(&home.path, &shelf.path("two"), Way::InPlace, false);
        let two = home.beside(shelf.path("two")).start(ALWAYS).await;
        assert_eq!(
            (said(&two).stop.as_str(), said(&two).left_ms),
            ("moved", CAP)
        );
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

/// What no program can see from inside the directory. The book says so; this keeps it honest.
#[test]
fn a_running_nodes_copy_put_back_before_the_next_start_is_not_noticed() {
    run(async {
        let shelf = Shelf::new();
        let home = Home::at(shelf.path("data"));
        let node = home.start(ALWAYS).await;
        assert_eq!(wire(&node).ask("SET a token NX PX 10000"), "+OK");
        copy(&home.path, &shelf.path("hot"), Way::InPlace, false);
        assert_eq!(wire(&node).ask("SET b token NX PX 10000"), "+OK");
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
        assert_eq!(markers, ["incarnation-0000000003"]);
    });
}

#[test]
fn the_log_of_another_node_is_refused_by_name() {
    run(async {
        let shelf = Shelf::new();
        let home = shelf.stopped().await;
        let other = Home::at(shelf.path("other"));
        let node = other.start(ALWAYS).await;
        let other_id = node.id().to_string();
        node.stop().await.unwrap();
        for name in names(&home.path) {
            if name.starts_with("segment-") {
                fs::remove_file(home.path.join(name)).unwrap();
            }
        }
        for name in names(&other.path) {
            if name.starts_with("segment-") {
                fs::copy(other.path.join(&name), home.path.join(&name)).unwrap();
            }
        }
        let before = names(&home.path).len();
        let error = home.try_start(ALWAYS).await.unwrap_err().to_string();
        assert!(error.contains(&other_id), "{error}");
        assert_eq!(names(&home.path).len(), before, "nothing was written");
    });
}

#[test]
fn a_node_id_that_cannot_be_read_is_named_with_a_remedy() {
    run(async {
        type Damage = (&'static str, fn(&Path));
        let damages: [Damage; 6] = [
            ("empty", |file| fs::write(file, "").unwrap()),
            ("cut", |file| {
                let text = fs::read_to_string(file).unwrap();
                fs::write(file, &text[..30]).unwrap();
            }),
            ("not hexadecimal", |file| {
                let text = fs::read_to_string(file).unwrap();
                let id = text.lines().nth(1).unwrap();
                fs::write(file, text.replace(id, &id.replace(&id[3..5], "+f"))).unwrap();
            }),
            ("large", |file| {
                let mut out = fs::File::create(file).unwrap();
                out.write_all(&vec![b'x'; 1 << 20]).unwrap();
            }),
            ("a directory", |file| {
                fs::remove_file(file).unwrap();
                fs::create_dir(file).unwrap();
            }),
            ("a link", |file| {
                let elsewhere = file.with_extension("elsewhere");
                fs::rename(file, &elsewhere).unwrap();
                std::os::unix::fs::symlink(elsewhere, file).unwrap();
            }),
        ];
        for (what, damage) in damages {
            let shelf = Shelf::new();
            let home = shelf.stopped().await;
            let file = home.path.join("node.id");
            let whole = fs::read(&file).unwrap();
            damage(&file);
            let error = home.try_start(ALWAYS).await.unwrap_err().to_string();
            for part in [
                "node.id cannot be used",
                "Restore this one file",
                "remove it",
            ] {
                assert!(error.contains(part), "{what}: {error}");
            }
            // Both remedies work: the file comes back, or goes.
            let _ = fs::remove_file(&file).or_else(|_| fs::remove_dir(&file));
            if what == "cut" {
                fs::write(&file, &whole).unwrap();
            }
            let node = home.start(ALWAYS).await;
            assert_eq!(
                (said(&node).stop.as_str(), said(&node).left_ms),
                ("moved", CAP)
            );
            let id = String::from_utf8(whole).unwrap();
            assert!(id.contains(&node.id().to_string()), "{what}: the log's id");
        }
    });
}

#[test]
fn a_second_node_on_a_directory_is_refused_and_leaves_no_trace() {
    run(async {
        let shelf = Shelf::new();
        let home = shelf.stopped().await;
        let node = home.start(ALWAYS).await;
        let before = names(&home.path).len();
        for _ in 0..3 {
            let error = home.try_start(ALWAYS).await.unwrap_err().to_string();
            assert!(error.contains("in use by another process"), "{error}");
        }
        assert!(init(&home.path, None).is_err());
        assert_eq!(names(&home.path).len(), before);
        assert_eq!(wire(&node).ask("SET b token NX PX 1000"), "+OK");
        node.stop().await.unwrap();
        let node = home.start(ALWAYS).await;
        assert_eq!(
            (said(&node).stop.as_str(), node.incarnation()),
            ("clean", 3)
        );
    });
}

#[test]
fn an_initialised_node_serves_at_its_first_start_and_is_created_once() {
    run(async {
        let shelf = Shelf::new();
        let home = Home::at(shelf.path("data"));
        let id = init(&home.path, None).unwrap();
        let wait: Directives<'_> = &[("first-start", "wait")];
        let node = home.start(wait).await;
        assert_eq!(
            (said(&node).stop.as_str(), said(&node).left_ms),
            ("never-ran", 0)
        );
        assert_eq!((node.id(), node.incarnation()), (id, 1));
        node.stop().await.unwrap();
        assert!(init(&home.path, None).is_err(), "a node is created once");
        // Its identity alone is a node that lost its log, not a new one.
        for name in names(&home.path) {
            if name != "node.id" {
                fs::remove_file(home.path.join(name)).unwrap();
            }
        }
        assert!(init(&home.path, None).is_err());
        let serve: Directives<'_> = &[("first-start", "serve")];
        let node = home.start(serve).await;
        assert_eq!(
            (said(&node).stop.as_str(), said(&node).left_ms),
            ("emptied", CAP)
        );
    });
}
