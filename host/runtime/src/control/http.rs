//! `/metrics`, `/livez` and `/readyz` over HTTP/1.1: read-only, one request a connection.
//!
//! Nothing of a request is ever repeated in an answer, so whoever sent a browser here learns nothing and does nothing.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use super::serve::{Server, Stream, Timed, read_until};
use super::{Shown, exposition};

/// Longest head of a request.
const MAX_HEAD: usize = 8 << 10;

/// Most header lines of a request.
const MAX_HEADERS: usize = 64;

/// The server, until it is dropped.
pub(super) struct Http {
    /// Where it listens.
    pub(super) address: SocketAddr,
    _server: Server,
}

impl Http {
    /// Listens at `address`.
    ///
    /// # Errors
    /// The address is in use or not one of this machine, or the system refuses a thread.
    pub(super) fn listen(address: SocketAddr, shown: &Arc<Shown>) -> io::Result<Http> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shown = shown.clone();
        let server = Server::start("metrics", listener, move |stream| serve(stream, &shown))?;
        Ok(Http {
            address,
            _server: server,
        })
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Metrics,
    Live,
    Ready,
    Elsewhere,
    /// Another method than GET.
    Otherwise,
    /// No request, or too long a one.
    Nonsense,
}

fn asked(head: &[u8]) -> Asked {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if !matches!(request.parse(head), Ok(httparse::Status::Complete(_))) {
        return Asked::Nonsense;
    }
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    match (request.method, path) {
        (Some("GET"), "/metrics") => Asked::Metrics,
        (Some("GET"), "/livez") => Asked::Live,
        (Some("GET"), "/readyz") => Asked::Ready,
        (Some("GET"), _) => Asked::Elsewhere,
        _ => Asked::Otherwise,
    }
}

fn answer(asked: Asked, shown: &Shown) -> (&'static str, &'static str, String) {
    const TEXT: &str = "text/plain; charset=utf-8";
    let probe = |outcome: Result<(), String>| match outcome {
        Ok(()) => ("200 OK", TEXT, "ok\n".to_owned()),
        Err(why) => ("503 Service Unavailable", TEXT, format!("{why}\n")),
    };
    match asked {
        Asked::Metrics => {
            let text = exposition::render(&shown.status());
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text)
        }
        Asked::Live => probe(shown.board.alive()),
        Asked::Ready => probe(shown.board.ready().map_err(str::to_owned)),
        Asked::Elsewhere => {
            let text = "there are /metrics, /livez and /readyz\n";
            ("404 Not Found", TEXT, text.to_owned())
        }
        Asked::Otherwise => (
            "405 Method Not Allowed\r\nAllow: GET",
            TEXT,
            "only GET\n".to_owned(),
        ),
        Asked::Nonsense => (
            "400 Bad Request",
            TEXT,
            "not an HTTP/1.1 request, or too long a one\n".to_owned(),
        ),
    }
}

fn serve<S: Stream>(mut stream: Timed<S>, shown: &Shown) {
    let complete = |all: &[u8]| all.windows(4).any(|end| end == b"\r\n\r\n");
    let Ok(head) = read_until(&mut stream, MAX_HEAD, complete) else {
        return;
    };
    let (status, kind, body) = answer(asked(&head), shown);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // It may have gone.
    let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_paths_by_get_and_nothing_else() {
        let get = |path: &str| asked(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        assert_eq!(get("/metrics"), Asked::Metrics);
        assert_eq!(get("/metrics?name=x"), Asked::Metrics);
        assert_eq!(get("/livez"), Asked::Live);
        assert_eq!(get("/readyz"), Asked::Ready);
        for elsewhere in ["/", "/metrics/", "/../livez", "http://x/metrics", "*"] {
            assert_eq!(get(elsewhere), Asked::Elsewhere, "{elsewhere}");
        }
        for method in ["POST", "HEAD", "PUT", "get", "CONNECT"] {
            let head = format!("{method} /metrics HTTP/1.1\r\n\r\n");
            assert_eq!(asked(head.as_bytes()), Asked::Otherwise, "{method}");
        }
    }

    #[test]
    fn what_is_no_request_is_told_so() {
        let many = format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "a: b\r\n".repeat(MAX_HEADERS + 1)
        );
        for head in [
            &b""[..],
            b"GET /metrics",
            b"GET /metrics HTTP/1.1\r\nHost: x\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\0\0\0\0\r\n\r\n",
            many.as_bytes(),
            &[b'A'; MAX_HEAD],
        ] {
            assert_eq!(
                asked(head),
                Asked::Nonsense,
                "{:?}",
                &head[..head.len().min(20)]
            );
        }
    }

    #[test]
    fn a_starting_job_is_alive_and_not_ready() {
        let shown = Shown::new("j");
        assert_eq!(answer(Asked::Live, &shown).0, "200 OK");
        let (status, _, body) = answer(Asked::Ready, &shown);
        assert_eq!(
            (status, body.as_str()),
            ("503 Service Unavailable", "starting\n")
        );
        let (status, _, body) = answer(Asked::Metrics, &shown);
        assert_eq!(status, "200 OK");
        assert!(
            body.contains("weir_job_state{job=\"j\",state=\"starting\"} 1\n"),
            "{body}"
        );
    }
}
