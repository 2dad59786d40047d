//! Brokers that do not let everybody in, and do not allow everything: what is said then, and that it is enough to go by.

use weir_tests::host::{Exit, HANGS};
use weir_tests::kafka::{Broker, Isolation, Options, PASSWORD, Record, USERS, tools};
use weir_tests::place::Start;

use crate::copying::{Copying, JOB, stop, wait_for};
use crate::fixture::Scene;

/// The lines of a connection to `broker` as `user`, behind `brokers: `.
fn connection(scene: &Scene<'_>, user: &str, mechanism: &str) -> String {
    let broker = scene.topics.broker();
    let password = scene.place.write("password", PASSWORD);
    format!(
        "{}, tls: {{ca: {}}}, sasl: {{mechanism: {mechanism}, username: {user}, password: {{file: {}}}}}",
        broker.sasl_address(),
        broker.certificates().authority.display(),
        password.display()
    )
}

/// The job, whose source and sink come as `user`.
fn write_job(job: &Copying<'_>, user: &str, mechanism: &str) {
    let connection = connection(&job.scene, user, mechanism);
    let lines = connection
        .replace(", tls:", "\n      tls:")
        .replace(", sasl:", "\n      sasl:");
    let text = JOB
        .replace("brokers: <brokers>", &format!("brokers: {connection}"))
        .replace("brokers: BROKERS", &format!("brokers: {lines}"));
    job.write_job(&text);
}

/// The commands in a log.
fn commands(exit: &Exit) -> Vec<String> {
    let lines = exit
        .log
        .lines()
        .filter_map(|line| line.find("kafka-acls").map(|at| &line[at..]));
    lines.map(str::to_owned).collect()
}

