//! Rows of statistics, which are summed up over the ranks.

/// Counts of one kind of things.
pub(crate) trait Row {
    /// Whether `other` counts the same kind.
    fn is_like(&self, other: &Self) -> bool;

    /// Adds the counts of `other`, of the same kind.
    fn add(&mut self, other: &Self);
}

/// Adds `row` to that of its kind, or as another.
pub(crate) fn merge<R: Row>(rows: &mut Vec<R>, row: R) {
    match rows.iter_mut().find(|known| known.is_like(&row)) {
        Some(known) => known.add(&row),
        None => rows.push(row),
    }
}

/// Adds each of `more` so.
pub(crate) fn merge_all<R: Row>(rows: &mut Vec<R>, more: impl IntoIterator<Item = R>) {
    more.into_iter().for_each(|row| merge(rows, row));
}

/// Adds these fields of one struct to those of another.
macro_rules! add_fields {
    ($into:expr, $from:expr, $($field:ident)+) => {
        $($into.$field += $from.$field;)+
    };
}
pub(crate) use add_fields;
