//! What all pages share: one file that needs nothing else, on paper, on a telephone, offline, by day and by night.

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

/// The tags that are open where a text ends, and the first that is closed without having been opened.
#[cfg(test)]
pub(super) fn unclosed(content: &str) -> Vec<String> {
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
