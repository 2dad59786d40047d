//! A small server of short conversations: a thread each, a bounded number of them, each with a deadline.
//!
//! A client that says nothing, speaks slowly or reads slowly costs one of the threads until a deadline and nothing else; others wait in
//! the listener's queue meanwhile. A request is there at once or never, so the deadline for it is early.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::clock;

/// Conversations at a time.
const CONVERSATIONS: usize = 32;

/// A conversation is over after this.
const DEADLINE: Duration = Duration::from_secs(5);

/// It is over after this if the request is not there by then: connections that say nothing must not keep probes out for long.
const REQUEST: Duration = Duration::from_secs(1);

/// How long nothing is accepted after accepting failed: out of file descriptors, say.
const PAUSE: Duration = Duration::from_millis(100);

/// What can be accepted from.
pub(super) trait Listener: AsFd + Send + 'static {
    /// A connection.
    type Stream: Stream;
    /// Accepts one; never waits.
    fn accept(&self) -> io::Result<Self::Stream>;
    /// Makes accepting never wait.
    fn prepare(&self) -> io::Result<()>;
}

/// A connection.
pub(super) trait Stream: Read + Write + Send + 'static {
    /// Bounds each single read and write.
    fn bound(&self, wait: Duration) -> io::Result<()>;
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    fn accept(&self) -> io::Result<UnixStream> {
        UnixListener::accept(self).map(|(stream, _)| stream)
    }
    fn prepare(&self) -> io::Result<()> {
        self.set_nonblocking(true)
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    fn accept(&self) -> io::Result<TcpStream> {
        TcpListener::accept(self).map(|(stream, _)| stream)
    }
    fn prepare(&self) -> io::Result<()> {
        self.set_nonblocking(true)
    }
}

impl Stream for UnixStream {
    fn bound(&self, wait: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(wait))?;
        self.set_write_timeout(Some(wait))
    }
}

impl Stream for TcpStream {
    fn bound(&self, wait: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(wait))?;
        self.set_write_timeout(Some(wait))
    }
}

/// A connection with the time that is left for it: all reads and writes together end at the deadline.
pub(super) struct Timed<S> {
    stream: S,
    /// Reads end then, at the deadline or before it.
    reads_until: Instant,
    until: Instant,
}

impl<S: Stream> Timed<S> {
    /// From now on there is this much time.
    pub(super) fn new(stream: S, time: Duration) -> Timed<S> {
        Timed::reading(stream, time, time)
    }

    /// From now on there is this much time, of which reading may take `reads`.
    fn reading(stream: S, reads: Duration, time: Duration) -> Timed<S> {
        let now = clock::now();
        let after = |time| now.checked_add(time).unwrap_or(now);
        Timed {
            stream,
            reads_until: after(reads),
            until: after(time),
        }
    }

    /// The connection without a deadline.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    fn wait(&self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(clock::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // Zero would mean for ever.
        self.stream.bound(left.max(Duration::from_millis(1)))
    }
}

impl<S: Stream> Read for Timed<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait(self.reads_until)?;
        self.stream.read(buffer)
    }
}

