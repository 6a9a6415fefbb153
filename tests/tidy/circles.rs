//! Inside a package files do not use each other in circles, and arrows between folders point one way.
//!
//! At every level of the module tree the parts (files, and folders with all that is in them) are
//! looked at by themselves: an arrow from anything in one part to anything in another is an arrow
//! between the two, and the arrows of a level have no circle. A file may use what the file of its own
//! folder holds (`super::`): the two are one module, and its inner parts are below it.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Package, Path};
use crate::tree::Source;

/// The root modules of the packages that are looked at: all but benches and the programs that test.
const ROOTS: [&str; 17] = [
    "agent/src/lib.rs",
    "agent/rules/src/lib.rs",
    "agent/simulation/src/lib.rs",
    "clock/src/lib.rs",
    "clock/system/src/lib.rs",
    "src/main.rs",
    "server/src/lib.rs",
    "server/engine/src/lib.rs",
    "server/node/src/lib.rs",
    "persistence/src/lib.rs",
    "client/src/lib.rs",
    "client/rules/src/lib.rs",
    "experiment/src/lib.rs",
    "gateway/src/lib.rs",
    "quorlock-test/src/lib.rs",
    "simulation/src/lib.rs",
    "testkit/src/lib.rs",
];

/// Arrows that still close a circle: from a part to a part. The list only gets shorter; an entry that
/// closes no circle any more has to go.
const KNOWN: &[(&str, &str)] = &[];

/// Reports every circle, and every known arrow that closes none.
pub(crate) fn circles(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut unused: BTreeSet<(&str, &str)> = KNOWN.iter().copied().collect();
    for root in ROOTS {
        let package = Package::read(sources, root);
        for level in levels(&package) {
            let known = |arrow: &Arrow| KNOWN.contains(&(arrow.0.as_str(), arrow.1.as_str()));
            for circle in strongly_connected(level.keys()) {
                let is_in = |part: &str| circle.contains(part);
                let is_arrow = |from: &str, to: &str| {
                    let arrow = (from.to_owned(), to.to_owned());
                    is_in(from) && is_in(to) && level.contains_key(&arrow)
                };
                unused.retain(|(from, to)| !is_arrow(from, to));
            }
            let rest = level.iter().filter(|(arrow, _)| !known(arrow));
            let rest: BTreeMap<&Arrow, &(String, String)> = rest.collect();
            for circle in strongly_connected(rest.keys().copied()) {
                problems.push(described(&circle, &rest));
            }
        }
    }
    let gone = unused.iter().map(|(from, to)| {
        format!("{from} -> {to} closes no circle any more: take it off the list of known ones")
    });
    problems.extend(gone);
    problems
}

/// From a part to a part, by their paths.
type Arrow = (String, String);

/// The arrows between the parts of each level, with an arrow between two files for each.
fn levels(package: &Package) -> Vec<BTreeMap<Arrow, (String, String)>> {
    let files: BTreeMap<&Path, &str> = package.files().collect();
    let mut levels: BTreeMap<Path, BTreeMap<Arrow, (String, String)>> = BTreeMap::new();
    let is_own_parent = |(from, to): &(Path, Path)| from.split_last().is_some_and(|it| it.1 == to);
    for (from, to) in package.arrows().into_iter().filter(|it| !is_own_parent(it)) {
        let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
        let arrow = (part(&files, &from, shared), part(&files, &to, shared));
        let witness = (files[&from].to_owned(), files[&to].to_owned());
        let level = levels.entry(from[..shared].to_vec()).or_default();
        level.entry(arrow).or_insert(witness);
    }
    levels.into_values().collect()
}

/// The part of a level that a module belongs to: the folder's path where it has one, else the file's.
fn part(files: &BTreeMap<&Path, &str>, module: &Path, level: usize) -> String {
    let own = module[..module.len().min(level + 1)].to_vec();
    let has_children = files
        .keys()
        .any(|it| it.len() > own.len() && it.starts_with(&own));
    let file = files.get(&own).copied().unwrap_or_default();
    if module.len() > level && has_children {
        let folder = file.strip_suffix("/mod.rs").unwrap_or(file);
        format!("{}/", folder.strip_suffix(".rs").unwrap_or(folder))
    } else {
        file.to_owned()
    }
}

