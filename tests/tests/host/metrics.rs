//! `/metrics`, `/livez` and `/readyz` of a running job, over HTTP.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use weir_tests::host::{HANGS, Process};
use weir_tests::place::{Place, Start};

use crate::fixture::{SLOWEST, finish_exactly, started, stop, text};

/// Where the log says that metrics are.
#[track_caller]
fn address(process: &mut Process) -> String {
    assert!(process.says("/metrics\n", 1, HANGS), "{}", process.log());
    let log = process.log();
    let (_, rest) = log.split_once("metrics at http://").expect("said above");
    rest.split('/').next().expect("an address").to_owned()
}

/// Sends `request` and returns status and body.
fn exchange(address: &str, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(HANGS)).expect("set");
    // It may be cut off in the middle.
    let _ = stream.write_all(request);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("text");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status.unwrap_or(0), body.to_owned())
}

fn get(address: &str, path: &str) -> (u16, String) {
    exchange(
        address,
        format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes(),
    )
}

/// Series with their values.
#[track_caller]
fn metrics(address: &str) -> BTreeMap<String, f64> {
    let (status, body) = get(address, "/metrics");
    assert_eq!(status, 200, "{body}");
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("series and value");
            (series.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

fn sum(metrics: &BTreeMap<String, f64>, name: &str) -> f64 {
    let series = metrics.iter();
    series
        .filter(|(series, _)| series.split('{').next() == Some(name))
        .map(|(_, value)| value)
        .sum()
}

#[test]
fn metrics_of_a_running_job_are_plausible_and_move() {
    let place = Place::temporary();
    place.write_job(&text(SLOWEST).replace(
        "parallelism: 2",
        "metrics: {listen: 127.0.0.1:0}\nparallelism: 2",
    ));
    let mut process = started(&place, &Start::default());
    let at = address(&mut process);
    assert_eq!(get(&at, "/livez"), (200, "ok\n".to_owned()));
    assert_eq!(get(&at, "/readyz"), (200, "ok\n".to_owned()));
    let first = metrics(&at);
    assert_eq!(
        first["weir_job_state{job=\"ledger\",state=\"running\"}"],
        1.0
    );
    for name in [
        "weir_job_state",
        "weir_records_in_total",
        "weir_records_out_total",
        "weir_bytes_out_total",
        "weir_checkpoint_last_number",
        "weir_checkpoint_duration_seconds",
        "weir_subtask_ratio",
        "weir_subtask_seconds_total",
        "weir_operator_call_seconds_sum",
        "weir_operator_call_seconds_count",
        "weir_guest_memory_bytes",
        "weir_guest_memory_limit_bytes",
        "weir_state_bytes",
        "weir_watermark_lag_seconds",
        "weir_source_lag_records",
        "weir_process_resident_bytes",
        "weir_disk_free_bytes",
    ] {
        assert!(sum(&first, name) > 0.0, "{name} in {first:#?}");
    }
    for name in [
        "weir_job_restarts_total",
        "weir_checkpoint_failures_in_a_row",
        "weir_dead_letters_total",
        "weir_skipped_records_total",
        "weir_late_records_total",
    ] {
        assert!(
            first.keys().any(|series| series.starts_with(name)),
            "{name}"
        );
        assert_eq!(sum(&first, name), 0.0, "{name}");
    }
    let heartbeat = sum(&first, "weir_job_heartbeat_age_seconds");
    assert!(heartbeat < 10.0, "{heartbeat}");
    std::thread::sleep(Duration::from_millis(300));
    let second = metrics(&at);
    for name in [
        "weir_records_in_total",
        "weir_subtask_seconds_total",
        "weir_checkpoints_total",
    ] {
        assert!(sum(&second, name) > sum(&first, name), "{name}");
    }
    assert!(
        !second.keys().any(|series| series.contains("key=")),
        "never a key: {second:#?}"
    );
    stop(process);
    place.write_job(&text(SLOWEST));
    finish_exactly(&place);
}

#[test]
fn only_three_paths_by_get_and_no_client_keeps_others_out() {
    let place = Place::temporary();
    place.write_job(&text(SLOWEST).replace(
        "parallelism: 2",
        "metrics: {listen: 127.0.0.1:1}\nparallelism: 2",
    ));
    let mut process = started(&place, &Start::with(&["--metrics", "127.0.0.1:0"]));
    let at = address(&mut process);
    assert_ne!(at, "127.0.0.1:1", "the command line counts");
    // Some say nothing, some a byte at a time, some never read.
    let silent: Vec<_> = (0..20)
        .map(|_| TcpStream::connect(&at).expect("it listens"))
        .collect();
    let slow = TcpStream::connect(&at).expect("it listens");
    let mut bytes = slow.try_clone().expect("cloned");
    let speaker = std::thread::spawn(move || {
        while bytes.write_all(b"G").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    for (request, status, said) in [
        ("GET / HTTP/1.1\r\n\r\n", 404, "/metrics"),
        ("GET /<script> HTTP/1.1\r\n\r\n", 404, "/metrics"),
        (
            "POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            405,
            "only GET",
        ),
        ("DELETE /livez HTTP/1.1\r\n\r\n", 405, "only GET"),
        ("nonsense\r\n\r\n", 400, "not an HTTP/1.1 request"),
        ("", 400, "not an HTTP/1.1 request"),
    ] {
        let (found, body) = exchange(&at, request.as_bytes());
        assert_eq!(found, status, "{request:?}: {body}");
        assert!(body.contains(said) && !body.contains("script"), "{body}");
    }
    assert_eq!(
        exchange(&at, &[b'A'; 100_000]).0 % 400,
        0,
        "refused or cut off"
    );
    assert_eq!(get(&at, "/readyz").0, 200);
    let before = process.log().matches("committed").count();
    assert!(
        process.says("committed", before + 2, HANGS),
        "{}",
        process.log()
    );
    // The slow one is cut off in the end.
    drop(slow);
    speaker.join().expect("it is cut off");
    drop(silent);
    stop(process);
}

#[test]
fn a_job_that_is_not_restored_is_alive_and_not_ready() {
    let place = Place::temporary();
    // Its operator never comes to an end of opening.
    place.write_job(
        "version: 1\njob: opening\nparallelism: 1\ncheckpoint: {dir: checkpoints}\n\
         restart: {strategy: fixed, delay: 1h, give_up_after: 3}\n\
         sources: {in: {generator: {records: 10}}}\n\
         operators: {slow: {component: @weir_guest_probe, inputs: {keyed: in, unkeyed: in}, config: open loop, limits: {call_time: 3s}}}\n\
         sinks: {out: {input: slow.kept, file: {dir: out/kept}}}\n",
    );
    let mut process = place.start(&Start::with(&["--metrics", "127.0.0.1:0"]));
    let at = address(&mut process);
    let (mut seen, until) = (Vec::new(), Instant::now() + HANGS);
    while seen.last().is_none_or(|state| state != "restarting\n") {
        assert!(Instant::now() < until, "{seen:?}\n{}", process.log());
        assert_eq!(get(&at, "/livez").0, 200);
        let (status, state) = get(&at, "/readyz");
        assert_eq!(status, 503, "{state}");
        if seen.last() != Some(&state) {
            seen.push(state);
        }
    }
    assert!(seen.contains(&"restoring\n".to_owned()), "{seen:?}");
    process.kill();

    // The same job with an operator that opens becomes ready.
    let text = std::fs::read_to_string(place.job()).expect("the job");
    let endless = text
        .replace("records: 10", "records: unbounded")
        .replace("open loop", "process echo");
    std::fs::write(place.job(), endless).expect("written");
    let mut process = place.start(&Start::with(&["--metrics", "127.0.0.1:0"]));
    let at = address(&mut process);
    while get(&at, "/readyz").0 != 200 {
        assert!(process.is_running(), "{}", process.log());
    }
    stop(process);
}

#[test]
fn an_address_that_cannot_be_had_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("known").to_string();
    let place = Place::temporary();
    place.write_job(&text(SLOWEST));
    place
        .run_with(&Start::with(&["--metrics", &at]))
        .expect(75, &["error[W0306]", &at]);
    // Of a network for documentation, so not one of this machine.
    place
        .run_with(&Start::with(&["--metrics", "192.0.2.1:9090"]))
        .expect(3, &["error[W0306]", "192.0.2.1:9090"]);
    drop(taken);
    finish_exactly(&place);
}
