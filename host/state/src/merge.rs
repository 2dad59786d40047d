//! Two ordered runs read as one.

use std::iter::Peekable;

/// Merges what was applied with what the open call wrote, both in the same order. Where both have a
/// key the written one counts, and deleted rows are left out.
pub(crate) fn merge<'a>(
    base: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    overlay: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    descending: bool,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let (mut base, mut overlay) = (base.peekable(), overlay.peekable());
    let merged = std::iter::from_fn(move || {
        let order = match (head(&mut base), head(&mut overlay)) {
            (None, None) => return None,
            (Some(_), None) => return base.next(),
            (None, Some(_)) => return overlay.next(),
            (Some(old), Some(new)) => {
                if descending {
                    new.cmp(old)
                } else {
                    old.cmp(new)
                }
            }
        };
        if order.is_lt() {
            return base.next();
        }
        if order.is_eq() {
            base.next();
        }
        overlay.next()
    });
    merged.filter_map(|(key, value)| value.map(|value| (key, value)))
}

fn head<'a, T>(rows: &mut Peekable<impl Iterator<Item = (&'a [u8], T)>>) -> Option<&'a [u8]> {
    rows.peek().map(|(key, _)| *key)
}
