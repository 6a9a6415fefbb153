//! The sources of the client, of its rules and of its clock, and what the client's `lib.rs` makes public of them.

use std::path::{Path, PathBuf};

use syn::{Attribute, File, Item, Meta, UseTree, Visibility};

/// A name that is public, and the files of the module that it comes from.
pub(crate) struct Public {
    /// `blocking::`, say; nothing for what is at the root.
    pub(crate) module: String,
    pub(crate) name: String,
    pub(crate) files: Vec<File>,
}

/// Everything that a user of the crate can name.
pub(crate) fn public(sources: &Path) -> Vec<Public> {
    let root = parse(&sources.join("lib.rs"));
    let mut found = Vec::new();
    for item in root.items {
        match item {
            Item::Use(item) if is_public(&item.vis, &item.attrs) => {
                for path in paths(&item.tree) {
                    let files = match path[0].as_str() {
                        "quorlock_client_rules" => files(&sources.join("../rules/src"), &path[1]),
                        "quorlock_clock" => files(&sources.join("../../clock"), "src"),
                        "quorlock_system_clock" => {
                            files(&sources.join("../../clock/system"), "src")
                        }
                        module => files(sources, module),
                    };
                    found.push(Public {
                        module: String::new(),
                        name: path.last().unwrap().clone(),
                        files,
                    });
                }
            }
            Item::Mod(item) if is_public(&item.vis, &item.attrs) => {
                let module = item.ident.to_string();
                for file in files(sources, &module) {
                    found.extend(file.items.iter().filter_map(named).map(|name| Public {
                        module: format!("{module}::"),
                        name,
                        files: files(sources, &module),
                    }));
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether something is public without any feature, and in the documentation.
pub(crate) fn is_public(visibility: &Visibility, attributes: &[Attribute]) -> bool {
    let is_left_out = attributes
        .iter()
        .any(|one| one.path().is_ident("cfg") || is_hiding(one));
    matches!(visibility, Visibility::Public(_)) && !is_left_out
}

/// Whether an attribute is `#[doc(hidden)]`.
fn is_hiding(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc")
        && matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string() == "hidden")
}

fn named(item: &Item) -> Option<String> {
    let (visibility, attributes, name) = match item {
        Item::Struct(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Enum(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Trait(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Fn(item) => (&item.vis, &item.attrs, &item.sig.ident),
        Item::Const(item) => (&item.vis, &item.attrs, &item.ident),
        _ => return None,
    };
    is_public(visibility, attributes).then(|| name.to_string())
}

/// The file of a module, and all below it.
fn files(sources: &Path, module: &str) -> Vec<File> {
    let mut paths = vec![sources.join(format!("{module}.rs"))];
    let folder = sources.join(module);
    if let Ok(entries) = std::fs::read_dir(folder) {
        paths.extend(entries.map(|entry| entry.unwrap().path()));
    }
    let is_source = |path: &PathBuf| path.extension().is_some_and(|it| it == "rs") && path.exists();
    let mut paths: Vec<PathBuf> = paths.into_iter().filter(is_source).collect();
    paths.sort();
    assert!(!paths.is_empty(), "the module {module} has no file");
    paths.iter().map(|path| parse(path)).collect()
}

fn parse(path: &Path) -> File {
    let text = std::fs::read_to_string(path).unwrap();
    syn::parse_file(&text).unwrap()
}

/// The paths that one `use` names.
fn paths(tree: &UseTree) -> Vec<Vec<String>> {
    match tree {
        UseTree::Path(path) => {
            let below = paths(&path.tree).into_iter();
            below
                .map(|mut rest| {
                    rest.insert(0, path.ident.to_string());
                    rest
                })
                .collect()
        }
        UseTree::Name(name) => vec![vec![name.ident.to_string()]],
        UseTree::Group(group) => group.items.iter().flat_map(paths).collect(),
        UseTree::Rename(_) | UseTree::Glob(_) => {
            panic!("lib.rs makes public under its own name, one by one, so that it can be listed")
        }
    }
}
