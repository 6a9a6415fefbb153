//! A package that can be published has in its manifest what the registry shows, and both licences in its folder.

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

const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

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
    let is_there = |licence: &&str| {
        let path = match manifest.folder() {
            "" => (*licence).to_owned(),
            folder => format!("{folder}/{licence}"),
        };
        sources.iter().any(|source| source.path == path)
    };
    let licences = LICENCES.into_iter().filter(|licence| !is_there(licence));
    keys.chain(licences)
        .map(|part| format!("{}: a published package has {part}", manifest.path))
        .collect()
}

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
        let whole = format!("[package]\nname = \"x\"\n{whole}\n[dependencies]\n");
        let licences = ["x/LICENSE-MIT", "x/LICENSE-APACHE"];
        assert_eq!(found(&whole, &licences), 0);
        assert_eq!(found(&whole, &licences[1..]), 1);
        assert_eq!(found(&whole, &["LICENSE-MIT", "LICENSE-APACHE"]), 2);
        let without = whole.replace("readme.workspace", "# readme");
        assert_eq!(found(&without, &licences), 1);
        let own = whole.replace("readme.workspace = true", "readme = \"README.md\"");
        assert_eq!(found(&own, &licences), 0);
        assert_eq!(found("[package]\nname = \"x\"\npublish = false\n", &[]), 0);
        assert_eq!(found("[workspace]\nmembers = []\n", &[]), 0);
    }
}
