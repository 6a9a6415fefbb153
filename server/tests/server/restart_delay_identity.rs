//! Real directories with foreign or damaged parts, two nodes on one, and nodes that were created:
//! clear refusals, and remedies that work.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::machine::home::Home;
use crate::machine::said::said;
use crate::machine::shelf::{Shelf, names};
use crate::machine::{Directives, run, wire};
use quorlock_server::config::Config;
use quorlock_server::{init, mark_restored};

const ALWAYS: Directives<'static> = &[("appendfsync", "always")];
const CAP: u64 = 61_210;
const FIRST: &str = "segment-0000000001.segment";

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
        const NO_IDENTITY: &str = "it does not hold a node identity";
        const NO_FILE: &str = "it is not a regular file";
        type Damage = (&'static str, &'static str, fn(&Path));
        let damages: [Damage; 6] = [
            ("empty", NO_IDENTITY, |file| fs::write(file, "").unwrap()),
            ("cut", NO_IDENTITY, |file| {
                let text = fs::read_to_string(file).unwrap();
                fs::write(file, &text[..30]).unwrap();
            }),
            ("not hexadecimal", NO_IDENTITY, |file| {
                let text = fs::read_to_string(file).unwrap();
                let id = text.lines().nth(1).unwrap();
                fs::write(file, text.replace(id, &id.replace(&id[3..5], "+f"))).unwrap();
            }),
            ("large", NO_IDENTITY, |file| {
                let mut out = fs::File::create(file).unwrap();
                out.write_all(&vec![b'x'; 1 << 20]).unwrap();
            }),
            ("a directory", NO_FILE, |file| {
                fs::remove_file(file).unwrap();
                fs::create_dir(file).unwrap();
            }),
            ("a link", NO_FILE, |file| {
                let elsewhere = file.with_extension("elsewhere");
                fs::rename(file, &elsewhere).unwrap();
                std::os::unix::fs::symlink(elsewhere, file).unwrap();
            }),
        ];
        for (what, reason, damage) in damages {
            let shelf = Shelf::new();
            let home = shelf.stopped().await;
            let file = home.path.join("node.id");
            let whole = fs::read(&file).unwrap();
            damage(&file);
            let error = home.try_start(ALWAYS).await.unwrap_err().to_string();
            for part in [
                "node.id cannot be used",
                reason,
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
        // Segments come and go while a node runs.
        let others = || {
            let mut names = names(&home.path);
            names.retain(|name| !name.starts_with("segment-"));
            names.sort();
            names
        };
        let before = others();
        for _ in 0..3 {
            let error = home.try_start(ALWAYS).await.unwrap_err().to_string();
            assert!(
                error.contains("in use by another node of this process"),
                "{error}"
            );
        }
        assert!(init(&home.path, &Config::default()).is_err());
        assert_eq!(others(), before);
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
        let id = init(&home.path, &Config::default()).unwrap();
        let wait: Directives<'_> = &[("first-start", "wait")];
        let node = home.start(wait).await;
        assert_eq!(
            (said(&node).stop.as_str(), said(&node).left_ms),
            ("never-ran", 0)
        );
        assert_eq!((node.id(), node.incarnation()), (id, 1));
        node.stop().await.unwrap();
        assert!(
            init(&home.path, &Config::default()).is_err(),
            "a node is created once"
        );
        // Its identity alone is a node that lost its log, not a new one.
        for name in names(&home.path) {
            if name != "node.id" {
                fs::remove_file(home.path.join(name)).unwrap();
            }
        }
        assert!(init(&home.path, &Config::default()).is_err());
        let serve: Directives<'_> = &[("first-start", "serve")];
        let node = home.start(serve).await;
        assert_eq!(
            (said(&node).stop.as_str(), said(&node).left_ms),
            ("emptied", CAP)
        );
    });
}

/// It took a directory with files of somebody else, or with what was left of a node.
#[test]
fn node_init_takes_an_empty_directory_and_leaves_every_other_as_it_is() {
    let shelf = Shelf::new();
    for (foreign, is_folder) in [
        ("notes.txt", false),
        ("archive", true),
        ("segment-0000000007.segment", false),
    ] {
        let data = shelf.path(&format!("with {foreign}"));
        fs::create_dir_all(data.join("lost+found")).unwrap();
        if is_folder {
            fs::create_dir(data.join(foreign)).unwrap();
        } else {
            fs::write(data.join(foreign), "").unwrap();
        }
        let before = names(&data);
        let error = init(&data, &Config::default()).unwrap_err().to_string();
        assert!(error.contains(foreign), "{error}");
        assert!(error.contains("Name a new directory"), "{error}");
        assert_eq!(names(&data), before);
    }
    let fresh = shelf.path("a file system of its own");
    fs::create_dir_all(fresh.join("lost+found")).unwrap();
    init(&fresh, &Config::default()).unwrap();
    let again = init(&fresh, &Config::default()).unwrap_err().to_string();
    assert!(again.contains("holds a node already"), "{again}");
}

