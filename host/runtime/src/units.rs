//! Durations and sizes as people write them: a whole number with its unit.
//!
//! A bare number is refused: whether `30` means seconds or milliseconds is a guess, and the wrong one is found at night.

use std::fmt;
use std::time::Duration;

/// Why a text is not a duration or size. The message quotes it; `remedy` says how to write it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ParseError {
    problem: String,
    /// How to write it instead.
    pub remedy: String,
}

/// Durations' units with their length in microseconds, descending.
const DURATION_UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Sizes' units with their length in bytes, ascending within binary and decimal.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Splits `12ms…` into the number's digits, the unit's letters, and what follows.
fn number_and_unit(text: &str) -> (&str, &str, &str) {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let letters = rest
        .find(|c: char| !c.is_alphabetic())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(letters);
    (number, unit, rest)
}

/// Reads `10s`, `500ms`, `2m`, `1h30m`: whole numbers with the units d, h, m, s, ms and us, each used once, longest first.
///
/// # Errors
/// Anything else, a bare number (`0` too) and more than 2^64 - 1 microseconds.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(weir::units::parse_duration("1m30s"), Ok(Duration::from_secs(90)));
/// assert!(weir::units::parse_duration("90").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    let error = |problem: String, remedy: &str| ParseError {
        problem,
        remedy: remedy.to_owned(),
    };
    let malformed = || {
        error(
            format!("`{text}` is not a duration"),
            "a duration is a whole number and a unit (us, ms, s, m, h, d): `500ms`, `10s`, `1h30m`",
        )
    };
    let (mut rest, mut total, mut above) = (text, 0_u64, u64::MAX);
    loop {
        let (number, unit, tail) = number_and_unit(rest);
        if number.is_empty() {
            return Err(malformed());
        }
        if unit.is_empty() && tail.is_empty() {
            let remedy = format!("write `{text}s` for seconds, `{text}ms` for milliseconds");
            return Err(error(format!("`{text}` has no unit"), &remedy));
        }
        let Some((_, micros)) = DURATION_UNITS
            .iter()
            .find(|(name, micros)| *name == unit && *micros < above)
        else {
            return Err(malformed());
        };
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*micros))
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| error(format!("`{text}` is too long"), "use a shorter duration"))?;
        if tail.is_empty() {
            return Ok(Duration::from_micros(total));
        }
        (rest, above) = (tail, *micros);
    }
}

/// Writes a duration so that [`parse_duration`] reads the same back, to the microsecond.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, micros) in DURATION_UNITS {
        if rest >= micros {
            text.push_str(&format!("{}{unit}", rest / micros));
            rest %= micros;
        }
    }
    text
}

/// A number of bytes. Shown with the largest binary unit that divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl std::str::FromStr for ByteSize {
    type Err = ParseError;

    /// Reads `2GiB`, `64MB`, `100B`: a whole number and a unit, binary (KiB, MiB, GiB, TiB) or decimal (kB, MB, GB, TB).
    fn from_str(text: &str) -> Result<ByteSize, ParseError> {
        let error = |problem: String, remedy: &str| ParseError {
            problem,
            remedy: remedy.to_owned(),
        };
        let (number, unit, rest) = number_and_unit(text);
        if !number.is_empty() && unit.is_empty() && rest.is_empty() {
            let remedy = format!("write `{text}B` for bytes, `{text}MiB` for mebibytes");
            return Err(error(format!("`{text}` has no unit"), &remedy));
        }
        let known = SIZE_UNITS.iter().find(|(name, _)| *name == unit);
        let (Some((_, bytes)), false, true) = (known, number.is_empty(), rest.is_empty()) else {
            return Err(error(
                format!("`{text}` is not a size"),
                "a size is a whole number and a unit (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB): `64MiB`",
            ));
        };
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*bytes))
            .map(ByteSize)
            .ok_or_else(|| error(format!("`{text}` is too large"), "use a smaller size"))
    }
}

impl ByteSize {
    /// Rounded down to at most four digits of a unit: for people, who need no more.
    pub fn rounded(self) -> ByteSize {
        let mut unit = 1;
        while self.0 / unit >= 10_000 {
            unit *= 1024;
        }
        ByteSize(self.0 / unit * unit)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, bytes): &&(&str, u64)| self.0 >= *bytes && self.0.is_multiple_of(*bytes);
        let (unit, bytes) = SIZE_UNITS[..5]
            .iter()
            .rev()
            .find(fits)
            .copied()
            .unwrap_or(SIZE_UNITS[0]);
        write!(f, "{}{unit}", self.0 / bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_by_example() {
        let read = |text| parse_duration(text).map(|duration| duration.as_micros());
        for (text, micros) in [
            ("10s", 10_000_000),
            ("500ms", 500_000),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
            ("1h30m", 5_400_000_000),
            ("1m12s", 72_000_000),
            ("1d", 86_400_000_000),
            ("7us", 7),
            ("0s", 0),
        ] {
            assert_eq!(read(text), Ok(micros), "{text}");
        }
        for text in [
            "", "s", "10", "0", "1.5s", "-1s", " 1s", "1s ", "1 s", "1x", "1sec", "1s1s", "1s1m",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read("1h30").is_err());
        assert!(read("99999999999999999999s").is_err());
        assert!(read("18446744073709551615s").is_err());
    }

    #[test]
    fn a_bare_number_is_told_its_units() {
        let error = parse_duration("30").expect_err("no unit");
        assert_eq!(error.to_string(), "`30` has no unit");
        assert_eq!(
            error.remedy,
            "write `30s` for seconds, `30ms` for milliseconds"
        );
    }

    #[test]
    fn sizes_by_example() {
        let read = |text: &str| text.parse().map(|ByteSize(bytes)| bytes);
        for (text, bytes) in [
            ("2GiB", 2 << 30),
            ("64MB", 64_000_000),
            ("100B", 100),
            ("0B", 0),
            ("1kB", 1_000),
        ] {
            assert_eq!(read(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "B",
            "10",
            "1.5GiB",
            "-1B",
            "1 B",
            "1gb",
            "1K",
            "1B1B",
            "99999999TiB",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn durations_read_back_as_written(micros: u64) {
            let duration = Duration::from_micros(micros);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn sizes_read_back_as_written(bytes in prop_oneof![any::<u64>(), (0_u64..1 << 20).prop_map(|n| n << 30)]) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-zA-Z. µ-]{0,12}") {
            // What is read says the same as its canonical form; nothing panics.
            if let Ok(duration) = parse_duration(&text) {
                prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            }
            if let Ok(size) = text.parse::<ByteSize>() {
                prop_assert_eq!(size.to_string().parse(), Ok(size));
            }
        }
    }
}
