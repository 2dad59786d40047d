//! A validating walk over one JSON text that picks out what a few pointers name.
//!
//! A record's value goes on as the bytes that came in, so no tree is built: the walk checks the whole text against
//! RFC 8259 and remembers where the pointed-at values lie. Of members with the same name the last one counts, as in
//! nearly every parser that the text meets further on.

use std::fmt;
use std::ops::Range;

/// Arrays and objects may be nested this deep: what `serde_json` accepts, which guests parse values with.
pub(crate) const MAX_DEPTH: usize = 127;

/// Pointers that one walk can look for: a bit each.
pub(crate) const MAX_POINTERS: usize = 64;

/// What is wrong with a text, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Byte of the text, from 0.
    pub(crate) at: usize,
    /// What is wrong there.
    pub(crate) what: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not valid JSON: {} at byte {}", self.what, self.at + 1)
    }
}

/// A JSON pointer (RFC 6901), parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    name: String,
    /// The element it names where it meets an array.
    index: Option<usize>,
}

impl Pointer {
    /// Parses `text`, or says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Pointer, String> {
        let mut segments = Vec::new();
        if !text.is_empty() {
            let Some(rest) = text.strip_prefix('/') else {
                return Err(format!(
                    "`{text}` is not a JSON pointer: it must begin with `/`"
                ));
            };
            for part in rest.split('/') {
                segments.push(Segment::parse(part).ok_or_else(|| {
                    format!(
                        "`{text}` is not a JSON pointer: `~` must be followed by 0 or 1 (RFC 6901)"
                    )
                })?);
            }
        }
        Ok(Pointer {
            text: text.to_owned(),
            segments,
        })
    }

    /// The pointer as written.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The name it consists of, if it is a member of the outermost object.
    pub(crate) fn only_name(&self) -> Option<&str> {
        match &self.segments[..] {
            [segment] => Some(&segment.name),
            _ => None,
        }
    }
}

impl Segment {
    fn parse(part: &str) -> Option<Segment> {
        let mut name = String::with_capacity(part.len());
        let mut chars = part.chars();
        while let Some(c) = chars.next() {
            name.push(match c {
                '~' => match chars.next()? {
                    '0' => '~',
                    '1' => '/',
                    _ => return None,
                },
                c => c,
            });
        }
        let decimal = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_digit())
            && (name == "0" || !name.starts_with('0'));
        let index = if decimal { name.parse().ok() } else { None };
        Some(Segment { name, index })
    }
}

/// Checks that `text`, valid UTF-8, is one JSON text, and sets `found[i]` to where the value of `pointers[i]` lies.
pub(crate) fn walk(
    text: &str,
    pointers: &[Pointer],
    found: &mut Vec<Option<Range<usize>>>,
) -> Result<(), Fault> {
    debug_assert!(pointers.len() <= MAX_POINTERS);
    found.clear();
    found.resize(pointers.len(), None);
    let all = if pointers.len() == MAX_POINTERS {
        u64::MAX
    } else {
        (1 << pointers.len()) - 1
    };
    let mut walk = Walk {
        text: text.as_bytes(),
        at: 0,
        pointers,
        found,
        name: Vec::new(),
    };
    walk.blanks();
    walk.value(all, 0)?;
    walk.blanks();
    if walk.at < walk.text.len() {
        return Err(walk.fault("text after the end of the value"));
    }
    Ok(())
}

/// Checks that `text` is one JSON text in UTF-8.
pub(crate) fn validate(text: &[u8]) -> Result<(), Fault> {
    let text = std::str::from_utf8(text).map_err(|error| Fault {
        at: error.valid_up_to(),
        what: "invalid UTF-8",
    })?;
    walk(text, &[], &mut Vec::new())
}

struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    pointers: &'a [Pointer],
    found: &'a mut Vec<Option<Range<usize>>>,
    /// A member's name without its escapes.
    name: Vec<u8>,
}

/// The positions of the bits set in `mask`.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            bit
        })
    })
}