impl<S: Stream> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(self.until)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Reads until `complete` says that what was read is a whole request, the other side is done, or `limit` bytes are there.
///
/// # Errors
/// The connection broke, or its time is up.
pub(super) fn read_until(
    stream: &mut impl Read,
    limit: usize,
    complete: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let (mut all, mut piece) = (Vec::new(), [0; 1024]);
    while all.len() < limit && !complete(&all) {
        let room = piece.len().min(limit - all.len());
        match stream.read(&mut piece[..room]) {
            Ok(0) => break,
            Ok(read) => all.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// How many conversations there are.
#[derive(Default)]
struct Room {
    taken: Mutex<usize>,
    left: Condvar,
}

/// One of them.
struct Place(Arc<Room>);

impl Room {
    fn wait(room: &Arc<Room>) -> Place {
        let mut taken = room.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken >= CONVERSATIONS {
            taken = room
                .left
                .wait(taken)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *taken += 1;
        Place(room.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.left.notify_one();
    }
}

/// A server; it accepts until it is dropped.
pub(super) struct Server {
    /// Closing it wakes the thread.
    _awake: UnixStream,
}

impl Server {
    /// Has `converse` talk to whoever connects to `listener`.
    ///
    /// # Errors
    /// The system refuses a thread or a socket.
    pub(super) fn start<L: Listener>(
        name: &str,
        listener: L,
        converse: impl Fn(Timed<L::Stream>) + Send + Sync + 'static,
    ) -> io::Result<Server> {
        listener.prepare()?;
        let (awake, wakes) = UnixStream::pair()?;
        let converse = Arc::new(converse);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || accept_all(&listener, &wakes, &converse))?;
        Ok(Server { _awake: awake })
    }
}

fn accept_all<L: Listener>(
    listener: &L,
    wakes: &UnixStream,
    converse: &Arc<impl Fn(Timed<L::Stream>) + Send + Sync + 'static>,
) {
    let room = Arc::new(Room::default());
    loop {
        let place = Room::wait(&room);
        let mut ready = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(wakes, PollFlags::IN),
        ];
        if poll(&mut ready, None).is_err() {
            std::thread::sleep(PAUSE);
            continue;
        }
        if !ready[1].revents().is_empty() {
            return;
        }
        let stream = match listener.accept() {
            Ok(stream) => stream,
            // Whoever it was has gone again.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        let converse = converse.clone();
        let talk = move || {
            let _place = place;
            converse(Timed::reading(stream, REQUEST, DEADLINE));
        };
        // Without a thread the connection is closed.
        drop(
            std::thread::Builder::new()
                .name("conversation".into())
                .spawn(talk),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_speaker_is_cut_off_at_the_deadline_however_often_it_says_a_byte() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let speaker = std::thread::spawn(move || {
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let mut timed = Timed::new(ours, Duration::from_millis(100));
        let began = clock::now();
        let read = read_until(&mut timed, 1 << 20, |_| false);
        assert!(read.is_err(), "{read:?}");
        assert!(began.elapsed() < Duration::from_secs(2));
        drop(timed);
        speaker.join().expect("no panic");
    }

    #[test]
    fn what_is_read_is_bounded() {
        let read = read_until(&mut io::repeat(b'x'), 4_000, |_| false).expect("reads");
        assert_eq!(read.len(), 4_000);
        let read = read_until(&mut &b"a line\nmore"[..], 4_000, |all| all.contains(&b'\n'));
        assert!(read.expect("reads").starts_with(b"a line\n"));
    }

    #[test]
    fn more_clients_than_places_are_all_served_and_silent_ones_stop_nobody_for_good() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).expect("a socket");
        let server = Server::start("test", listener, |mut stream| {
            // The request decides how long this takes; one that never comes ends with the stream.
            if read_until(&mut stream, 10, |all| all.contains(&b'\n')).is_ok() {
                let _ = stream.write_all(b"done\n");
            }
        });
        let server = server.expect("it starts");
        let connect = || UnixStream::connect(&path).expect("connected");
        let silent: Vec<_> = (0..CONVERSATIONS - 1).map(|_| connect()).collect();
        let clients: Vec<_> = (0..3 * CONVERSATIONS)
            .map(|_| {
                let mut stream = connect();
                std::thread::spawn(move || {
                    stream.write_all(b"go\n").expect("written");
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).expect("read");
                    answer
                })
            })
            .collect();
        for client in clients {
            assert_eq!(client.join().expect("no panic"), "done\n");
        }
        drop(silent);
        drop(server);
    }

    #[test]
    fn silent_clients_in_every_place_keep_others_out_for_less_than_a_conversation() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).expect("a socket");
        let server = Server::start("test", listener, |mut stream| {
            if read_until(&mut stream, 10, |all| all.contains(&b'\n')).is_ok() {
                let _ = stream.write_all(b"done\n");
            }
        });
        let server = server.expect("it starts");
        let connect = || UnixStream::connect(&path).expect("connected");
        let silent: Vec<_> = (0..CONVERSATIONS).map(|_| connect()).collect();
        let began = clock::now();
        let mut client = connect();
        client.write_all(b"go\n").expect("written");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("read");
        assert_eq!(answer, "done\n");
        assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
        drop(silent);
        drop(server);
    }
}
