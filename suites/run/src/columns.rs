//! Plain text tables: columns as wide as their cells.

/// Prints rows under a header one by one: the width of each column is known from a first guess and only grows.
pub struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// Columns at least as wide as these cells.
    pub fn fitting<'a>(rows: impl IntoIterator<Item = &'a [String]>) -> Columns {
        let mut columns = Columns { widths: Vec::new() };
        for row in rows {
            columns.grow(row);
        }
        columns
    }

    /// One row as a line without trailing blanks.
    pub fn line(&mut self, row: &[String]) -> String {
        self.grow(row);
        let cells: Vec<String> = row.iter().zip(&self.widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_string()
    }

    fn grow(&mut self, row: &[String]) {
        self.widths.resize(self.widths.len().max(row.len()), 0);
        for (width, cell) in self.widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
}

/// A whole table as lines.
pub fn table(rows: &[Vec<String>]) -> Vec<String> {
    let mut columns = Columns::fitting(rows.iter().map(Vec::as_slice));
    rows.iter().map(|row| columns.line(row)).collect()
}

/// Bytes in GiB.
pub fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Seconds with three digits and a fitting unit.
pub fn seconds(value: f64) -> String {
    let (scaled, unit) = match value {
        value if value >= 1.0 => (value, "s"),
        value if value >= 1e-3 => (value * 1e3, "ms"),
        value => (value * 1e6, "us"),
    };
    // Three significant digits.
    let digits = if scaled >= 100.0 {
        0
    } else if scaled >= 10.0 {
        1
    } else {
        2
    };
    format!("{scaled:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_numbers_have_units() {
        let row = |a: &str, b: &str| vec![a.to_string(), b.to_string()];
        assert_eq!(
            table(&[row("ranks", "outcome"), row("1", "ok"), row("16", "")]),
            ["ranks  outcome", "1      ok", "16"]
        );
        assert_eq!(gib(3 << 29), "1.50 GiB");
        assert_eq!([12.345, 0.5, 0.001234, 4.2e-5].map(seconds), ["12.3 s", "500 ms", "1.23 ms", "42.0 us"]);
    }
}
