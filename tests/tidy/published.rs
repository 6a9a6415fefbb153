//! A package that can be published has in its manifest what the registry shows, and both licences and a README of its own in its
//! folder. The README of the repository is about the program, and its links lead nowhere from another folder.

use crate::tree::Source;

/// What the registry shows of a package. Each is written in the manifest, or taken from the workspace.
const SHOWN: [&str; 8] = [
    "version",
    "rust-version",
    "license",
    "repository",
    "description",
    "readme",
    "keywords",
    "categories",
];

const FILES: [&str; 3] = ["LICENSE-MIT", "LICENSE-APACHE", README];

const README: &str = "README.md";

/// Reports what is missing in a package, unless it says that it is not published.
pub(crate) fn published(sources: &[Source]) -> Vec<String> {
    let manifests = sources
        .iter()
        .filter(|source| source.path.rsplit('/').next() == Some("Cargo.toml"));
    manifests
        .flat_map(|manifest| missing(manifest, sources))
        .collect()
}

fn missing(manifest: &Source, sources: &[Source]) -> Vec<String> {
    let package = manifest
        .text
        .split("\n[")
        .map(|table| table.trim_start_matches('['))
        .find(|table| table.starts_with("package]"));
    let Some(package) = package else {
        return Vec::new();
    };
    let says = |key: &str| {
        let keys = package.lines().filter_map(|line| line.split('=').next());
        keys.map(str::trim)
            .any(|it| it == key || it.strip_suffix(".workspace") == Some(key))
    };
    if package.lines().any(|line| line == "publish = false") {
        return Vec::new();
    }
    let keys = SHOWN.iter().filter(|key| !says(key)).copied();
    let is_there = |file: &&str| {
        let path = match manifest.folder() {
            "" => (*file).to_owned(),
            folder => format!("{folder}/{file}"),
        };
        let is_named =
            *file != README || manifest.folder().is_empty() || package.contains(OWN_README);
        is_named && sources.iter().any(|source| source.path == path)
    };
    let files = FILES.into_iter().filter(|file| !is_there(file));
    keys.chain(files)
        .map(|part| format!("{}: a published package has {part}", manifest.path))
        .collect()
}

const OWN_README: &str = "\nreadme = \"README.md\"\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str, others: &[&str]) -> usize {
        let file = |path: &str, text: &str| Source {
            path: path.into(),
            text: text.into(),
        };
        let mut sources = vec![file("x/Cargo.toml", manifest)];
        sources.extend(others.iter().map(|path| file(path, "")));
        published(&sources).len()
    }

    #[test]
    fn what_a_published_package_lacks_is_reported() {
        let whole: String = SHOWN
            .iter()
            .map(|key| format!("{key}.workspace = true\n"))
            .collect();
        let inherited = format!("[package]\nname = \"x\"\n{whole}\n[dependencies]\n");
        let whole = inherited.replace("readme.workspace = true", "readme = \"README.md\"");
        let files = ["x/LICENSE-MIT", "x/LICENSE-APACHE", "x/README.md"];
        assert_eq!(found(&whole, &files), 0);
        assert_eq!(found(&whole, &files[1..]), 1);
        assert_eq!(found(&whole, &files[..2]), 1);
        assert_eq!(
            found(&whole, &["LICENSE-MIT", "LICENSE-APACHE", "README.md"]),
            3
        );
        assert_eq!(found(&inherited, &files), 1);
        let without = whole.replace("readme =", "# readme =");
        assert_eq!(found(&without, &files), 2);
        assert_eq!(found("[package]\nname = \"x\"\npublish = false\n", &[]), 0);
        assert_eq!(found("[workspace]\nmembers = []\n", &[]), 0);
    }
}
