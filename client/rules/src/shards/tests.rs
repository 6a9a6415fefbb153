//! How names are shared out, and what a change of the clusters moves.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
use super::*;

fn shards(clusters: &[&str]) -> Shards {
    Shards::new(clusters.iter().copied()).unwrap()
}

fn all(names: &[&'static str]) -> Vec<Bytes> {
    names.iter().copied().map(Bytes::from).collect()
}

/// Names as programs choose them: numbers, numbers behind a word, words.
fn many() -> impl Iterator<Item = Bytes> {
    let number = 0..4_000;
    number.flat_map(|number| {
        let names = [
            format!("{number}"),
            format!("order:{number:06}"),
            format!("{number}/lock"),
        ];
        names.map(Bytes::from)
    })
}

#[test]
fn scores_are_those_of_the_book() {
    for (name, cluster, expected) in [
        (&b"backup"[..], "east", 0x8258_2e5c_f6cb_4533),
        (b"backup", "west", 0x142c_78f3_34cc_40ec),
        (b"backup", "north", 0x348c_864f_5327_d2eb),
        (b"", "east", 0x2513_c820_f937_1358),
        (b"\xff\x00", "west", 0xd490_ccbd_3005_c919),
    ] {
        assert_eq!(score(name, cluster), expected, "{name:?} {cluster}");
    }
    let (two, three) = (
        shards(&["east", "west"]),
        shards(&["north", "east", "west"]),
    );
    for (name, of_two, of_three) in [
        ("backup", "east", "east"),
        ("nightly", "east", "east"),
        ("report", "west", "north"),
        ("account:1", "east", "north"),
        ("7", "east", "north"),
        // The tag, the semaphore.
        ("a{7}b{report}", "east", "north"),
        ("uploads:permit:3", "east", "east"),
        ("report:permit:0", "west", "north"),
        ("report:permit:0:permit:7", "west", "north"),
    ] {
        let cluster = |shards: &Shards| shards.clusters()[shards.of(name.as_bytes())].to_string();
        assert_eq!(
            (&*cluster(&two), &*cluster(&three)),
            (of_two, of_three),
            "{name}"
        );
    }
}

#[test]
fn what_is_in_braces_decides_and_a_permit_is_where_its_semaphore_is() {
    for (name, part) in [
        ("plain", "plain"),
        ("a{b}c", "b"),
        ("{b}", "b"),
        ("a{b}{c}", "b"),
        ("a{{b}}", "{b"),
        ("a{}{b}", "a{}{b}"),
        ("a{b", "a{b"),
        ("a}b", "a}b"),
        ("a:permit:7", "a"),
        ("a:permit:07", "a:permit:07"),
        (":permit:7", ":permit:7"),
        ("{a}b:permit:7", "a"),
    ] {
        assert_eq!(decisive(&Bytes::from(name)), part, "{name}");
    }
}

#[test]
fn every_cluster_has_its_share_of_the_names() {
    for clusters in [
        &["east", "west"][..],
        &["1", "2", "3"],
        &[
            "db-a", "db-b", "db-c", "db-d", "db-e", "db-f", "db-g", "db-h",
        ],
    ] {
        let shards = shards(clusters);
        let mut counts = vec![0_usize; clusters.len()];
        for name in many() {
            counts[shards.of(&name)] += 1;
        }
        let share = many().count() / clusters.len();
        for (cluster, count) in clusters.iter().zip(&counts) {
            let range = share * 9 / 10..=share * 11 / 10;
            assert!(range.contains(count), "{cluster}: {count} of {share}");
        }
    }
}

#[test]
fn a_cluster_that_joins_takes_its_share_and_moves_no_other_name() {
    let before = ["a", "b", "c", "d"];
    let old = shards(&before);
    // In any order: names alone decide.
    let new = shards(&["e", "d", "c", "b", "a"]);
    let mut moved = 0;
    for name in many() {
        let (from, to) = (
            &old.clusters()[old.of(&name)],
            &new.clusters()[new.of(&name)],
        );
        if from != to {
            assert_eq!(&**to, "e", "{name:?}");
            moved += 1;
        }
    }
    let share = many().count() / 5;
    assert!(
        (share * 9 / 10..=share * 11 / 10).contains(&moved),
        "{moved} of {share}"
    );
}

#[test]
fn clients_with_lists_that_follow_each_other_never_take_a_name_on_two_clusters() {
    let lists: [&[&str]; 5] = [
        &["a"],
        &["a", "b"],
        &["b", "a", "c"],
        &["a", "c"],
        &["d", "a"],
    ];
    for pair in lists.windows(2) {
        let old = shards(pair[0]);
        let changing = old.clone().changing_to(pair[1].iter().copied()).unwrap();
        let new = shards(pair[1]);
        let taken = |shards: &Shards, name: &Bytes| {
            let cluster = shards.take(std::slice::from_ref(name)).ok()?;
            Some(Arc::clone(&shards.clusters()[cluster]))
        };
        let mut resting = 0;
        for name in many() {
            let (before, after) = (taken(&old, &name), taken(&new, &name));
            match taken(&changing, &name) {
                Some(meanwhile) => {
                    assert_eq!(before.as_ref(), Some(&meanwhile));
                    assert_eq!(after.as_ref(), Some(&meanwhile));
                    assert_eq!(changing.moves_to(&name), None);
                }
                None => {
                    assert_ne!(before, after, "{name:?} rests and need not");
                    assert_eq!(changing.moves_to(&name), after.as_ref());
                    assert_eq!(
                        changing.of(&name),
                        old.of(&name),
                        "it is released where it is"
                    );
                    resting += 1;
                }
            }
        }
        assert!(resting > 0 && resting < many().count());
    }
}

#[test]
fn names_that_are_taken_together_are_on_one_cluster_or_refused_with_their_places() {
    let both = shards(&["east", "west"]);
    assert_eq!(both.take(&all(&["backup", "nightly"])), Ok(0));
    assert_eq!(both.take(&all(&["a{report}", "b{report}"])), Ok(1));
    let apart = both.take(&all(&["backup", "report"])).unwrap_err();
    let text = apart.to_string();
    assert!(
        text.contains("'backup' on 'east', 'report' on 'west'; not acquired. Names with"),
        "{text}"
    );
    let changing = both.changing_to(["east", "west", "north"]).unwrap();
    assert!(changing.take(&all(&["backup"])).is_ok());
    let moves = changing.take(&all(&["report"])).unwrap_err();
    let text = moves.to_string();
    assert!(
        text.starts_with("'report' moves from cluster 'west' to 'north': nobody takes it until"),
        "{text}"
    );
    let names: Vec<Bytes> = many().take(20).collect();
    let apart = shards(&["east", "west"]).take(&names).unwrap_err();
    assert!(apart.to_string().contains("and 12 more;"), "{apart}");
}

#[test]
fn a_list_has_clusters_with_names_each_of_its_own() {
    let new = |clusters: &[&str]| Shards::new(clusters.iter().copied()).map(drop);
    assert_eq!(new(&[]), Err(ShardError::NoClusters));
    assert_eq!(new(&["a", ""]), Err(ShardError::Unnamed));
    assert_eq!(
        new(&["a", "b", "a"]),
        Err(ShardError::TwiceNamed("a".into()))
    );
    let counted: Vec<String> = (0..=CLUSTERS_MAX)
        .map(|number| number.to_string())
        .collect();
    assert!(Shards::new(counted[1..].iter().map(String::as_str)).is_ok());
    assert_eq!(
        Shards::new(counted.iter().map(String::as_str)),
        Err(ShardError::TooManyClusters(CLUSTERS_MAX + 1))
    );
    assert!(shards(&["a"]).changing_to(["b", "b"]).is_err());
}
