//! What is said over the control socket: one line of JSON each way, then the connection ends.
//!
//! ```text
//! > {"v":1,"verb":"status"}
//! < {"v":1,"status":{…}}
//! > {"v":1,"verb":"stop","within_ms":25000}      answered when the job has ended
//! < {"v":1,"ended":{"code":0,"message":"job flights stopped after 12.3 s …"}}
//! < {"v":1,"error":{"code":"W0308","message":"…"}}
//! ```

use serde::{Deserialize, Serialize};

use super::status::Status;

/// The version that this release speaks.
pub(super) const VERSION: u64 = 1;

/// Longest request, in bytes, its newline included.
pub(super) const MAX_REQUEST: usize = 4096;

/// Longest answer that a client takes: a wide job's status.
pub(super) const MAX_ANSWER: usize = 64 << 20;

/// What a verb asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case")]
pub enum Request {
    /// How the job stands.
    Status,
    /// An end after a last checkpoint, or without one after this time.
    Stop {
        /// In milliseconds.
        within_ms: u64,
    },
}

/// What comes back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Stop`].
    Ended(Ended),
    /// The request could not be understood, or not be served.
    Error {
        /// Its permanent code.
        code: String,
        /// What is wrong.
        message: String,
    },
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// What its process exits with.
    pub code: u8,
    /// What it says, in a line or more.
    pub message: String,
}

#[derive(Serialize)]
struct Versioned<'a, T> {
    v: u64,
    #[serde(flatten)]
    said: &'a T,
}

fn line<T: Serialize>(said: &T) -> Vec<u8> {
    let mut line =
        serde_json::to_vec(&Versioned { v: VERSION, said }).expect("plain data with text for keys");
    line.push(b'\n');
    line
}

impl Request {
    /// The line that says it.
    pub(super) fn encode(&self) -> Vec<u8> {
        line(self)
    }

    /// From a line, as far as it was read.
    ///
    /// # Errors
    /// The answer to it.
    pub(super) fn decode(read: &[u8]) -> Result<Request, Answer> {
        let Some(end) = read.iter().position(|byte| *byte == b'\n') else {
            return Err(Answer::refuse(format!(
                "a request is a line of at most {MAX_REQUEST} bytes"
            )));
        };
        let value: serde_json::Value = serde_json::from_slice(&read[..end])
            .map_err(|_| Answer::refuse("a request is a JSON object".to_owned()))?;
        if value.get("v").and_then(serde_json::Value::as_u64) != Some(VERSION) {
            return Err(Answer::refuse(format!(
                "this is weir {}, which speaks version {VERSION} of the control protocol",
                env!("CARGO_PKG_VERSION")
            )));
        }
        serde_json::from_value(value).map_err(|_| {
            Answer::refuse(format!(
                "this is weir {}, which knows the verbs `status` and `stop` (with `within_ms`)",
                env!("CARGO_PKG_VERSION")
            ))
        })
    }
}

impl Answer {
    /// A request that is not served.
    pub(super) fn refuse(message: String) -> Answer {
        Answer::Error {
            code: "W0308".to_owned(),
            message,
        }
    }

    /// The line that says it.
    pub(super) fn encode(&self) -> Vec<u8> {
        line(self)
    }

    /// From a line.
    ///
    /// # Errors
    /// What it is instead.
    pub(super) fn decode(line: &[u8]) -> Result<Answer, String> {
        #[derive(Deserialize)]
        struct Version {
            v: u64,
        }
        let version: Version = serde_json::from_slice(line)
            .map_err(|error| format!("its answer is not understood: {error}"))?;
        if version.v != VERSION {
            return Err(format!(
                "it answers in version {} of the control protocol, this weir speaks version {VERSION}",
                version.v
            ));
        }
        serde_json::from_slice::<Flat>(line)
            .map(|flat| flat.answer)
            .map_err(|error| format!("its answer is not understood: {error}"))
    }
}

#[derive(Deserialize)]
struct Flat {
    #[serde(flatten)]
    answer: Answer,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(request: &[u8]) -> String {
        match Request::decode(request) {
            Err(Answer::Error { code, message }) => {
                assert_eq!(code, "W0308");
                message
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_and_answers_come_through() {
        for request in [Request::Status, Request::Stop { within_ms: 250 }] {
            let line = request.encode();
            assert_eq!(line.last(), Some(&b'\n'));
            assert_eq!(Request::decode(&line).expect("good"), request);
        }
        assert_eq!(
            Request::Stop { within_ms: 1 }.encode(),
            b"{\"v\":1,\"verb\":\"stop\",\"within_ms\":1}\n"
        );
        let ended = Ended {
            code: 6,
            message: "two\nlines".into(),
        };
        let line = Answer::Ended(ended.clone()).encode();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(matches!(Answer::decode(&line), Ok(Answer::Ended(there)) if there == ended));
    }

    #[test]
    fn what_is_no_request_is_refused_and_not_repeated() {
        assert!(refusal(b"").contains("a line of at most 4096 bytes"));
        assert!(refusal(&[b'x'; MAX_REQUEST]).contains("a line of at most 4096 bytes"));
        assert!(refusal(b"GET / HTTP/1.1\r\n").contains("JSON object"));
        assert!(refusal(b"\xff\xfe\0\n").contains("JSON object"));
        assert!(refusal(b"{\"verb\":\"status\"}\n").contains("version 1"));
        assert!(refusal(b"{\"v\":2,\"verb\":\"status\"}\n").contains("version 1"));
        let unknown = refusal(b"{\"v\":1,\"verb\":\"\x1b[2Jswap\"}\n");
        assert!(
            unknown.contains("JSON object"),
            "a control character is no JSON: {unknown}"
        );
        let unknown = refusal(b"{\"v\":1,\"verb\":\"swap\"}\n");
        assert!(
            unknown.contains("knows the verbs") && !unknown.contains("swap"),
            "{unknown}"
        );
        assert!(refusal(b"{\"v\":1,\"verb\":\"stop\"}\n").contains("within_ms"));
        assert!(refusal(b"{\"v\":1,\"verb\":\"stop\",\"within_ms\":-1}\n").contains("within_ms"));
        let deep = [b"{\"v\":1,\"verb\":".as_slice(), &[b'['; 4000], b"\n"].concat();
        assert!(refusal(&deep).contains("JSON object"));
    }

    #[test]
    fn answers_of_another_release_are_named() {
        let error = Answer::decode(b"{\"v\":7,\"future\":{}}\n").expect_err("another version");
        assert!(error.contains("version 7"), "{error}");
        assert!(Answer::decode(b"{\"v\":1,\"future\":{}}\n").is_err());
        assert!(Answer::decode(b"\n").is_err());
    }
}
