//! ARCHITECTURE.md names every folder, and every folder it names exists.
//!
//! A folder is named by a code span that ends with a slash, such as `server/src/core/`.

use std::collections::BTreeSet;

use crate::tree::Source;

const MAP: &str = "ARCHITECTURE.md";

/// Compares the folders that hold files with those the map names.
pub(crate) fn folders(sources: &[Source]) -> Vec<String> {
    let Some(map) = sources.iter().find(|source| source.path == MAP) else {
        return vec![format!("{MAP} is missing")];
    };
    let named = named_folders(&map.text);
    let mut existing = BTreeSet::new();
    let mut parents = BTreeSet::new();
    for source in sources {
        let mut folder = source.folder();
        if !folder.is_empty() {
            existing.insert(format!("{folder}/"));
        }
        while let Some((parent, _)) = folder.rsplit_once('/') {
            parents.insert(format!("{parent}/"));
            folder = parent;
        }
    }
    let unnamed = existing
        .difference(&named)
        .map(|folder| format!("{MAP} does not name {folder}"));
    let missing = named
        .iter()
        .filter(|folder| !existing.contains(*folder) && !parents.contains(*folder))
        .map(|folder| format!("{MAP} names {folder}, which does not exist"));
    unnamed.chain(missing).collect()
}

fn named_folders(map: &str) -> BTreeSet<String> {
    let spans = map.split('`').skip(1).step_by(2);
    let is_folder = |span: &&str| span.ends_with('/') && !span.contains([' ', '\n', '<', '*']);
    spans.filter(is_folder).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(map: &str, paths: &[&str]) -> Vec<Source> {
        let file = |path: &str, text: &str| Source {
            path: path.into(),
            text: text.into(),
        };
        let mut sources = vec![file(MAP, map)];
        sources.extend(paths.iter().map(|path| file(path, "")));
        sources
    }

    #[test]
    fn the_map_must_name_every_folder_and_no_other() {
        let paths = ["client/src/lib.rs", "README.md"];
        assert!(folders(&tree("`client/` and `client/src/`", &paths)).is_empty());
        assert_eq!(folders(&tree("`client/`", &paths)).len(), 1);
        assert_eq!(folders(&tree("`client/src/` `gone/`", &paths)).len(), 1);
        assert_eq!(folders(&[]).len(), 1);
    }
}
