//! Matches the rows of two tables by the hashes of their keys.

use trainyard_tables::RowDigest;

/// Matched rows; rows are numbered from 0.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct JoinedRows {
    /// Number of rows in both with the same content.
    pub equal: usize,
    /// Rows in both with other content, by the row of A.
    pub changed: Vec<(usize, usize)>,
    /// Rows of A without a partner, in order.
    pub only_a: Vec<usize>,
    /// Rows of B without a partner, in order.
    pub only_b: Vec<usize>,
    /// Number of rows of A whose key an earlier row has.
    pub repeated_a: usize,
    /// Number of rows of B whose key an earlier row has.
    pub repeated_b: usize,
}

/// Key, number and content of a row.
type Row = (u128, usize, u128);

/// Matches rows by key. Of rows with one key, the first of A is matched with the first of B, and so on.
pub fn join_rows(a: &[RowDigest], b: &[RowDigest]) -> JoinedRows {
    let (a, b) = (sorted(a), sorted(b));
    let mut joined = JoinedRows { repeated_a: repeated(&a), repeated_b: repeated(&b), ..JoinedRows::default() };
    let (mut in_a, mut in_b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        match (in_a.peek(), in_b.peek()) {
            (Some((key_a, row_a, content_a)), Some((key_b, row_b, content_b))) if key_a == key_b => {
                if content_a == content_b {
                    joined.equal += 1;
                } else {
                    joined.changed.push((*row_a, *row_b));
                }
                in_a.next();
                in_b.next();
            }
            (Some((key_a, row_a, _)), other) if other.is_none_or(|(key_b, ..)| key_a < key_b) => {
                joined.only_a.push(*row_a);
                in_a.next();
            }
            (_, Some((_, row_b, _))) => {
                joined.only_b.push(*row_b);
                in_b.next();
            }
            // The second arm takes all rows of A that are left.
            (_, None) => break,
        }
    }
    joined.changed.sort_unstable();
    joined.only_a.sort_unstable();
    joined.only_b.sort_unstable();
    joined
}

/// Returns the rows by key, and those with one key in their order.
fn sorted(digests: &[RowDigest]) -> Vec<Row> {
    let mut rows: Vec<Row> =
        digests.iter().enumerate().map(|(row, digest)| (digest.key, row, digest.content)).collect();
    rows.sort_unstable();
    rows
}

fn repeated(rows: &[Row]) -> usize {
    rows.windows(2).filter(|pair| pair[0].0 == pair[1].0).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[(u128, u128)]) -> Vec<RowDigest> {
        rows.iter().map(|(key, content)| RowDigest { key: *key, content: *content }).collect()
    }

    #[test]
    fn rows_are_matched_by_key_in_any_order() {
        let a = rows(&[(9, 1), (3, 1), (5, 1), (1, 1)]);
        let b = rows(&[(1, 1), (5, 2), (9, 7), (4, 1), (2, 1)]);
        let expected = JoinedRows {
            equal: 1,
            changed: vec![(0, 2), (2, 1)],
            only_a: vec![1],
            only_b: vec![3, 4],
            ..JoinedRows::default()
        };
        assert_eq!(join_rows(&a, &b), expected);
        assert_eq!(join_rows(&a, &a).equal, 4);
        assert_eq!(join_rows(&a, &[]).only_a, [0, 1, 2, 3]);
        assert_eq!(join_rows(&[], &b).only_b, [0, 1, 2, 3, 4]);
        assert_eq!(join_rows(&[], &[]), JoinedRows::default());
    }

    #[test]
    fn rows_with_one_key_are_matched_by_occurrence() {
        let a = rows(&[(1, 10), (2, 20), (1, 11), (1, 12)]);
        let b = rows(&[(2, 20), (1, 10), (1, 99)]);
        let expected = JoinedRows {
            equal: 2,
            changed: vec![(2, 2)],
            only_a: vec![3],
            repeated_a: 2,
            repeated_b: 1,
            ..JoinedRows::default()
        };
        assert_eq!(join_rows(&a, &b), expected);
    }
}
