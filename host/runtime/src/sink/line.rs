//! Values as lines.

use super::Error;
use crate::batch::Batch;
use crate::decode::json;
use crate::job::model::SinkFormat;

/// The value of record `row`, fit to be followed by a newline and found again.
pub(super) fn value<'a>(
    sink: &str,
    format: &SinkFormat,
    batch: &'a Batch,
    row: usize,
) -> Result<&'a [u8], Error> {
    let refuse = |what: String| {
        Err(Error::Value {
            sink: sink.to_owned(),
            origin: batch.origins[row],
            what,
        })
    };
    let Some(value) = batch.values.get(row) else {
        return refuse(
            "a record without a value (a deletion) cannot be written as a line; give it a value in the operator before"
                .to_owned(),
        );
    };
    if memchr::memchr(b'\n', value).is_some() {
        return refuse(
            "a value contains a newline, which would make two lines of it; encode it in the operator before, for example as compact JSON"
                .to_owned(),
        );
    }
    if *format == SinkFormat::Json
        && let Err(fault) = json::validate(value)
    {
        return refuse(format!(
            "a value is {fault}; correct it in the operator before, or write lines of any text with `format: raw`"
        ));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::super::tests::batch;
    use super::*;
    use crate::batch::Origin;

    #[test]
    fn what_is_a_line() {
        use SinkFormat::{Json, Raw};
        for (format, good, text) in [
            (Raw, true, &b""[..]),
            (Raw, true, b"\xff\r{"),
            (Raw, false, b"a\nb"),
            (Raw, false, b"\n"),
            (Json, true, b"{\"a\": 1}"),
            (Json, true, b" null "),
            (Json, true, b"\"a\\nb\""),
            (Json, false, b"{\"a\":\n1}"),
            (Json, false, b""),
            (Json, false, b"{} {}"),
            (Json, false, b"\"\xff\""),
        ] {
            let batch = batch(&[None, Some(text)]);
            match value("out", &format, &batch, 1) {
                Ok(value) => assert!(good && value == text, "{text:?}"),
                Err(error) => {
                    assert!(!good, "{text:?}");
                    assert_eq!(error.code(), "W0702");
                    assert!(
                        error.to_string().starts_with("sink `out`: a value "),
                        "{error}"
                    );
                    let Error::Value { origin, .. } = error else {
                        panic!("{error}")
                    };
                    assert_eq!(origin, Origin::new(2, 2));
                }
            }
            let error = value("out", &format, &batch, 0).unwrap_err();
            assert!(error.to_string().contains("without a value"), "{error}");
        }
    }
}
