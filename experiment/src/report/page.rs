//! What all pages share: one file that needs nothing else, on paper, on a telephone, offline, by day and by night.

use std::fmt::Display;

/// The page around its body.
pub(super) fn framed(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{}</title><style>{}</style></head><body>{body}</body></html>\n",
        escaped(title),
        include_str!("page.css")
    )
}

/// What the page says first, in a box that shows whether something is wrong.
pub(super) fn verdict(is_bad: bool, lines: &[String]) -> String {
    let class = if is_bad { "verdict bad" } else { "verdict" };
    let lines = lines.iter().map(|line| format!("<p>{}</p>", escaped(line)));
    format!("<div class=\"{class}\">{}</div>", lines.collect::<String>())
}

/// A drawing with its title above it.
pub(super) fn figure(title: &str, svg: &str) -> String {
    format!(
        "<figure><figcaption>{}</figcaption><div class=\"drawing\">{svg}</div></figure>",
        escaped(title)
    )
}

/// A part of the page that is a list; a list of nothing is left out.
pub(super) fn listed(title: &str, lines: &[String]) -> String {
    match lines {
        [] => String::new(),
        lines => format!("<h2>{title}</h2>{}", list(lines)),
    }
}

/// A list that is folded until somebody wants to see it; a list of nothing is left out.
pub(super) fn folded(title: &str, lines: &[String]) -> String {
    match lines {
        [] => String::new(),
        lines => format!(
            "<details><summary>{title}</summary>{}</details>",
            list(lines)
        ),
    }
}

fn list(lines: &[String]) -> String {
    let lines = lines
        .iter()
        .map(|line| format!("<li>{}</li>", escaped(line)));
    format!("<ul>{}</ul>", lines.collect::<String>())
}

/// What was asked for, and where it ran.
pub(super) fn facts(asked: &[(&str, String)], environment: &[(String, String)]) -> String {
    let asked = asked.iter().map(|(name, value)| (*name, value));
    let known = environment.iter();
    let known = known.map(|(name, value)| (name.as_str(), value));
    let facts = asked
        .chain(known)
        .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value)));
    format!(
        "<h2>Where and how</h2><dl>{}</dl>",
        facts.collect::<String>()
    )
}

/// Text as it may stand in a page and in a drawing.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // No XML document may hold them.
            control if control.is_control() && control != '\n' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The title of the part about an earlier run.
/// A cell of a table: its class, or none, and its words.
pub(super) type TableCell = (String, String);

pub(super) fn word(words: impl Display) -> TableCell {
    ("word".to_owned(), words.to_string())
}

/// A word that is good or bad, or neither.
pub(super) fn judged(class: &str, words: impl Display) -> TableCell {
    (format!("word {class}"), words.to_string())
}

pub(super) fn number(words: impl Display) -> TableCell {
    (String::new(), words.to_string())
}

/// A table below its title: columns with their classes, and rows.
pub(super) fn table(
    title: &str,
    columns: &[(&str, &str)],
    rows: impl Iterator<Item = Vec<TableCell>>,
) -> String {
    let mut html = format!("<h2>{title}</h2><div class=\"wide\"><table><tr>");
    for (name, class) in columns {
        html.push_str(&format!("<th class=\"{class}\">{name}</th>"));
    }
    html.push_str("</tr>");
    for row in rows {
        html.push_str("<tr>");
        for (class, words) in row {
            let words = escaped(&words);
            html.push_str(&match class.is_empty() {
                true => format!("<td>{words}</td>"),
                false => format!("<td class=\"{class}\">{words}</td>"),
            });
        }
        html.push_str("</tr>");
    }
    html + "</table></div>"
}

/// A text of a drawing, from `x` on, around it (`middle`) or up to it (`end`).
pub(super) fn text(x: f64, y: f64, anchor: &str, words: impl Display) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>")
}

pub(super) const BASELINE: &str = "Compared with the baseline";

#[cfg(test)]
pub(super) mod tests {
    /// The tags that are open where a text ends, and the first that is closed without having been opened.
    pub(in crate::report) fn unclosed(content: &str) -> Vec<String> {
        let mut open = Vec::new();
        for tag in content.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').expect("it ends");
            let word = tag.split(' ').next().unwrap_or_default();
            let is_void = ["!doctype", "meta"].contains(&word) || tag.ends_with('/');
            match word.strip_prefix('/') {
                Some(closed) if open.last().is_some_and(|last| last == closed) => {
                    open.pop();
                }
                Some(_) => return vec![word.to_owned()],
                None if is_void => {}
                None => open.push(word.to_owned()),
            }
        }
        open
    }
}
