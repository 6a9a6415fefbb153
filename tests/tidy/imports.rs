//! Which file of a package uses which other file of it: `use` lines and paths, resolved along the
//! module tree.
//!
//! What a module only hands on (`pub use child::Name`) is not used by it: who names it there uses the
//! file that holds it. Tests do not count. It reads text and does not parse: a path that only a macro
//! builds is not seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::scan;
use crate::tree::Source;

/// The files of one package by their module path, without tests.
pub(crate) struct Package {
    modules: BTreeMap<Path, Module>,
}

/// A module path below the crate: empty for its root.
pub(crate) type Path = Vec<String>;

struct Module {
    file: String,
    code: String,
    imports: Vec<Import>,
    children: BTreeSet<String>,
}

/// One name that a `use` line brings in.
struct Import {
    path: Path,
    alias: String,
    is_public: bool,
}

/// Where a path leads: to a module as a whole, or to something that a module holds.
enum Target {
    Module(Path),
    Item(Path),
}

impl Package {
    /// Reads the package whose root module is `root`, such as `server/src/lib.rs`.
    pub(crate) fn read(sources: &[Source], root: &str) -> Self {
        let mut modules = BTreeMap::new();
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut pending = vec![(Path::new(), root.to_owned())];
        while let Some((path, file)) = pending.pop() {
            let Some(source) = sources.iter().find(|source| source.path == file) else {
                continue;
            };
            let module = Module::read(source);
            for child in &module.children {
                let mut path = path.clone();
                path.push(child.clone());
                let stem = format!("{folder}/{}", path.join("/"));
                let own = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
                let exists = |file: &&String| sources.iter().any(|it| it.path == **file);
                if let Some(file) = own.iter().find(exists) {
                    pending.push((path, file.clone()));
                }
            }
            modules.insert(path, module);
        }
        Self { modules }
    }

    /// The module paths and files.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.modules
            .iter()
            .map(|(path, module)| (path, module.file.as_str()))
    }

    /// All arrows: the module that uses, the module that is used.
    pub(crate) fn arrows(&self) -> BTreeSet<(Path, Path)> {
        let mut found = BTreeSet::new();
        for (path, module) in &self.modules {
            for used in self.used_by(path, module) {
                if used != *path {
                    found.insert((path.clone(), used));
                }
            }
        }
        found
    }

    fn used_by(&self, path: &Path, module: &Module) -> Vec<Path> {
        let mut used = Vec::new();
        let mut aliases = BTreeMap::new();
        for import in &module.imports {
            match self.resolve(path, &import.path, DEPTH_MAX) {
                // What a module hands on counts only where it uses it as well.
                Some(_) if import.is_public && !names(&module.code, &import.alias) => {}
                Some(Target::Item(target)) => used.push(target),
                Some(Target::Module(target)) => {
                    aliases.insert(import.alias.as_str(), target);
                }
                None => {}
            }
        }
        let mut reached = BTreeSet::new();
        for chain in chains(&module.code) {
            let mut segments = chain.split("::").map(str::to_owned);
            let first = segments.next().unwrap_or_default();
            let target = if let Some(target) = aliases.get(first.as_str()) {
                reached.insert(first);
                let rest = target.iter().cloned().chain(segments);
                self.walk(rest.collect(), DEPTH_MAX)
            } else {
                let whole = std::iter::once(first).chain(segments).collect();
                self.resolve(path, &whole, DEPTH_MAX)
            };
            match target {
                Some(Target::Item(target) | Target::Module(target)) => used.push(target),
                None => {}
            }
        }
        let as_a_whole = aliases
            .iter()
            .filter(|(alias, _)| !reached.contains(**alias));
        used.extend(as_a_whole.map(|(_, target)| target.clone()));
        used
    }

    /// Where a path leads that is written in the module `from`; nothing outside the package.
    fn resolve(&self, from: &Path, written: &Path, depth: usize) -> Option<Target> {
        let mut rest = written.as_slice();
        let mut at = from.clone();
        match rest.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|it| it == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            child if self.modules.get(from)?.children.contains(child) => {}
            _ => return None,
        }
        at.extend(rest.iter().cloned());
        self.walk(at, depth)
    }

    /// Follows a path from the root: through modules as far as they go, then through what the last
    /// one hands on.
    fn walk(&self, path: Path, depth: usize) -> Option<Target> {
        let known = (0..=path.len()).rev();
        let length = known
            .into_iter()
            .find(|it| self.modules.contains_key(&path[..*it]))?;
        let (module, rest) = path.split_at(length);
        let name = match rest.first().map(String::as_str) {
            None => return Some(Target::Module(path)),
            Some("*") => return Some(Target::Item(module.to_vec())),
            Some(name) => name,
        };
        let holder = self.modules.get(module)?;
        let handed_on = holder.imports.iter().find(|import| import.alias == name);
        if let Some(import) = handed_on
            && depth > 0
        {
            let target = self.resolve(&module.to_vec(), &import.path, depth - 1)?;
            return match target {
                // A module under another name: the rest of the path goes on in it.
                Target::Module(found) if rest.len() > 1 => {
                    let whole = found.into_iter().chain(rest[1..].iter().cloned());
                    self.walk(whole.collect(), depth - 1)
                }
                target => Some(target),
            };
        }
        Some(Target::Item(module.to_vec()))
    }
}