fn described(circle: &BTreeSet<&str>, arrows: &BTreeMap<&Arrow, &(String, String)>) -> String {
    let mut text = "a circle:".to_owned();
    for ((from, to), (user, used)) in arrows {
        if circle.contains(from.as_str()) && circle.contains(to.as_str()) {
            text.push_str(&format!("\n  {from} -> {to}"));
            if (from, to) != (user, used) {
                text.push_str(&format!(" ({user} -> {used})"));
            }
        }
    }
    text
}

/// The sets of parts that reach each other, each of at least two.
fn strongly_connected<'a>(arrows: impl Iterator<Item = &'a Arrow>) -> Vec<BTreeSet<&'a str>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in arrows {
        next.entry(from).or_default().insert(to);
    }
    let reach = |from: &'a str| {
        let mut seen = BTreeSet::new();
        let mut pending = vec![from];
        while let Some(at) = pending.pop() {
            let further = next.get(at).into_iter().flatten();
            pending.extend(further.filter(|it| seen.insert(**it)));
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = next.keys().map(|it| (*it, reach(it))).collect();
    let mut found: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    for (part, seen) in &reached {
        let returns = |other: &&&str| reached.get(**other).is_some_and(|it| it.contains(part));
        let circle: BTreeSet<&str> = seen.iter().filter(returns).copied().collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| Source {
            path: format!("persistence/src/{path}"),
            text: (*text).into(),
        };
        let sources: Vec<Source> = files.iter().map(file).collect();
        let mut problems = circles(&sources);
        problems.retain(|problem| problem.starts_with("a circle"));
        problems
    }

    #[test]
    fn files_that_use_each_other_are_reported() {
        let root = ("lib.rs", "mod a;\nmod b;\nmod c;");
        let a = ("a.rs", "use crate::b::B;\nstruct A(B);");
        let c = ("c.rs", "use super::{a::A, b};\nfn c(_: A, _: b::B) {}");
        assert!(found(&[root, a, ("b.rs", "struct B;"), c]).is_empty());
        for b in [
            "use crate::a::A;",
            "use super::a::{self, A as Other};",
            "fn b() { crate::a::A; }",
            "use super::c::*;",
            "use super::a; fn b() { a::f() }",
        ] {
            let problems = found(&[root, a, ("b.rs", b), c]);
            assert_eq!(problems.len(), 1, "{b}");
            assert!(
                problems[0].contains("persistence/src/b.rs -> "),
                "{problems:?}"
            );
        }
    }

    #[test]
    fn tests_comments_and_names_that_are_handed_on_close_no_circle() {
        let root = ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;");
        let a = ("a.rs", "use crate::B;\npub struct A(B);");
        for b in [
            "#[cfg(test)]\nmod tests {\n use crate::A;\n}\npub struct B;",
            "#[cfg(test)]\nuse crate::{A};\npub struct B;",
            "// use crate::a::A;\npub struct B;\nconst TEXT: &str = \"crate::a::A\";",
            "pub(in crate::a) struct B;",
        ] {
            assert!(found(&[root, a, ("b.rs", b)]).is_empty(), "{b}");
        }
        assert_eq!(found(&[root, a, ("b.rs", "use crate::A;")]).len(), 1);
    }

    #[test]
    fn a_child_may_use_what_its_parent_holds_and_not_what_that_hands_on() {
        let root = ("lib.rs", "mod a;");
        let a = (
            "a.rs",
            "mod b;\nmod c;\npub struct A;\nfn f() { b::f() }\nuse c::C;",
        );
        let c = ("a/c.rs", "use super::b::f;\npub struct C;");
        assert!(found(&[root, a, c, ("a/b.rs", "use super::A;\npub fn f() {}")]).is_empty());
        let b = ("a/b.rs", "use super::C;\npub fn f() {}");
        assert_eq!(found(&[root, a, c, b]).len(), 1);
    }

    #[test]
    fn folders_that_use_each_other_are_reported_without_a_circle_of_files() {
        let files = |d: &'static str| {
            [
                ("lib.rs", "mod x;\nmod y;"),
                ("x/mod.rs", "mod a;\nmod b;"),
                ("x/a.rs", "use crate::y::c::C;"),
                ("x/b.rs", "pub struct B;"),
                ("y.rs", "mod c;\nmod d;"),
                ("y/c.rs", "pub struct C;"),
                ("y/d.rs", d),
            ]
        };
        assert!(found(&files("")).is_empty());
        let problems = found(&files("use crate::x::b::B;"));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("persistence/src/y/ -> persistence/src/x/"));
    }
}
