//! `weir status` and `weir stop` tell the truth about a running job, and neither they nor anybody else at the socket disturb it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use weir_tests::host::{Exit, HANGS, Process};
use weir_tests::place::{Place, Start};

use crate::fixture::{SLOW, SLOWEST, finish_exactly, half_done, running, started, stop, text};

fn socket(place: &Place) -> PathBuf {
    place.path(".weir/ledger/control.sock")
}

#[track_caller]
fn status(place: &Place) -> Value {
    let exit = place.weir(&["status", "job.yaml", "--json"]);
    assert_eq!(exit.code(), Some(0), "{}", exit.log);
    serde_json::from_slice(&exit.out).expect("JSON")
}

/// The sum of `field` over all nodes of a kind.
fn sum(status: &Value, kind: &str, field: &str) -> f64 {
    let tasks = status["tasks"].as_array().expect("a list");
    let nodes = tasks
        .iter()
        .flat_map(|task| task["nodes"].as_array().expect("a list"));
    nodes
        .filter(|node| node["kind"] == kind)
        .map(|node| node[field].as_f64().expect("a number"))
        .sum()
}

#[test]
fn the_status_of_a_running_job_is_plausible_and_moves() {
    let (place, process) = running(SLOWEST);
    let first = status(&place);
    assert_eq!(
        (&first["job"], &first["state"]),
        (&"ledger".into(), &"running".into())
    );
    assert_eq!(first["pid"], process.pid().as_raw_nonzero().get());
    assert_eq!(first["attempt"], 1);
    let last = first["checkpoint"]["last"].as_u64().expect("a checkpoint");
    assert!(last >= 3, "{first:#}");
    let age = first["checkpoint"]["age_seconds"].as_f64().expect("an age");
    assert!((0.0..60.0).contains(&age), "{first:#}");
    assert!(
        first["resident_bytes"].as_u64() > Some(1 << 20),
        "{first:#}"
    );
    let disks: Vec<_> = first["disks"].as_array().expect("a list").iter().collect();
    assert!(
        disks
            .iter()
            .all(|disk| disk["free_bytes"].as_u64() > Some(0)),
        "{first:#}"
    );
    let names: Vec<_> = first["tasks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|task| &task["name"])
        .collect();
    assert_eq!(
        names,
        [
            "numbers[0]",
            "numbers[1]",
            "ledger+windows+lines[0]",
            "ledger+windows+lines[1]"
        ]
    );
    for task in first["tasks"].as_array().expect("a list") {
        let shares =
            ["busy", "idle", "backpressured"].map(|share| task[share].as_f64().expect("a share"));
        assert!(
            shares.iter().all(|share| (0.0..=1.0).contains(share)),
            "{task:#}"
        );
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 0.01, "{task:#}");
    }
    std::thread::sleep(Duration::from_millis(500));
    let second = status(&place);
    for (kind, field) in [
        ("source", "records_in"),
        ("source", "records_out"),
        ("operator", "records_in"),
        ("operator", "records_out"),
        ("sink", "records_in"),
    ] {
        let (before, now) = (sum(&first, kind, field), sum(&second, kind, field));
        assert!(
            before > 0.0 && now > before,
            "{field} of each {kind}: {before}, {now}"
        );
        assert!(now <= 8_000.0, "{field} of each {kind}: {now}");
    }
    assert!(
        second["checkpoint"]["last"].as_u64() > Some(last),
        "{second:#}"
    );
    let rate = sum(&second, "source", "in_rate");
    assert!(rate > 1.0 && rate < 2.0 * SLOWEST as f64, "{rate} a second");
    let operator = &second["tasks"][2]["nodes"][0]["operator"];
    assert!(operator["calls"].as_u64() > Some(0), "{operator:#}");
    assert!(
        operator["call_seconds"].as_f64() > Some(0.0),
        "{operator:#}"
    );
    assert!(
        operator["guest_bytes"].as_u64() >= Some(1 << 16),
        "{operator:#}"
    );
    assert!(operator["state_bytes"].as_u64() > Some(0), "{operator:#}");
    let source = &second["tasks"][0]["nodes"][0]["source"];
    assert_eq!(source["unit"], "records", "{second:#}");
    // The generator's clock began in 2020.
    let lag = second["tasks"][2]["nodes"][0]["watermark_lag_seconds"].as_f64();
    assert!(lag > Some(86_400.0), "{second:#}");
    assert_eq!(
        second["bottleneck"],
        Value::Null,
        "its rate is what limits it"
    );

    let exit = place.weir(&["status", "job.yaml"]);
    assert_eq!(exit.code(), Some(0), "{}", exit.log);
    let text = exit.text();
    for part in [
        "job ledger: running; up ",
        "attempt 1, lineage ",
        "checkpoint ",
        "source numbers: ",
        "ledger+windows+lines[1]  ",
        "bottleneck: none; every subtask has time left",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    stop(process);
}

#[test]
fn the_bottleneck_is_named() {
    let place = Place::temporary();
    place.write_job(
        "version: 1\njob: ledger\nparallelism: 1\ncheckpoint: {dir: checkpoints}\n\
         sources: {numbers: {generator: {records: unbounded, keys: 100000, value_bytes: 2000}}}\n\
         operators: {slow: {component: @weir_guest_ledger, input: numbers}}\n\
         sinks: {out: {input: slow.ledger, blackhole: {}}}\n",
    );
    let mut process = place.start(&Start::default());
    assert!(process.says("fresh start", 1, HANGS), "{}", process.log());
    let until = Instant::now() + HANGS;
    loop {
        let exit = place.weir(&["status", "job.yaml"]);
        if exit.text().contains("bottleneck: slow+out[0]: it works ") {
            assert!(exit.text().contains("numbers[0] waits "), "{}", exit.text());
            break;
        }
        assert!(Instant::now() < until, "{}\n{}", exit.text(), process.log());
    }
    process.kill();
}

#[test]
fn stop_commits_the_last_records_and_the_job_can_be_run_again_at_once() {
    let (place, mut process) = running(SLOWEST);
    let exit = place.weir(&["stop", "job.yaml"]);
    assert_eq!(exit.code(), Some(0), "{}", exit.log);
    for said in ["job ledger stopped", "holds everything up to here"] {
        assert!(exit.text().contains(said), "{}", exit.text());
    }
    let again = started(&place, &Start::default());
    process.end().expect(
        0,
        &[
            "over the control socket",
            "stopping after a last checkpoint",
        ],
    );
    assert!(
        again.log().contains("resumed at checkpoint"),
        "{}",
        again.log()
    );
    stop(again);
    finish_exactly(&place);
}

#[test]
fn stop_by_several_at_once_tells_all_of_them() {
    let (place, mut process) = running(SLOWEST);
    let stoppers: Vec<_> = (0..3)
        .map(|_| verb(&place, &["stop", "job.yaml"]))
        .collect();
    for mut stopper in stoppers {
        let exit = stopper.end();
        // One that came when the socket was gone already found no job.
        assert!(
            matches!(exit.code(), Some(0 | 75)),
            "{:?}: {}",
            exit.code(),
            exit.log
        );
    }
    process.end().expect(0, &["job ledger stopped"]);
    finish_exactly(&place);
}

/// Starts another verb.
fn verb(place: &Place, args: &[&str]) -> Process {
    let mut command = place.command();
    command.args(args);
    place.spawn(&mut command)
}

#[test]
fn stop_while_checkpoints_cannot_be_stored_says_what_it_waits_for_and_loses_nothing() {
    let (place, mut process) = running(SLOWEST);
    let (folder, aside) = (place.path("checkpoints/manifests"), place.path("aside"));
    fs::rename(&folder, &aside).expect("a folder can be renamed");
    let exit = place.weir(&["stop", "job.yaml", "--timeout", "1500ms"]);
    assert_eq!(exit.code(), Some(6), "{}\n{}", exit.text(), exit.log);
    for said in [
        "stopped without a checkpoint",
        "no last checkpoint within 1.5 s",
        "failed in a row, the last one: manifest",
    ] {
        assert!(exit.text().contains(said), "no `{said}` in {}", exit.text());
    }
    process
        .end()
        .expect(6, &["no last checkpoint within 1.5 s"]);
    fs::rename(&aside, &folder).expect("a folder can be renamed");
    finish_exactly(&place);
}

#[test]
fn stop_waits_for_storage_that_comes_back_in_time() {
    let (place, mut process) = running(SLOWEST);
    let (folder, aside) = (place.path("checkpoints/manifests"), place.path("aside"));
    fs::rename(&folder, &aside).expect("a folder can be renamed");
    let mut stopper = verb(&place, &["stop", "job.yaml", "--timeout", "2m"]);
    assert!(process.says("[W0521]", 1, HANGS), "{}", process.log());
    let status = status(&place);
    assert!(
        status["checkpoint"]["failed_in_a_row"].as_u64() > Some(0),
        "{status:#}"
    );
    assert!(
        status["checkpoint"]["last_failure"].is_string(),
        "{status:#}"
    );
    fs::rename(&aside, &folder).expect("a folder can be renamed");
    let exit = stopper.end();
    assert_eq!(exit.code(), Some(0), "{}\n{}", exit.text(), exit.log);
    process.end().expect(0, &["job ledger stopped"]);
    finish_exactly(&place);
}

/// A job whose guest never returns.
fn stuck() -> (Place, Process) {
    let place = Place::temporary();
    place.write_job(
        "version: 1\njob: stuck\nparallelism: 1\ncheckpoint: {dir: checkpoints, interval: 50ms}\n\
         sources: {in: {generator: {records: 10}}}\n\
         operators: {loop: {component: @weir_guest_probe, inputs: {keyed: in, unkeyed: in}, config: process loop}}\n\
         sinks: {out: {input: loop, file: {dir: out/lines}}}\n",
    );
    let mut process = place.start(&Start::default());
    assert!(process.says("fresh start", 1, HANGS), "{}", process.log());
    process.within(Duration::from_millis(300));
    (place, process)
}

#[test]
fn a_guest_that_does_not_return_is_seen_and_named() {
    let (place, mut process) = stuck();
    let until = Instant::now() + HANGS;
    loop {
        let status = status(&place);
        let task = &status["tasks"][1];
        let stuck = task["doing"] == "calling" && task["doing_seconds"].as_f64() > Some(0.2);
        // A checkpoint is begun when there is a source left to begin it at.
        if stuck {
            assert_eq!(task["name"], "loop+out[0]");
            break;
        }
        assert!(Instant::now() < until, "{status:#}\n{}", process.log());
    }
    process.signal(Signal::USR1);
    assert!(
        process.says("report: loop+out[0] is in a call for", 1, HANGS),
        "{}",
        process.log()
    );
    assert!(
        process.log().contains("report: in[0] has ended"),
        "{}",
        process.log()
    );
    let exit = place.weir(&["stop", "job.yaml", "--timeout", "700ms"]);
    assert_eq!(exit.code(), Some(6), "{}\n{}", exit.text(), exit.log);
    for said in [
        "no last checkpoint within 0.7 s",
        "loop+out[0] has been in a call of `loop` for ",
    ] {
        assert!(exit.text().contains(said), "no `{said}` in {}", exit.text());
    }
    process.end().expect(6, &[]);
}

#[test]
fn a_signal_after_a_patient_stop_is_as_impatient_as_ever() {
    let (place, mut process) = stuck();
    let mut stopper = verb(&place, &["stop", "job.yaml", "--timeout", "1h"]);
    assert!(
        process.says("stopping after a last checkpoint", 1, HANGS),
        "{}",
        process.log()
    );
    process.signal(Signal::TERM);
    // Sooner another one would count as the same.
    process.within(Duration::from_millis(1_100));
    assert!(
        process.is_running(),
        "the first signal is no second one:\n{}",
        process.log()
    );
    let began = Instant::now();
    process.signal(Signal::TERM);
    process
        .end()
        .expect(6, &["stopped at once by a second signal"]);
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    // Nobody was left to tell how it ended.
    stopper
        .end()
        .expect(6, &["error[W0308]", "ended without an answer"]);
}

#[test]
fn clients_at_once_and_garbage_on_the_socket_disturb_nothing() {
    let (place, mut process) = running(SLOWEST);
    let mode = fs::metadata(socket(&place))
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let connect = || UnixStream::connect(socket(&place)).expect("it listens");
    // Some say nothing until the job ends.
    let silent: Vec<_> = (0..10).map(|_| connect()).collect();
    for garbage in [
        &b"\n"[..],
        b"GET /metrics HTTP/1.1\r\n\r\n",
        b"{\"v\":1,\"verb\":\"swap\"}\n",
        b"{\"v\":9,\"verb\":\"stop\",\"within_ms\":0}\n",
        b"\xff\xfe\0\n",
        &[b'x'; 100_000],
        b"{\"v\":1,\"verb\":\"sta",
    ] {
        let mut client = connect();
        // It may be cut off in the middle.
        let _ = client.write_all(garbage);
        let _ = client.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        if !answer.is_empty() {
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            assert_eq!(answer["error"]["code"], "W0308", "{answer}");
        }
    }
    for _ in 0..100 {
        // Gone before it is looked at.
        drop(connect());
    }
    let clients: Vec<_> = (0..8)
        .map(|_| verb(&place, &["status", "job.yaml", "--json"]))
        .collect();
    for mut client in clients {
        let exit = client.end();
        assert_eq!(exit.code(), Some(0), "{}", exit.log);
        let status: Value = serde_json::from_slice(&exit.out).expect("JSON");
        assert_eq!(status["state"], "running");
    }
    let before = process.log().matches("committed").count();
    assert!(
        process.says("committed", before + 2, HANGS),
        "{}",
        process.log()
    );
    drop(silent);
    stop(process);
    assert!(!socket(&place).exists(), "it is removed");
    finish_exactly(&place);
}

#[track_caller]
fn no_job(exit: &Exit) {
    exit.expect(75, &["error[W0307]", "no job runs with the data directory"]);
}

#[test]
fn where_no_job_runs_it_is_said_and_a_killed_ones_socket_is_no_job() {
    let place = half_done();
    no_job(&place.weir(&["status", "job.yaml"]));
    no_job(&place.weir(&["stop", "job.yaml"]));
    place
        .weir(&["status", "nowhere.yaml"])
        .expect(2, &["error[W0101]", "nowhere.yaml"]);
    let mut process = started(&place, &Start::default());
    process.kill();
    assert!(socket(&place).exists(), "it was killed");
    no_job(&place.weir(&["status", "job.yaml"]));
    let process = started(&place, &Start::default());
    assert_eq!(status(&place)["state"], "running");
    stop(process);
    finish_exactly(&place);
}

#[test]
fn a_process_that_stands_still_is_said_not_to_answer() {
    let (place, mut process) = running(SLOWEST);
    process.signal(Signal::STOP);
    place.weir(&["status", "job.yaml"]).expect(
        75,
        &["error[W0308]", "did not answer within 10 s", "help: "],
    );
    process.signal(Signal::CONT);
    assert_eq!(status(&place)["state"], "running");
    stop(process);
}

#[test]
fn a_job_is_found_by_its_data_directory_however_deep_and_without_its_variables() {
    let place = Place::temporary();
    place.write_job(&text(SLOW).replace("job: ledger", "job: ${WEIR_TEST_NAME:-ledger}"));
    let deep = place
        .path(&format!("{}/{}", "d".repeat(90), "e".repeat(90)))
        .display()
        .to_string();
    let process = started(&place, &Start::with(&["--data-dir", &deep]));
    for args in [
        &["status", "job.yaml", "--data-dir", &deep][..],
        &["status", &deep],
    ] {
        let exit = place.weir(args);
        assert_eq!(exit.code(), Some(0), "{}", exit.log);
        assert!(
            exit.text().contains("job ledger: running"),
            "{}",
            exit.text()
        );
    }
    no_job(&place.weir(&["status", "job.yaml"]));
    let with_state_directory = |verb: &str| {
        let mut command: Command = place.command();
        command
            .args([verb, "job.yaml"])
            .env("STATE_DIRECTORY", &deep);
        place.spawn(&mut command).end()
    };
    // Whoever asks need not know the variables of the job, nor must the rest of the file still be right.
    let more = text(SLOW) + "  more: {input: numbers, file: {dir: \"${UNSET}\"}}\nnonsense: 1\n";
    place.write_job(&more);
    assert_eq!(with_state_directory("status").code(), Some(0));
    assert_eq!(with_state_directory("stop").code(), Some(0));
    let mut process = process;
    process.end().expect(0, &["job ledger stopped"]);
}

fn endless(place: &Place) -> Process {
    place.write_job(
        "version: 1\njob: endless\nsources: {in: {generator: {records: unbounded}, rate: 100}}\n\
         sinks: {out: {input: in, blackhole: {}}}\n",
    );
    let mut process = place.start(&Start::default());
    assert!(process.says("fresh start", 1, HANGS), "{}", process.log());
    process
}

#[test]
fn a_job_without_checkpoints_is_shown_stopped_and_refused_a_second_time() {
    let place = Place::temporary();
    let mut first = endless(&place);
    let pid = format!("pid {}", first.pid().as_raw_nonzero());
    place.run().expect(4, &["error[W0501]", &pid, "--data-dir"]);
    let elsewhere = place.path("elsewhere").display().to_string();
    let mut second = place.start(&Start::with(&["--data-dir", &elsewhere]));
    assert!(second.says("fresh start", 1, HANGS), "{}", second.log());
    let exit = place.weir(&["status", "job.yaml"]);
    assert!(
        exit.text().contains("takes no checkpoints"),
        "{}{}",
        exit.text(),
        exit.log
    );
    let exit = place.weir(&["stop", "job.yaml"]);
    assert_eq!(exit.code(), Some(6), "{}", exit.log);
    first.end().expect(6, &[]);
    assert!(second.is_running());
    assert_eq!(place.weir(&["stop", &elsewhere]).code(), Some(6));
    second.end().expect(6, &[]);
}

#[test]
fn a_job_without_checkpoints_runs_without_a_place_for_its_socket() {
    let place = Place::temporary();
    place.write("file", "in the way");
    place.write_job(
        "version: 1\njob: short\nsources: {in: {generator: {records: 10}}}\n\
         sinks: {out: {input: in, blackhole: {}}}\n",
    );
    let exit = place.run_with(&Start::with(&["--data-dir", "file/below"]));
    exit.expect(0, &["[W0305]", "no control socket", "finished"]);
}

#[test]
fn the_state_is_shown_while_a_job_waits_for_its_next_attempt() {
    let place = Place::temporary();
    place.write("in/lines.jsonl", "{\"k\": \"a\"}\n");
    place.write_job(
        "version: 1\njob: ledger\nparallelism: 1\ncheckpoint: {dir: checkpoints, interval: 50ms}\n\
         restart: {strategy: fixed, delay: 1h, give_up_after: 10}\n\
         sources: {in: {file: {paths: [in/lines.jsonl], format: json}, key: /k}}\n\
         operators: {probe: {component: @weir_guest_probe, inputs: {keyed: in, unkeyed: in}, config: process fault}}\n\
         sinks: {out: {input: probe.kept, file: {dir: out/kept}}}\n",
    );
    let mut process = place.start(&Start::default());
    assert!(process.says("restarting in", 1, HANGS), "{}", process.log());
    let status = status(&place);
    assert_eq!(status["state"], "restarting", "{status:#}");
    assert_eq!(status["restarts"]["total"], 1);
    let error = status["restarts"]["last_error"].as_str().expect("an error");
    assert!(error.starts_with("[W0401] operator `probe`"), "{error}");
    assert!(
        status["restarts"]["next_in_seconds"].as_f64() > Some(3_000.0),
        "{status:#}"
    );
    let exit = place.weir(&["stop", "job.yaml"]);
    assert_eq!(exit.code(), Some(6), "{}", exit.log);
    assert!(
        exit.text().contains("without a last checkpoint"),
        "{}",
        exit.text()
    );
    process
        .end()
        .expect(6, &["stopped while waiting to restart"]);
}

#[test]
fn a_report_on_sigusr1_says_what_every_subtask_does() {
    let (place, mut process) = running(SLOWEST);
    process.signal(Signal::USR1);
    assert!(
        process.says("report: ledger+windows+lines[1]", 1, HANGS),
        "{}",
        process.log()
    );
    let log = process.log();
    for said in [
        "report: running; ",
        "report: numbers[0] ",
        "bytes queued; passed barrier ",
    ] {
        assert!(log.contains(said), "no `{said}` in\n{log}");
    }
    let before = log.matches("committed").count();
    assert!(process.says("committed", before + 1, HANGS), "it goes on");
    stop(process);
    finish_exactly(&place);
}
