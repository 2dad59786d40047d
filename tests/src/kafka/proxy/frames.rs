//! As much of Kafka's protocol as the proxy has to understand: where requests and responses begin and end, and what a request is about.
//!
//! <https://kafka.apache.org/protocol>: every request and response is preceded by its length. A request begins with the number of its
//! kind, the version of that, a number by which the response is found, and the client's name. Newer versions, here called flexible,
//! have tagged fields after it, and strings whose length is one to five bytes.

use std::io::{self, Read};

/// A frame larger than any broker takes.
const LARGEST: usize = 256 << 20;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Api(pub i16);

impl Api {
    /// Records are written.
    pub const PRODUCE: Api = Api(0);
    /// Records are read.
    pub const FETCH: Api = Api(1);
    /// What topics there are.
    pub const METADATA: Api = Api(3);
    /// Which broker coordinates a group or a transactional id.
    pub const FIND_COORDINATOR: Api = Api(10);
    /// A producer begins: its older instances are fenced.
    pub const INIT_PRODUCER_ID: Api = Api(22);
    /// A transaction is going to write to partitions.
    pub const ADD_PARTITIONS_TO_TXN: Api = Api(24);
    /// A transaction is going to commit a group's positions.
    pub const ADD_OFFSETS_TO_TXN: Api = Api(25);
    /// A transaction is committed or aborted.
    pub const END_TXN: Api = Api(26);
    /// A group's positions, within a transaction.
    pub const TXN_OFFSET_COMMIT: Api = Api(28);

    /// What only coordinators of transactions are asked.
    pub const OF_COORDINATORS: [Api; 4] = [
        Api::INIT_PRODUCER_ID,
        Api::ADD_PARTITIONS_TO_TXN,
        Api::ADD_OFFSETS_TO_TXN,
        Api::END_TXN,
    ];

    /// The first flexible version, of those kinds whose first field is a transactional id.
    fn first_flexible(self) -> Option<i16> {
        match self {
            Api::PRODUCE => Some(9),
            Api::INIT_PRODUCER_ID => Some(2),
            Api::ADD_PARTITIONS_TO_TXN
            | Api::ADD_OFFSETS_TO_TXN
            | Api::END_TXN
            | Api::TXN_OFFSET_COMMIT => Some(3),
            _ => None,
        }
    }
}

/// What the proxy knows of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) api: Api,
    /// By which its response is found.
    pub(super) correlation: i32,
    /// Of the kinds that have one, where it is the first field.
    pub(super) transactional_id: Option<String>,
}

/// Reads a frame, without its length. `None` at the end of the stream between two of them.
pub(super) fn read(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    if stream.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut length[1..])?;
    let length = usize::try_from(i32::from_be_bytes(length)).ok();
    let Some(length) = length.filter(|length| *length <= LARGEST) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "no length of a frame",
        ));
    };
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame)?;
    Ok(Some(frame))
}

/// A frame with its length before it.
pub(super) fn framed(frame: &[u8]) -> Vec<u8> {
    let length = i32::try_from(frame.len()).expect("it was read with such a length");
    [&length.to_be_bytes()[..], frame].concat()
}

/// The number by which a response is found.
pub(super) fn correlation(response: &[u8]) -> Option<i32> {
    Fields(response).i32()
}

impl Request {
    /// `None` if it is none.
    pub(super) fn parse(frame: &[u8]) -> Option<Request> {
        let mut fields = Fields(frame);
        let api = Api(fields.i16()?);
        let version = fields.i16()?;
        let correlation = fields.i32()?;
        fields.string()?;
        let transactional_id = match api.first_flexible() {
            None => None,
            // Its first field is a list of transactions since then; clients send older ones.
            Some(_) if api == Api::ADD_PARTITIONS_TO_TXN && version >= 4 => None,
            // It has none before.
            Some(_) if api == Api::PRODUCE && version < 3 => None,
            Some(first) if version < first => fields.string()?,
            Some(_) => {
                fields.tagged()?;
                fields.compact_string()?
            }
        };
        Some(Request {
            api,
            correlation,
            transactional_id: transactional_id.map(str::to_owned),
        })
    }
}

