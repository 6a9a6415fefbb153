//! A line for everything that is public: types with their fields, variants, methods and traits.

use std::path::Path;

use quote::ToTokens;
use syn::{Attribute, Fields, File, ImplItem, Item, ItemImpl, TraitItem, Type};

use crate::sources::{is_public, public};

/// The whole surface, sorted by type.
pub(crate) fn of(sources: &Path) -> String {
    let mut all: Vec<Vec<String>> = public(sources)
        .iter()
        .map(|public| item(&public.module, &public.name, &public.files))
        .collect();
    all.sort();
    let blocks: Vec<String> = all.into_iter().map(|lines| lines.join("\n")).collect();
    blocks.join("\n\n") + "\n"
}

/// One type and what belongs to it.
pub(crate) fn item(module: &str, name: &str, files: &[File]) -> Vec<String> {
    let full = format!("{module}{name}");
    let items = || files.iter().flat_map(|file| &file.items);
    let (head, mut lines) = items()
        .find_map(|item| definition(item, name, &full))
        .unwrap_or_else(|| panic!("{full} is public and not found"));
    for item in items() {
        if let Item::Impl(block) = item
            && is_about(&block.self_ty, name)
        {
            lines.extend(of_impl(block, &full));
        }
    }
    lines.sort();
    let lines = lines.into_iter();
    std::iter::once(head).chain(lines).collect()
}

fn definition(item: &Item, name: &str, full: &str) -> Option<(String, Vec<String>)> {
    match item {
        Item::Struct(item) if item.ident == name => {
            let fields = fields(&item.fields, true);
            let head = format!("struct {full}{fields}{}", marks(&item.attrs));
            Some((head, derived(&item.attrs, full)))
        }
        Item::Enum(item) if item.ident == name => {
            let mut lines = derived(&item.attrs, full);
            lines.extend(item.variants.iter().map(|variant| {
                let (marks, fields) = (marks(&variant.attrs), fields(&variant.fields, false));
                format!("{full}::{}{fields}{marks}", variant.ident)
            }));
            Some((format!("enum {full}{}", marks(&item.attrs)), lines))
        }
        Item::Trait(item) if item.ident == name => {
            let lines = item.items.iter().filter_map(|item| match item {
                TraitItem::Fn(function) => Some(format!("{full}::{}", signature(&function.sig))),
                _ => None,
            });
            let bounds = text(&item.supertraits);
            Some((format!("trait {full}: {bounds}"), lines.collect()))
        }
        _ => None,
    }
}

fn of_impl(block: &ItemImpl, full: &str) -> Vec<String> {
    if let Some((_, path, _)) = &block.trait_ {
        return vec![format!("impl {} for {full}", text(path))];
    }
    let methods = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function) if is_public(&function.vis, &function.attrs) => {
            let marks = marks(&function.attrs);
            Some(format!("{full}::{}{marks}", signature(&function.sig)))
        }
        _ => None,
    });
    let is_conditional = block.attrs.iter().any(|one| one.path().is_ident("cfg"));
    methods.filter(|_| !is_conditional).collect()
}

fn is_about(subject: &Type, name: &str) -> bool {
    matches!(subject, Type::Path(path) if path.path.is_ident(name))
}

fn fields(fields: &Fields, shows_private: bool) -> String {
    let public = |field: &&syn::Field| !shows_private || is_public(&field.vis, &field.attrs);
    let all = fields.len();
    let shown: Vec<String> = fields
        .iter()
        .filter(public)
        .map(|field| {
            let visibility = if shows_private { "pub " } else { "" };
            let kind = text(&field.ty);
            match &field.ident {
                Some(ident) => format!("{visibility}{ident}: {kind}"),
                None => format!("{visibility}{kind}"),
            }
        })
        .collect();
    let mut list = shown.join(", ");
    if shown.is_empty() {
        return String::new();
    }
    if shown.len() < all {
        list.push_str(", ..");
    }
    match fields {
        Fields::Unnamed(_) => format!("({list})"),
        _ => format!(" {{ {list} }}"),
    }
}

/// What changes how an item may be used.
fn marks(attributes: &[Attribute]) -> String {
    let marks = ["must_use", "non_exhaustive"];
    let has = |mark: &&str| attributes.iter().any(|one| one.path().is_ident(mark));
    marks
        .iter()
        .filter(|mark| has(mark))
        .map(|mark| format!(" #[{mark}]"))
        .collect()
}

fn derived(attributes: &[Attribute], full: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for attribute in attributes
        .iter()
        .filter(|one| one.path().is_ident("derive"))
    {
        attribute
            .parse_nested_meta(|meta| {
                lines.push(format!("impl {} for {full}", text(&meta.path)));
                Ok(())
            })
            .unwrap();
    }
    lines
}

fn signature(signature: &syn::Signature) -> String {
    let asynchronous = if signature.asyncness.is_some() {
        "async "
    } else {
        ""
    };
    let mut plain = signature.clone();
    plain.asyncness = None;
    plain.constness = None;
    let text = text(&plain);
    let text = text.strip_prefix("fn ").unwrap_or(&text);
    format!("{asynchronous}{text}")
}

/// As it is written, without the blanks between tokens.
fn text(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (apart, together) in [
        (" :: ", "::"),
        (" < ", "<"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        ("- >", "->"),
        ("-> ", "-> "),
        (" ,", ","),
        (", )", ")"),
        (",)", ")"),
        ("& ", "&"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" : ", ": "),
        (" ;", ";"),
        ("[ ", "["),
        (" ]", "]"),
        ("->", "-> "),
        ("->  ", "-> "),
        ("  ->", " ->"),
    ] {
        text = text.replace(apart, together);
    }
    text.replace(")->", ") ->").replace("' _", "'_")
}
