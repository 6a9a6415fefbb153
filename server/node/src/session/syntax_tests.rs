//! The notation of syntax, line by line, and lines that are none.

use super::*;

/// A tree on one line: `name type[=TOKEN][?][*][+](parts)`.
fn shown(syntax: &str) -> String {
    fn show(argument: &Argument) -> String {
        let token = argument.token.as_ref();
        let token = token.map_or_else(String::new, |token| format!("={token}"));
        let flags = [
            (argument.is_optional, "?"),
            (argument.is_multiple, "*"),
            (argument.repeats_token, "+"),
        ];
        let flags: String = flags
            .map(|(is_so, mark)| if is_so { mark } else { "" })
            .concat();
        let parts: Vec<String> = argument.parts.iter().map(show).collect();
        let parts = match parts.is_empty() {
            true => String::new(),
            false => format!("({})", parts.join(", ")),
        };
        format!("{} {}{token}{flags}{parts}", argument.name, argument.kind)
    }
    let arguments = parse(syntax).unwrap_or_else(|| panic!("{syntax} is garbled"));
    let shown: Vec<String> = arguments.iter().map(show).collect();
    shown.join(", ")
}

#[test]
fn names_have_types_and_tokens_belong_to_what_follows() {
    for (syntax, tree) in [
        ("", ""),
        ("key value", "key key, value string"),
        ("  key   value ", "key key, value string"),
        ("timeout:double", "timeout double"),
        ("ip:port", "ip:port string"),
        ("offset:string", "offset string"),
        ("GET", "get pure-token=GET"),
        ("NOW FORCE", "now pure-token=NOW, force pure-token=FORCE"),
        ("LIB-NAME libname", "libname string=LIB-NAME"),
        ("GET [key]", "get pure-token=GET, key key?"),
        ("[GET]", "get pure-token=GET?"),
        ("[change: CH]", "change pure-token=CH?"),
        ("[COUNT count]", "count integer=COUNT?"),
    ] {
        assert_eq!(shown(syntax), tree, "{syntax}");
    }
}

#[test]
fn brackets_hold_one_of_several_or_a_block() {
    for (syntax, tree) in [
        (
            "[NX|XX]",
            "nx_xx oneof?(nx pure-token=NX, xx pure-token=XX)",
        ),
        (
            "<where: LEFT | RIGHT> pivot",
            "where oneof(left pure-token=LEFT, right pure-token=RIGHT), pivot string",
        ),
        (
            "[TYPE <kind: A|B>]",
            "kind oneof=TYPE?(a pure-token=A, b pure-token=B)",
        ),
        (
            "[e: EX seconds|KEEPTTL]",
            "e oneof?(seconds integer=EX, keepttl pure-token=KEEPTTL)",
        ),
        (
            "[LIMIT offset count]",
            "offset_count block=LIMIT?(offset integer, count integer)",
        ),
        (
            "[options: count [WITHSCORES]]",
            "options block?(count integer, withscores pure-token=WITHSCORES?)",
        ),
        (
            "[A x y|z]",
            "x_y_z oneof?(x_y block=A(x string, y string), z string)",
        ),
    ] {
        assert_eq!(shown(syntax), tree, "{syntax}");
    }
}

#[test]
fn what_is_repeated_is_one_argument() {
    for (syntax, tree) in [
        ("key [key ...]", "key key*"),
        ("[key [key ...]]", "key key?*"),
        (
            "dst key value [key value ...]",
            "dst key, key_value block*(key key, value string)",
        ),
        ("[WEIGHTS weight [weight ...]]", "weight integer=WEIGHTS?*"),
        ("[P x [P x ...]]", "x string=P?*+"),
        (
            "a <n: [X]|[Y]> [...]",
            "a string, n oneof*(x pure-token=X?, y pure-token=Y?)",
        ),
    ] {
        assert_eq!(shown(syntax), tree, "{syntax}");
    }
}

#[test]
fn what_is_garbled_is_no_tree() {
    let deep = "[".repeat(100_000);
    let closed = format!("{}a{}", "[".repeat(10), "]".repeat(10));
    let bytes = ["a\tb", "a\nb", "\u{e9}", "\u{2003}a", "\0", &deep, &closed];
    for syntax in GARBLED.split("  ").chain(bytes) {
        assert_eq!(parse(syntax), None, "{syntax:.40}");
    }
}

#[test]
fn a_line_cut_or_changed_anywhere_is_parsed_or_refused() {
    let line =
        "key [c: NX|EX seconds] <a|b [b ...]> [LIMIT offset count] [P x [P x ...]] arg [...]";
    assert!(parse(line).is_some());
    for (at, _) in line.char_indices() {
        let (before, after) = line.split_at(at);
        let _ = (parse(before), parse(after));
        for put in ["[", "]", "<", ">", "|", "...", ":", " ", "A", "\u{e9}"] {
            let _ = parse(&format!("{before}{put}{after}"));
            let _ = parse(&format!("{before}{put}{}", &after[1..]));
        }
    }
}

#[test]
fn keys_are_numbered_through_all_depths() {
    let numbers = |reply: &Reply| {
        let text = format!("{:?}", reply);
        let found = text.split("Integer(").skip(1);
        found
            .filter_map(|rest| rest.split(')').next()?.parse().ok())
            .collect::<Vec<i64>>()
    };
    let reply = document("destination numkeys <x: key value> [A src]").expect("arguments");
    assert_eq!(numbers(&reply), [0, 1, 2]);
    assert_eq!(document(""), None);
}

const GARBLED: &str = "[  ]  <  >  []  <>  [a  a]  [a>  <a]  |  a|b  [a|]  [|a]  [a||b]  ...  a ...  [a ...]  b [a ...]  \
                       a [a ... a]  a [a ...|b]  a [n: a ...]  [...]  a b [b a ...]  <a ...>  name:  name: a  \
                       [a name: b]  [: a]  [name:]  Key  a.b  -a  1a  a:  A <B c>";