impl Module {
    fn read(source: &Source) -> Self {
        let mut code = without_tests(scan::code_only(&source.text));
        let imports = take_imports(&mut code);
        let children = words(&code, "mod ")
            .filter_map(|at| {
                let (name, _) = code[at + 4..].split_once(';')?;
                name.bytes().all(is_word).then(|| name.to_owned())
            })
            .collect();
        Self {
            file: source.path.clone(),
            code,
            imports,
            children,
        }
    }
}

/// Blanks every item behind `#[cfg(test)]`.
fn without_tests(mut code: String) -> String {
    while let Some(at) = code.find(TEST_MARK) {
        let end = at + item_length(&code[at..]);
        blank(&mut code, at, end);
    }
    code
}

/// How long an item is with the attributes before it.
fn item_length(code: &str) -> usize {
    let mut depth = 0_usize;
    let mut is_use = false;
    for (index, byte) in code.bytes().enumerate() {
        match byte {
            b'[' | b'(' => depth += 1,
            b']' | b')' => depth = depth.saturating_sub(1),
            b'u' if depth == 0 && code[index..].starts_with("use ") => is_use = true,
            b';' if depth == 0 => return index + 1,
            b'{' if !is_use && depth == 0 => return index + block_length(&code[index..]),
            _ => {}
        }
    }
    code.len()
}

fn block_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (index, byte) in code.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// Reads the `use` lines and blanks them.
fn take_imports(code: &mut String) -> Vec<Import> {
    let mut found = Vec::new();
    let lines: Vec<usize> = words(code, "use ").collect();
    for at in lines {
        let Some(length) = code[at..].find(';') else {
            continue;
        };
        let line_start = code[..at].rfind('\n').map_or(0, |index| index + 1);
        let is_public = code[line_start..at].contains("pub");
        let tree: String = code[at + 4..at + length]
            .replace(" as ", "=")
            .split_whitespace()
            .collect();
        expand(&tree, &Path::new(), is_public, &mut found);
        blank(code, at, at + length);
    }
    found
}

/// The names of a `use` tree: `a::{b, c::d}` brings in `a::b` and `a::c::d`.
fn expand(tree: &str, before: &Path, is_public: bool, found: &mut Vec<Import>) {
    if let Some((prefix, inner)) = tree.split_once('{') {
        let inner = inner.strip_suffix('}').unwrap_or(inner);
        let mut path = before.clone();
        path.extend(
            prefix
                .split("::")
                .filter(|it| !it.is_empty())
                .map(str::to_owned),
        );
        let mut depth = 0_usize;
        let is_comma = |byte: char| {
            match byte {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            byte == ',' && depth == 0
        };
        for part in inner.split(is_comma).filter(|part| !part.is_empty()) {
            expand(part, &path, is_public, found);
        }
        return;
    }
    let (written, alias) = tree
        .split_once('=')
        .map_or((tree, None), |(a, b)| (a, Some(b)));
    let mut path = before.clone();
    path.extend(
        written
            .split("::")
            .filter(|it| !it.is_empty())
            .map(str::to_owned),
    );
    if path.len() > 1 && path.last().is_some_and(|it| it == "self") {
        path.pop();
    }
    let last = path.last().cloned().unwrap_or_default();
    found.push(Import {
        path,
        alias: alias.map_or(last, str::to_owned),
        is_public,
    });
}

/// Paths of two or more words: `a::b::c`. Those of a visibility (`pub(in a::b)`) are none.
fn chains(code: &str) -> impl Iterator<Item = &str> {
    let bytes = code.as_bytes();
    let begins = |at: usize| {
        is_word(bytes[at])
            && (at == 0 || !is_word(bytes[at - 1]) && !code[..at].ends_with("::"))
            && !code[..at].ends_with("pub(in ")
    };
    (0..bytes.len())
        .filter(move |at| begins(*at))
        .filter_map(move |at| {
            let is_end = |(index, byte): (usize, &u8)| {
                let is_colon = *byte == b':'
                    && (bytes.get(at + index + 1) == Some(&b':') || bytes[at + index - 1] == b':');
                !is_word(*byte) && !is_colon
            };
            let length = bytes[at..]
                .iter()
                .enumerate()
                .position(|it| is_end((it.0, it.1)));
            let chain = &code[at..at + length.unwrap_or(bytes.len() - at)];
            let chain = chain.trim_end_matches(':');
            chain.contains("::").then_some(chain)
        })
}

/// Where a word begins in the code, with no word character before it.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let begins = |at: usize| at == 0 || !is_word(code.as_bytes()[at - 1]);
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| begins(*at))
}

fn names(code: &str, name: &str) -> bool {
    words(code, name).any(|at| {
        code.as_bytes()
            .get(at + name.len())
            .is_none_or(|it| !is_word(*it))
    })
}

fn blank(code: &mut String, from: usize, to: usize) {
    let kept: String = code[from..to]
        .chars()
        .map(|c| if c == '\n' { '\n' } else { ' ' })
        .collect();
    code.replace_range(from..to, &kept);
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

const TEST_MARK: &str = "#[cfg(test)]";

/// So often a name may be handed on.
const DEPTH_MAX: usize = 8;
