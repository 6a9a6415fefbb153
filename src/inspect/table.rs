//! A table with a heading, whose columns are as wide as their longest cell.

/// The lines of the table.
pub(super) fn aligned<const COLUMNS: usize>(
    headings: &[&str; COLUMNS],
    rows: &[[String; COLUMNS]],
) -> String {
    let mut widths = headings.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let heading = headings.map(str::to_owned);
    let lines = std::iter::once(&heading).chain(rows).map(|row| {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let row = |first: &str, second: &str| [first.to_owned(), second.to_owned()];
        let text = aligned(&["name", "x"], &[row("a", "1"), row("\u{fc}berlang", "")]);
        assert_eq!(text, "name      x\na         1\n\u{fc}berlang");
    }
}