/// The rest of a frame.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn i16(&mut self) -> Option<i16> {
        self.bytes(2)?.try_into().ok().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.bytes(4)?.try_into().ok().map(i32::from_be_bytes)
    }

    /// Seven bits a byte, lowest first.
    fn varint(&mut self) -> Option<usize> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.bytes(1)?[0];
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The inner `None` is null.
    fn string(&mut self) -> Option<Option<&'a str>> {
        match self.i16()? {
            -1 => Some(None),
            length => self.text(usize::try_from(length).ok()?),
        }
    }

    /// The inner `None` is null.
    fn compact_string(&mut self) -> Option<Option<&'a str>> {
        match self.varint()? {
            0 => Some(None),
            length => self.text(length - 1),
        }
    }

    fn text(&mut self, length: usize) -> Option<Option<&'a str>> {
        std::str::from_utf8(self.bytes(length)?).ok().map(Some)
    }

    fn tagged(&mut self) -> Option<()> {
        for _ in 0..self.varint()? {
            self.varint()?;
            let length = self.varint()?;
            self.bytes(length)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a request, with a client's name.
    fn head(api: Api, version: i16) -> Vec<u8> {
        let mut frame = Vec::new();
        frame.extend(api.0.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(77_i32.to_be_bytes());
        frame.extend(b"\x00\x03abc");
        frame
    }

    fn id(api: Api, version: i16, body: &[u8]) -> Option<String> {
        let frame = [&head(api, version)[..], body].concat();
        let request = Request::parse(&frame).expect("it is a request");
        assert_eq!(request.api, api);
        assert_eq!(request.correlation, 77);
        request.transactional_id
    }

    #[test]
    fn transactional_ids_are_found_in_old_and_in_flexible_versions() {
        let some = Some("pay".to_owned());
        let rest = b"\0\0\0\0\0\0\0\x01\0\0\x01";
        assert_eq!(
            id(Api::END_TXN, 1, &[&b"\0\x03pay"[..], rest].concat()),
            some
        );
        assert_eq!(
            id(Api::END_TXN, 3, &[&b"\0\x04pay"[..], rest].concat()),
            some
        );
        // Two tagged fields are in front.
        assert_eq!(id(Api::END_TXN, 3, b"\x02\x00\x01a\x01\x02bc\x04pay"), some);
        assert_eq!(id(Api::INIT_PRODUCER_ID, 1, b"\0\x03pay"), some);
        assert_eq!(id(Api::INIT_PRODUCER_ID, 1, b"\xff\xff"), None);
        assert_eq!(id(Api::INIT_PRODUCER_ID, 4, b"\0\x00"), None);
        assert_eq!(id(Api::PRODUCE, 7, b"\0\x03pay\0\x01"), some);
        assert_eq!(id(Api::PRODUCE, 2, b"\0\x01\0\0"), None);
        assert_eq!(id(Api::METADATA, 12, b"\0\x04pay"), None);
    }

    #[test]
    fn a_client_may_have_no_name() {
        let mut frame = head(Api::METADATA, 5);
        frame.truncate(8);
        frame.extend(b"\xff\xff");
        assert!(Request::parse(&frame).is_some());
    }

    #[test]
    fn a_request_that_is_cut_off_anywhere_is_none() {
        let whole = [&head(Api::END_TXN, 3)[..], b"\0\x04pay"].concat();
        assert!(Request::parse(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(Request::parse(&whole[..length]), None, "of {length} bytes");
        }
    }

    #[test]
    fn frames_are_read_one_after_the_other() {
        let stream = [framed(b"one"), framed(b""), framed(b"three")].concat();
        let mut stream = &stream[..];
        assert_eq!(read(&mut stream).unwrap(), Some(b"one".to_vec()));
        assert_eq!(read(&mut stream).unwrap(), Some(Vec::new()));
        assert_eq!(read(&mut stream).unwrap(), Some(b"three".to_vec()));
        assert_eq!(read(&mut stream).unwrap(), None);
    }

    #[test]
    fn a_frame_that_is_cut_off_or_too_long_is_an_error() {
        let kind = |mut bytes: &[u8]| read(&mut bytes).unwrap_err().kind();
        assert_eq!(kind(b"\0\0"), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b"\0\0\0\x05abc"), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b"\xff\xff\xff\xff"), io::ErrorKind::InvalidData);
        assert_eq!(kind(b"GET / HTTP"), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_response_names_its_request() {
        assert_eq!(correlation(b"\0\0\0\x4dxyz"), Some(77));
        assert_eq!(correlation(b"\0\0\0"), None);
    }
}
