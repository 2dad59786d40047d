//! A broker's process, its folder and its ports.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::certificates::Certificates;
use super::leftovers::Folder;
use super::settings::{self, Addresses, Options};
use super::{PATIENCE, Proxied, client, ports};
use crate::host::Process;
use crate::kafka::{groups, tools};
use crate::random::Random;

/// How many tests can have a proxy in front of one broker at a time.
const PROXIED: usize = 3;

/// A port that was free may be taken when the broker comes to it.
const ATTEMPTS: usize = 3;

/// See the module.
#[derive(Debug)]
pub(super) struct Server {
    options: Options,
    addresses: Addresses,
    certificates: Certificates,
    running: Mutex<Running>,
    folder: Folder,
}

/// The newest process.
#[derive(Debug)]
struct Running {
    kept: Kept,
    /// How many there were.
    starts: u32,
}

/// A process that dies with this one.
///
/// Linux kills it when the *thread* that started it ends, so that is one of its own, which lives as long as this value.
#[derive(Debug)]
struct Kept {
    process: Process,
    _thread: Sender<()>,
}

impl Kept {
    fn start(command: &[String], log: PathBuf, out: PathBuf) -> Kept {
        let (started, process) = channel();
        let (alive, ended) = channel::<()>();
        let mut kept = Command::new("setpriv");
        kept.args(["--pdeathsig", "KILL"])
            .args(command)
            .stdin(Stdio::null());
        thread::Builder::new()
            .name("broker".to_owned())
            .spawn(move || {
                let process = Process::start(&mut kept, log, out);
                // Nobody waits for it if the other side panicked, and then it is killed by its end.
                let _ = started.send(process);
                let _ = ended.recv();
            })
            .expect("a thread can be started");
        Kept {
            process: process
                .recv()
                .expect("the command can be started; the thread has said why it was not"),
            _thread: alive,
        }
    }
}

/// A new one: 16 bytes in base64, of which the last letter has only some bits. Kafka's own tool for it takes a second to start.
fn cluster_id() -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut random = Random::unrepeatable();
    let mut id: String = (0..21).map(|_| char::from(random.pick(LETTERS))).collect();
    id.push('A');
    id
}

impl Server {
    /// Starts one and waits until it answers.
    pub(super) fn started(options: &Options) -> (Server, Vec<Proxied>) {
        for _ in 1..ATTEMPTS {
            let (server, proxied) = Server::spawned(options);
            match server.wait_until_it_answers() {
                Ok(()) => return (server, proxied),
                Err(_) if server.whole_log().contains("Address already in use") => {}
                Err(why) => panic!("{why}"),
            }
        }
        let (server, proxied) = Server::spawned(options);
        server
            .wait_until_it_answers()
            .unwrap_or_else(|why| panic!("{why}"));
        (server, proxied)
    }

    fn spawned(options: &Options) -> (Server, Vec<Proxied>) {
        let folder =
            Folder::create().unwrap_or_else(|error| panic!("a folder for a broker: {error}"));
        let certificates = Certificates::make(folder.path()).unwrap_or_else(|why| panic!("{why}"));
        // All at once, so that they differ.
        let sockets: [_; 4 + PROXIED] = std::array::from_fn(|_| ports::listen());
        let own = sockets.each_ref().map(ports::address);
        let told: [_; PROXIED] = std::array::from_fn(|_| ports::listen());
        let mut proxied = Vec::new();
        let mut both = Vec::new();
        for (listener, broker) in told.into_iter().zip(own[4..].iter().copied()) {
            both.push((broker, ports::address(&listener)));
            proxied.push(Proxied { listener, broker });
        }
        let addresses = Addresses {
            plain: own[0],
            sasl: own[1],
            mutual: own[2],
            controller: own[3],
            proxied: both,
        };
        let data = folder.path().join("data");
        let text = settings::properties(options, &addresses, &certificates, &data)
            .unwrap_or_else(|why| panic!("{why}"));
        let file = folder.path().join("server.properties");
        fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let file = file.display().to_string();

        let mut format = ["format", "--config", &file, "--cluster-id", &cluster_id()]
            .map(str::to_owned)
            .to_vec();
        format.extend(settings::scram_users());
        tools::run("kafka.tools.StorageTool", &format).unwrap_or_else(|why| panic!("{why}"));

        drop(sockets);
        let kept = Server::process(options, &folder, 0);
        let server = Server {
            options: options.clone(),
            addresses,
            certificates,
            running: Mutex::new(Running { kept, starts: 1 }),
            folder,
        };
        (server, proxied)
    }