impl Walk<'_> {
    fn fault(&self, what: &'static str) -> Fault {
        Fault { at: self.at, what }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Walks the value here; `active` are the pointers whose first `depth` segments led to it.
    fn value(&mut self, active: u64, depth: usize) -> Result<(), Fault> {
        let (mut here, mut deeper) = (0, 0);
        for pointer in bits(active) {
            if self.pointers[pointer].segments.len() == depth {
                here |= 1 << pointer;
            } else {
                deeper |= 1 << pointer;
            }
        }
        let start = self.at;
        match self.peek() {
            Some(b'"') => {
                self.string()?;
            }
            Some(b'{') => self.object(deeper, depth)?,
            Some(b'[') => self.array(deeper, depth)?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal(b"true")?,
            Some(b'f') => self.literal(b"false")?,
            Some(b'n') => self.literal(b"null")?,
            Some(_) => return Err(self.fault("expected a value")),
            None => return Err(self.fault("unexpected end")),
        }
        for pointer in bits(here) {
            self.found[pointer] = Some(start..self.at);
        }
        Ok(())
    }

    fn object(&mut self, active: u64, depth: usize) -> Result<(), Fault> {
        if depth >= MAX_DEPTH {
            return Err(self.fault("more than 127 arrays and objects within each other"));
        }
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.fault("expected a member's name in quotes"));
            }
            let (name, escaped) = self.string()?;
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.fault("expected `:`"));
            }
            self.at += 1;
            self.blanks();
            let matching = if active == 0 {
                0
            } else {
                self.matching(active, depth, name, escaped)
            };
            self.value(matching, depth + 1)?;
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.fault("expected `,` or `}`")),
            }
            self.blanks();
        }
    }

    /// Those of `active` that the member called `name` is on the way of. What an earlier member of that name gave them is void.
    fn matching(&mut self, active: u64, depth: usize, name: Range<usize>, escaped: bool) -> u64 {
        let name = if escaped {
            self.name.clear();
            if unescape(&self.text[name], &mut self.name).is_err() {
                return 0;
            }
            &self.name[..]
        } else {
            &self.text[name]
        };
        let mut matching = 0;
        for pointer in bits(active) {
            if self.pointers[pointer].segments[depth].name.as_bytes() == name {
                matching |= 1 << pointer;
                self.found[pointer] = None;
            }
        }
        matching
    }

    fn array(&mut self, active: u64, depth: usize) -> Result<(), Fault> {
        if depth >= MAX_DEPTH {
            return Err(self.fault("more than 127 arrays and objects within each other"));
        }
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        for index in 0.. {
            let matching = bits(active)
                .filter(|&pointer| self.pointers[pointer].segments[depth].index == Some(index))
                .fold(0, |mask, pointer| mask | 1 << pointer);
            self.value(matching, depth + 1)?;
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    break;
                }
                _ => return Err(self.fault("expected `,` or `]`")),
            }
            self.blanks();
        }
        Ok(())
    }

    /// Walks the string here: the bytes between its quotes, and whether escapes are among them.
    fn string(&mut self) -> Result<(Range<usize>, bool), Fault> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((start..self.at - 1, escaped));
                }
                Some(b'\\') => {
                    escaped = true;
                    self.at += 1;
                    match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                            self.at += 1
                        }
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|b| b.is_ascii_hexdigit()) {
                                    return Err(
                                        self.fault("expected four hexadecimal digits after `\\u`")
                                    );
                                }
                                self.at += 1;
                            }
                        }
                        _ => return Err(self.fault("unknown escape in a string")),
                    }
                }
                Some(0..=0x1f) => return Err(self.fault("control character in a string")),
                Some(_) => self.at += 1,
                None => return Err(self.fault("string without end")),
            }
        }
    }

    fn digits(&mut self) -> Result<(), Fault> {
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return Err(self.fault("expected a digit"));
        }
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn literal(&mut self, literal: &'static [u8]) -> Result<(), Fault> {
        if !self.text[self.at..].starts_with(literal) {
            return Err(self.fault("expected a value"));
        }
        self.at += literal.len();
        Ok(())
    }
}

/// What a pointer found, as far as keys and times care.
pub(crate) enum Scalar<'a> {
    /// What stands between a string's quotes.
    String(&'a str),
    /// A number or a boolean.
    Other(&'a str),
    /// An array or an object.
    Compound,
}

/// The value that lies at `found`, `None` if there is none or it is null.
pub(crate) fn scalar<'a>(text: &'a str, found: &Option<Range<usize>>) -> Option<Scalar<'a>> {
    let value = &text[found.clone()?];
    match value.as_bytes()[0] {
        b'n' => None,
        b'"' => Some(Scalar::String(&value[1..value.len() - 1])),
        b'{' | b'[' => Some(Scalar::Compound),
        _ => Some(Scalar::Other(value)),
    }
}

/// A `\u` escape that stands for half a character.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LoneSurrogate;

/// Appends to `out` what `inner`, the validated bytes between a string's quotes, stands for.
pub(crate) fn unescape(mut inner: &[u8], out: &mut Vec<u8>) -> Result<(), LoneSurrogate> {
    while let Some(slash) = memchr::memchr(b'\\', inner) {
        out.extend_from_slice(&inner[..slash]);
        let escape = inner[slash + 1];
        inner = &inner[slash + 2..];
        out.push(match escape {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut unit = hex(&inner[..4]);
                inner = &inner[4..];
                if let 0xd800..0xdc00 = unit {
                    let low = match inner {
                        [b'\\', b'u', digits @ ..] => hex(&digits[..4]),
                        _ => return Err(LoneSurrogate),
                    };
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err(LoneSurrogate);
                    }
                    inner = &inner[6..];
                    unit = 0x10000 + ((unit - 0xd800) << 10 | (low - 0xdc00));
                }
                let c = char::from_u32(unit).ok_or(LoneSurrogate)?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            other => other,
        });
    }
    out.extend_from_slice(inner);
    Ok(())
}

fn hex(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |value, &digit| {
        value << 4
            | (digit as char)
                .to_digit(16)
                .expect("the walk checked the digits")
    })
}

#[cfg(test)]
mod tests;
