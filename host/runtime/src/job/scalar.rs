//! What a plain scalar of YAML is.

/// A plain scalar by YAML 1.2's core schema.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    /// A number that no type here holds: beyond 64 bits, infinite, or not a number.
    Unrepresentable,
    Text,
}

/// What a plain `text` is.
pub(super) fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "true" | "True" | "TRUE" => return Scalar::Bool(true),
        "false" | "False" | "FALSE" => return Scalar::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Scalar::Unrepresentable,
        _ => {}
    }
    let all =
        |text: &str, digit: fn(&u8) -> bool| !text.is_empty() && text.bytes().all(|b| digit(&b));
    let radix = |digits: &str, radix| {
        u64::from_str_radix(digits, radix).map_or(Scalar::Unrepresentable, Scalar::Unsigned)
    };
    match (text.strip_prefix("0x"), text.strip_prefix("0o")) {
        (Some(hex), _) if all(hex, u8::is_ascii_hexdigit) => return radix(hex, 16),
        (_, Some(octal)) if all(octal, |b| matches!(b, b'0'..=b'7')) => return radix(octal, 8),
        _ => {}
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if all(unsigned, u8::is_ascii_digit) {
        let number = unsigned.parse::<u64>().ok().map(Scalar::Unsigned);
        return match text.starts_with('-') {
            true => text.parse().ok().map(|n| {
                if n == 0 {
                    Scalar::Unsigned(0)
                } else {
                    Scalar::Negative(n)
                }
            }),
            false => number,
        }
        .unwrap_or(Scalar::Unrepresentable);
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Scalar::Unrepresentable;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (
            mantissa,
            Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        ),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let is_float = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| all(exponent, u8::is_ascii_digit));
    match text.parse::<f64>() {
        Ok(float) if is_float && float.is_finite() => Scalar::Float(float),
        Ok(_) if is_float => Scalar::Unrepresentable,
        _ => Scalar::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_follow_the_core_schema() {
        use Scalar::*;
        for (text, scalar) in [
            ("", Null),
            ("~", Null),
            ("null", Null),
            ("nULL", Text),
            ("true", Bool(true)),
            ("FALSE", Bool(false)),
            ("yes", Text),
            ("on", Text),
            ("0", Unsigned(0)),
            ("007", Unsigned(7)),
            ("+12", Unsigned(12)),
            ("-0", Unsigned(0)),
            ("-12", Negative(-12)),
            ("0x1F", Unsigned(31)),
            ("0o17", Unsigned(15)),
            ("18446744073709551615", Unsigned(u64::MAX)),
            ("18446744073709551616", Unrepresentable),
            ("-9223372036854775809", Unrepresentable),
            ("1.5", Float(1.5)),
            ("-1e3", Float(-1000.0)),
            (".5", Float(0.5)),
            ("1.", Float(1.0)),
            ("1e999", Unrepresentable),
            (".inf", Unrepresentable),
            ("-.inf", Unrepresentable),
            (".nan", Unrepresentable),
            ("inf", Text),
            ("nan", Text),
            (".", Text),
            ("1e", Text),
            ("1_000", Text),
            ("10s", Text),
            ("0x", Text),
            ("-", Text),
            ("2013-01-01", Text),
        ] {
            assert_eq!(resolve(text), scalar, "{text}");
        }
    }
}