    fn process(options: &Options, folder: &Folder, number: u32) -> Kept {
        let mut command = tools::java(&options.java()).unwrap_or_else(|why| panic!("{why}"));
        command.push("kafka.Kafka".to_owned());
        command.push(
            folder
                .path()
                .join("server.properties")
                .display()
                .to_string(),
        );
        let log = match number {
            0 => folder.path().join("log"),
            _ => folder.path().join(format!("log-{number}")),
        };
        Kept::start(&command, log, folder.path().join("stdout"))
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running
            .lock()
            .expect("what panics here is told to tests, which then end")
    }

    /// Starts it again. It must be over.
    pub(super) fn start_again(&self) {
        let mut running = self.running();
        running.kept = Server::process(&self.options, &self.folder, running.starts);
        running.starts += 1;
        drop(running);
        self.wait_until_it_answers()
            .unwrap_or_else(|why| panic!("{why}"));
    }

    fn wait_until_it_answers(&self) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(self.addresses.plain).is_err() {
            if !self.running().kept.process.is_running() || Instant::now() > until {
                return Err(format!("the broker does not start; {}", self.log()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        let config = client(&self.addresses.plain.to_string());
        groups::coordinators_answer(&config, until.saturating_duration_since(Instant::now()))
            .map_err(|why| format!("the broker is not usable: {why}; {}", self.log()))
    }

    pub(super) fn kill(&self) {
        self.running().kept.process.kill();
    }

    pub(super) fn stop(&self) {
        let mut running = self.running();
        let process = &mut running.kept.process;
        // One that is frozen would not hear.
        process.signal(Signal::CONT);
        process.signal(Signal::TERM);
        let ended = process.within(PATIENCE).is_some();
        drop(running);
        if !ended {
            panic!("the broker does not end; {}", self.log());
        }
    }

    pub(super) fn freeze(&self) {
        self.running().kept.process.signal(Signal::STOP);
    }

    pub(super) fn thaw(&self) {
        self.running().kept.process.signal(Signal::CONT);
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.addresses.plain
    }

    pub(super) fn sasl_address(&self) -> SocketAddr {
        self.addresses.sasl
    }

    pub(super) fn mutual_address(&self) -> SocketAddr {
        self.addresses.mutual
    }

    pub(super) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    fn whole_log(&self) -> String {
        self.running().kept.process.log()
    }

    /// The end of the log, and where all of it is.
    pub(super) fn log(&self) -> String {
        const LINES: usize = 60;
        let log = self.whole_log();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
        format!(
            "its log, of which this is the end, is in {}:\n{end}",
            self.folder.path().display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeping(dir: &std::path::Path) -> Kept {
        let command = ["sh", "-c", "echo up >&2; exec sleep 1000"].map(str::to_owned);
        let mut kept = Kept::start(&command, dir.join("log"), dir.join("out"));
        // Before that nothing ties it to the thread yet.
        assert!(kept.process.says("up", 1, crate::host::HANGS));
        kept
    }

    #[test]
    fn a_process_lives_on_without_the_thread_that_asked_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let asking = thread::scope(|scope| scope.spawn(|| sleeping(dir.path())).join());
        let mut kept = asking.unwrap();
        assert!(kept.process.within(Duration::from_millis(100)).is_none());
    }

    #[test]
    fn a_process_dies_with_the_thread_that_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        let Kept {
            mut process,
            _thread: thread,
        } = sleeping(dir.path());
        drop(thread);
        assert!(process.end().killed());
    }

    #[test]
    fn clusters_differ() {
        let (one, other) = (cluster_id(), cluster_id());
        assert_eq!(one.len(), 22);
        assert_ne!(one, other);
    }
}
