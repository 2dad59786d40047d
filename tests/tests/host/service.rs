//! A service manager is told when a job is ready, that it lives, and that it stops.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_tests::host::{HANGS, Process};
use weir_tests::place::Place;

use crate::fixture::{SLOWEST, UNLIMITED, text};

/// A service manager's end of the line.
struct Manager {
    socket: UnixDatagram,
    said: Vec<String>,
}

impl Manager {
    fn new(socket: UnixDatagram) -> Manager {
        let wait = Some(Duration::from_millis(100));
        socket.set_read_timeout(wait).expect("set");
        Manager {
            socket,
            said: Vec::new(),
        }
    }

    fn listen(&mut self) {
        let mut buffer = [0; 4096];
        if let Ok(length) = self.socket.recv(&mut buffer) {
            let text = String::from_utf8(buffer[..length].to_vec()).expect("text");
            self.said.extend(text.lines().map(str::to_owned));
        }
    }

    /// How many lines begin like this.
    fn count(&self, line: &str) -> usize {
        let begins = |said: &&String| said.starts_with(line);
        self.said.iter().filter(begins).count()
    }

    #[track_caller]
    fn hears(&mut self, line: &str, times: usize, process: &Process) {
        let until = Instant::now() + HANGS;
        while self.count(line) < times {
            assert!(Instant::now() < until, "{:?}\n{}", self.said, process.log());
            self.listen();
        }
    }
}

fn run(place: &Place, socket: &str, watchdog: Option<&str>) -> Process {
    let mut command = place.command();
    command
        .args(["run", "job.yaml", "--no-progress"])
        .env("NOTIFY_SOCKET", socket)
        .env_remove("WATCHDOG_USEC")
        .env_remove("WATCHDOG_PID");
    if let Some(micros) = watchdog {
        command.env("WATCHDOG_USEC", micros);
    }
    place.spawn(&mut command)
}

#[test]
fn ready_alive_and_stopping() {
    let place = Place::temporary();
    place.write_job(&text(SLOWEST));
    let path = place.path("notify");
    let mut manager = Manager::new(UnixDatagram::bind(&path).expect("a socket"));
    let mut process = run(&place, &path.display().to_string(), Some("200000"));
    manager.hears("READY=1", 1, &process);
    manager.hears("WATCHDOG=1", 5, &process);
    manager.hears("STATUS=running, checkpoint ", 1, &process);
    process.signal(Signal::TERM);
    manager.hears("STOPPING=1", 1, &process);
    process.end().expect(0, &["stopped"]);
}

#[test]
fn a_watchdog_is_fed_by_nobody_else_than_a_coordinator_that_comes_round() {
    let place = Place::temporary();
    place.write_job(&text(SLOWEST));
    let path = place.path("notify");
    let mut manager = Manager::new(UnixDatagram::bind(&path).expect("a socket"));
    let mut process = run(&place, &path.display().to_string(), Some("200000"));
    manager.hears("WATCHDOG=1", 2, &process);
    process.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(100));
    while manager.socket.recv(&mut [0; 4096]).is_ok() {}
    let before = manager.count("WATCHDOG=1");
    for _ in 0..5 {
        manager.listen();
    }
    assert_eq!(
        manager.count("WATCHDOG=1"),
        before,
        "a process that stands still"
    );
    process.signal(Signal::CONT);
    manager.hears("WATCHDOG=1", before + 1, &process);
    process.kill();
}

#[test]
fn a_job_that_ends_by_itself_was_ready_and_without_a_watchdog_none_is_fed() {
    let place = Place::temporary();
    place.write_job(&text(UNLIMITED));
    let name = format!("weir-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let mut manager = Manager::new(UnixDatagram::bind_addr(&address).expect("a socket"));
    // The second time it is finished already.
    for times in 1..=2 {
        let mut process = run(&place, &format!("@{name}"), None);
        process.end().expect(0, &["finished"]);
        manager.hears("STOPPING=1", times, &process);
        assert!(manager.count("READY=1") >= times, "{:?}", manager.said);
    }
    assert_eq!(manager.count("WATCHDOG=1"), 0);
}

#[test]
fn a_service_manager_that_is_not_there_is_no_reason_to_fail() {
    let place = Place::temporary();
    place.write_job(&text(UNLIMITED));
    for nowhere in ["/nowhere/notify", "@weir-test-nobody", "", "nonsense"] {
        run(&place, nowhere, Some("soon"))
            .end()
            .expect(0, &["finished"]);
    }
}
