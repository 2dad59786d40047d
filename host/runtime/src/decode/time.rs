//! Timestamps as they are written in input.
//!
//! A timestamp must lie in the years that RFC 3339 can write (0000 to 9999). One that does not is a wrong unit
//! (microseconds read as milliseconds are the year 55,000) or a sentinel, and a single one let through would push the
//! watermark past all that follows.

use jiff::Timestamp;

use crate::job::model::TimeFormat;

/// 0000-01-01T00:00:00Z.
pub(crate) const MIN_TIME: i64 = -62_167_219_200_000;

/// 9999-12-30T22:00:00.999Z: the last instant that has a year up to 9999 in every time zone.
pub(crate) const MAX_TIME: i64 = 253_402_207_200_999;

/// The milliseconds since the epoch that `text` stands for, rounded down, or what is wrong with it.
pub(crate) fn parse(format: TimeFormat, text: &str) -> Result<i64, String> {
    let (shift, unit) = match format {
        TimeFormat::Rfc3339 => return rfc3339(text),
        TimeFormat::Seconds => (3, "seconds"),
        TimeFormat::Millis => (0, "milliseconds"),
        TimeFormat::Micros => (-3, "microseconds"),
        TimeFormat::Nanos => (-6, "nanoseconds"),
    };
    match decimal(text, shift) {
        Decimal::Floor(time) if (MIN_TIME..=MAX_TIME).contains(&time) => Ok(time),
        Decimal::Floor(_) | Decimal::Huge => Err(format!(
            "`{}` as {unit} lies outside the years 0000 to 9999; is that the unit?",
            shortened(text)
        )),
        Decimal::Malformed => Err(format!("`{}` is not a number of {unit}", shortened(text))),
    }
}

/// At most 64 bytes of `text`: messages carry no more of a record.
pub(crate) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}

fn rfc3339(text: &str) -> Result<i64, String> {
    let timestamp: Timestamp = text.parse().map_err(|error| {
        format!(
            "`{}` is not an RFC 3339 timestamp: {error}",
            shortened(text)
        )
    })?;
    let time = timestamp.as_nanosecond().div_euclid(1_000_000) as i64;
    if time < MIN_TIME {
        return Err(format!(
            "`{}` lies outside the years 0000 to 9999",
            shortened(text)
        ));
    }
    Ok(time)
}

#[derive(Debug, PartialEq, Eq)]
enum Decimal {
    /// The number times ten to the shift, rounded down.
    Floor(i64),
    /// Beyond 64 bits.
    Huge,
    Malformed,
}