/// Runs a command that a message has, as somebody who may.
fn run(broker: &Broker, command: &str) {
    let mut arguments: Vec<String> = command
        .split(' ')
        .skip(1)
        .map(|argument| argument.trim_matches('\'').to_owned())
        .collect();
    let at = arguments.iter().position(|it| it == "--bootstrap-server");
    arguments[at.expect("it says where") + 1] = broker.address().to_owned();
    tools::run("org.apache.kafka.tools.AclCommand", &arguments)
        .unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn what_is_not_permitted_is_granted_by_the_commands_that_are_said() {
    let Some(broker) = Broker::own(&Options::default().access_control()) else {
        return;
    };
    let job = Copying::on(&broker, "granted");
    write_job(&job, USERS[0], "PLAIN");
    let mut granted: Vec<String> = Vec::new();
    // Whatever is missing, all that the source or the sink needs is said at once.
    for _ in 0..2 {
        let exit = job.scene.place.run();
        exit.expect(3, &["error[W0902]", "what the job needs is granted by"]);
        let new = commands(&exit);
        assert!(new.iter().any(|it| !granted.contains(it)), "{}", exit.log);
        new.iter().for_each(|command| run(&broker, command));
        granted.extend(new);
    }
    job.goes_on_exactly();
    let group = format!("weir-{}", job.scene.topics.name("job"));
    let topic = job.scene.topics.name("in");
    let committed = weir_tests::kafka::groups::committed(&broker, &group, &topic);
    assert_eq!(committed.len(), 2, "{committed:?}");

    // The other user may do everything but what a claim needs.
    let (out, commits) = (
        job.scene.topics.name("out"),
        job.scene.topics.name("commits"),
    );
    let write_and_look = ["--operation", "Write", "--operation", "Describe"];
    let read_and_look = ["--operation", "Read", "--operation", "Describe"];
    let guest = USERS[1];
    broker.allow(guest, &[&read_and_look[..], &["--topic", &topic]].concat());
    broker.allow(guest, &[&write_and_look[..], &["--topic", &out]].concat());
    broker.allow(
        guest,
        &[&read_and_look[..], &["--topic", &commits]].concat(),
    );
    write_job(&job, guest, "PLAIN");
    let is_refused = |command: &str| {
        job.is_refused("W0902", &["kafka-acls", command]);
    };
    // Its transactions,
    is_refused(&format!(
        "--transactional-id '{}'",
        job.scene.topics.name("id")
    ));
    let ids = ["--transactional-id", &job.scene.topics.name("id")];
    let prefixed = ["--resource-pattern-type", "prefixed"];
    broker.allow(guest, &[&write_and_look[..], &ids, &prefixed].concat());
    // and its marker.
    is_refused(&format!("--topic '{commits}'"));
    broker.allow(guest, &["--operation", "Write", "--topic", &commits]);
    // It is not permitted to use the group, which nothing depends on.
    let mut process = job.start();
    let granting = format!("--operation Read --group '{group}'");
    assert!(process.says(&granting, 1, HANGS), "{}", process.log());
    job.write(20);
    job.wait(&mut process);
    stop(process);
    job.is_exact();
}

#[test]
fn a_topic_that_may_not_be_read_is_refused_with_the_command() {
    let Some(broker) = Broker::own(&Options::default().access_control()) else {
        return;
    };
    let scene = Scene::on(&broker, "may-not-read");
    let name = scene.topics.create("t", 1);
    scene.topics.produce("t", &[Record::to(0).value("x")]);
    let connection = connection(&scene, USERS[0], "SCRAM-SHA-512");
    scene.write_job(&format!(
        "version: 1
job: <job>
checkpoint: {{dir: checkpoints, interval: 100ms}}
restart: {{strategy: none}}
sources: {{in: {{kafka: {{brokers: {connection}, topic: <t>, group: <group>}}}}}}
sinks: {{out: {{input: in, file: {{dir: out/copy, roll: {{age: 0s}}}}}}}}
"
    ));
    let said = [
        "error[W0902]: source `in`",
        &format!("--operation Read --operation Describe --topic '{name}'"),
        &format!("--operation Read --group '{}'", scene.topics.name("group")),
    ];
    let said = said.map(|it| it as &str);
    scene.place.run().expect(3, &said);
    // It may look, and not read.
    broker.allow(USERS[0], &["--operation", "Describe", "--topic", &name]);
    let exit = scene.place.run();
    exit.expect(5, &said);
    broker.allow(USERS[0], &["--operation", "Read", "--topic", &name]);
    let mut process = scene.place.start(&Start::default());
    wait_for(&mut process, || scene.place.committed("copy") == ["x"]);
    stop(process);
}

#[test]
fn a_job_comes_in_by_tls_and_password_and_with_the_wrong_one_it_does_not() {
    let broker = Broker::shared();
    if broker.is_foreign("a listener with SASL") {
        return;
    }
    let job = Copying::new("secured");
    for mechanism in ["SCRAM-SHA-512", "PLAIN"] {
        write_job(&job, USERS[0], mechanism);
        job.goes_on_exactly();
    }
    let wrong = "open sesame";
    job.scene.place.write("password", wrong);
    let exit = job.is_refused("W0902", &["refuses us", &broker.sasl_address()]);
    assert!(!exit.log.contains(wrong), "{}", exit.log);
}

#[test]
fn dead_letters_to_another_cluster_are_at_least_once_and_it_is_said() {
    let Some(other) = Broker::own(&Options::default()) else {
        return;
    };
    let scene = Scene::new("two-clusters");
    let there = Scene::on(&other, "two-clusters");
    scene.topics.create("in", 1);
    scene.topics.create("out", 1);
    scene
        .topics
        .create_with("commits", 1, &[("cleanup.policy", "compact")]);
    let dead = there.topics.create("dead", 1);
    let job = format!(
        "version: 1
job: <job>
checkpoint: {{dir: checkpoints, interval: 100ms}}
sources:
  in: {{kafka: {{brokers: <brokers>, topic: <in>, format: json, stop: latest}}, on_error: {{dead_letter: dead}}}}
sinks:
  out: {{input: in, kafka: {{brokers: <brokers>, topic: <out>, commit_topic: <commits>}}}}
  dead: {{kafka: {{brokers: {}, topic: {dead}}}}}
",
        other.address()
    );
    let good = Record::to(0).key("k").value("{}");
    let bad = Record::to(0)
        .key("k")
        .value("{oops")
        .header("trace", Some(b"1"));
    scene.topics.produce("in", &[good.clone(), bad, good]);
    scene.write_job(&job);
    let exit = scene.place.run();
    exit.expect(0, &["warn[W0710]", "its dead letters are at least once"]);
    assert_eq!(scene.topics.read("out", Isolation::Committed).len(), 2);
    let letters = there.topics.read("dead", Isolation::Committed);
    assert_eq!(letters.len(), 1);
    assert_eq!(
        (letters[0].key_text(), letters[0].text()),
        ("k".to_owned(), "{oops".to_owned())
    );
}