/// An image from before the first start holds the log of a node that never ran.
#[test]
fn a_directory_that_is_said_to_be_restored_waits_also_before_its_first_start() {
    run(async {
        let shelf = Shelf::new();
        let home = Home::at(shelf.path("data"));
        init(&home.path, &Config::default()).unwrap();
        let id = mark_restored(&home.path).unwrap();
        let node = home.start(ALWAYS).await;
        assert_eq!(node.id(), id);
        assert_eq!(
            (said(&node).stop.as_str(), said(&node).left_ms),
            ("emptied", CAP)
        );
        let before = names(&home.path);
        let refused = mark_restored(&home.path).unwrap_err().to_string();
        assert!(refused.contains("is in use"), "{refused}");
        assert_eq!(names(&home.path), before);
    });
}

#[test]
fn what_holds_no_node_cannot_be_said_to_be_restored() {
    let shelf = Shelf::new();
    let missing = shelf.path("missing");
    let refused = mark_restored(&missing).unwrap_err().to_string();
    assert!(refused.contains("missing"), "{refused}");
    assert!(!missing.exists());
    let empty = shelf.path("empty");
    fs::create_dir_all(&empty).unwrap();
    let refused = mark_restored(&empty).unwrap_err().to_string();
    assert!(refused.contains("there is no node.id in it"), "{refused}");
    fs::write(empty.join("node.id"), "quorlock node 1\nid 12\n").unwrap();
    let refused = mark_restored(&empty).unwrap_err().to_string();
    assert!(refused.contains("cannot be used"), "{refused}");
}

/// The log falls back to the moment of its creation, and only the trace of a run says that there
/// was one: whatever was granted is forgotten.
#[test]
fn an_initialised_node_whose_log_is_cut_to_its_beginning_waits() {
    type Deed = fn(&Path, &[u8]);
    let deeds: [(&str, Deed); 2] = [
        ("segments removed", |data, first| {
            fs::write(data.join(FIRST), first).unwrap();
            for name in names(data) {
                if name.starts_with("segment-") && name != FIRST {
                    fs::remove_file(data.join(name)).unwrap();
                }
            }
        }),
        ("first segment put back, no identity", |data, first| {
            fs::write(data.join(FIRST), first).unwrap();
            fs::remove_file(data.join("node.id")).unwrap();
            for name in names(data) {
                if name.starts_with("segment-") && name != FIRST {
                    fs::remove_file(data.join(name)).unwrap();
                }
            }
        }),
    ];
    run(async {
        for (what, deed) in deeds {
            for crashes in [false, true] {
                let shelf = Shelf::new();
                let home = Home::at(shelf.path("data"));
                init(&home.path, &Config::default()).unwrap();
                let first = fs::read(home.path.join(FIRST)).unwrap();
                let node = home.start(ALWAYS).await;
                assert_eq!(wire(&node).ask("SET a token NX PX 30000"), "+OK");
                if crashes {
                    node.crash().await;
                } else {
                    node.stop().await.unwrap();
                }
                deed(&home.path, &first);
                let node = home.start(ALWAYS).await;
                assert_eq!(
                    (said(&node).stop.as_str(), said(&node).left_ms),
                    ("emptied", CAP),
                    "{what}, crashed: {crashes}"
                );
            }
        }
    });
}

#[test]
fn a_directory_of_one_cluster_serves_no_other() {
    run(async {
        let shelf = Shelf::new();
        let home = Home::at(shelf.path("one"));
        let blue: Directives<'_> = &[("cluster-id", "blue"), ("cluster-size", "5")];
        home.start(blue).await.stop().await.unwrap();
        let error = home.try_start(&[("cluster-id", "red")]).await.unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("cluster-id is red") && error.contains("the cluster blue"),
            "{error}"
        );
        // It keeps what it was made for, also where nobody says so; its cluster may have grown.
        for (directives, size) in [
            (&[][..], "5"),
            (&[("cluster-size", "7")], "7"),
            (&[("cluster-size", "0")], "5"),
        ] {
            let node = home.start(directives).await;
            let mut client = wire(&node);
            assert_eq!(client.info("quorlock_cluster_id"), "blue");
            assert_eq!(client.info("quorlock_cluster_size"), size);
            node.stop().await.unwrap();
        }
        // One that was made for none takes part in any.
        let free = Home::at(shelf.path("free"));
        free.start(&[]).await.stop().await.unwrap();
        let node = free.start(blue).await;
        let mut client = wire(&node);
        assert_eq!(client.info("quorlock_cluster_id"), "blue");
        assert_eq!(client.info("quorlock_cluster_size"), "5");
        node.stop().await.unwrap();
    });
}