/// Reads `-?digits(.digits)?([eE][+-]?digits)?` exactly: a binary float has too few digits for nanoseconds.
fn decimal(text: &str, shift: i32) -> Decimal {
    /// Fits 128 bits with room; further digits only decide which way is down.
    const MAX_DIGITS: u32 = 34;

    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => (&digits[..at], Some(&digits[at + 1..])),
        None => (digits, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !fraction.is_none_or(all_digits) {
        return Decimal::Malformed;
    }
    let exponent: i64 = match exponent {
        None => 0,
        Some(text) => {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            if !all_digits(digits) {
                return Decimal::Malformed;
            }
            // Ten digits are more than the length of any text could make up for.
            let size = digits.trim_start_matches('0').parse().unwrap_or(
                if digits.bytes().all(|b| b == b'0') {
                    0
                } else {
                    i64::from(u32::MAX)
                },
            );
            let size = i64::min(size, i64::from(u32::MAX));
            if text.starts_with('-') { -size } else { size }
        }
    };

    let mut value: i128 = 0;
    let mut significant = 0;
    let mut dropped_places: i64 = 0;
    let mut dropped = false;
    let fraction = fraction.unwrap_or("");
    for digit in whole.bytes().chain(fraction.bytes()) {
        if significant == MAX_DIGITS {
            dropped_places += 1;
            dropped |= digit != b'0';
            continue;
        }
        value = value * 10 + i128::from(digit - b'0');
        if value != 0 {
            significant += 1;
        }
    }
    if value == 0 {
        return Decimal::Floor(0);
    }
    if negative {
        value = -value - i128::from(dropped);
    }
    let places = exponent + i64::from(shift) - fraction.len() as i64 + dropped_places;
    let scaled = if places >= 0 {
        10_i128
            .checked_pow(u32::try_from(places).unwrap_or(u32::MAX))
            .and_then(|power| value.checked_mul(power))
    } else {
        match 10_i128.checked_pow(u32::try_from(-places).unwrap_or(u32::MAX)) {
            Some(power) => Some(value.div_euclid(power)),
            None => Some(if negative { -1 } else { 0 }),
        }
    };
    match scaled.and_then(|value| i64::try_from(value).ok()) {
        Some(time) => Decimal::Floor(time),
        None => Decimal::Huge,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_and_rounding() {
        use TimeFormat::*;
        for (format, text, time) in [
            (Millis, "0", 0),
            (Millis, "-0", 0),
            (Millis, "-1", -1),
            (Millis, "1700000000123", 1_700_000_000_123),
            (Millis, "1.7e12", 1_700_000_000_000),
            (Millis, "-0.5", -1),
            (Millis, "0.999", 0),
            (Millis, "1e-400", 0),
            (Millis, "-1e-400", -1),
            (Millis, "0e999999999999999999999", 0),
            (Millis, "007", 7),
            (Millis, "1e00000000000000000000000003", 1_000),
            (Seconds, "1700000000", 1_700_000_000_000),
            (Seconds, "1700000000.9999", 1_700_000_000_999),
            (Seconds, "-1.0001", -1_001),
            (Seconds, "0.000000000000000000000000000000000000000001", 0),
            (
                Seconds,
                "-0.0010000000000000000000000000000000000000000001",
                -2,
            ),
            (Micros, "1999", 1),
            (Micros, "-1", -1),
            (Nanos, "1700000000123999999", 1_700_000_000_123),
            (Nanos, "-1", -1),
            (Rfc3339, "1970-01-01T00:00:00Z", 0),
            (Rfc3339, "1969-12-31T23:59:59.9995Z", -1),
            (Rfc3339, "2013-01-01T05:15:00-05:00", 1_357_035_300_000),
            (Rfc3339, "2013-01-01t05:15:00.25+00:00", 1_357_017_300_250),
            (Rfc3339, "0000-01-01T00:00:00Z", MIN_TIME),
            (Rfc3339, "9999-12-30T22:00:00.999Z", MAX_TIME),
            (Millis, "253402207200999", MAX_TIME),
            (Millis, "-62167219200000", MIN_TIME),
        ] {
            assert_eq!(parse(format, text), Ok(time), "{format:?} {text}");
        }
    }

    #[test]
    fn what_is_refused() {
        use TimeFormat::*;
        for (format, text) in [
            (Millis, ""),
            (Millis, "-"),
            (Millis, "+1"),
            (Millis, "1."),
            (Millis, ".5"),
            (Millis, "1e"),
            (Millis, " 1"),
            (Millis, "0x10"),
            (Millis, "NaN"),
            (Millis, "1_000"),
            (Millis, "-9223372036854775808"),
            (Millis, "9223372036854775807"),
            (Millis, "9223372036854775808"),
            (Millis, "1e300"),
            (Millis, "1e99999999999999999999"),
            (Millis, "10000000000000000000000000000000000000000000000"),
            (Millis, "253402207201000"),
            (Millis, "-62167219200001"),
            (Millis, "1700000000123456"),
            (Seconds, "1700000000123"),
            (Micros, "1700000000123456789"),
            (Rfc3339, "2013-01-01"),
            (Rfc3339, "2013-01-01T05:15:00"),
            (Rfc3339, "10000-01-01T00:00:00Z"),
            (Rfc3339, "-000001-12-31T00:00:00Z"),
            (Rfc3339, "9999-12-31T23:59:59Z"),
            (Rfc3339, "1700000000"),
            (Rfc3339, ""),
        ] {
            let error = parse(format, text).unwrap_err();
            assert!(
                error.contains(&format!("`{text}`")),
                "{format:?} {text}: {error}"
            );
        }
    }

    #[test]
    fn messages_carry_64_bytes_at_most() {
        let error = parse(TimeFormat::Millis, &"ä".repeat(1_000)).unwrap_err();
        assert!(error.len() < 120, "{error}");
    }

    proptest! {
        #[test]
        fn integers_are_exact(nanos in i64::MIN..=i64::MAX) {
            prop_assert_eq!(parse(TimeFormat::Nanos, &nanos.to_string()), Ok(nanos.div_euclid(1_000_000)));
            let micros = nanos / 1_000_000;
            prop_assert_eq!(parse(TimeFormat::Micros, &micros.to_string()), Ok(micros.div_euclid(1_000)));
        }

        #[test]
        fn notation_does_not_matter(nanos in i64::MIN..=i64::MAX, exponent in 0..12_u32) {
            let size = nanos.unsigned_abs();
            let sign = if nanos < 0 { "-" } else { "" };
            let power = 10_u64.pow(exponent);
            let scientific = format!("{sign}{}.{:0width$}e{exponent}", size / power, size % power, width = exponent.max(1) as usize);
            prop_assume!(exponent > 0);
            prop_assert_eq!(parse(TimeFormat::Nanos, &scientific), Ok(nanos.div_euclid(1_000_000)));
            let seconds = format!("{sign}{}.{:09}", size / 1_000_000_000, size % 1_000_000_000);
            prop_assert_eq!(parse(TimeFormat::Seconds, &seconds), Ok(nanos.div_euclid(1_000_000)));
        }
    }
}
