//! The examples' jobs commit what is computed here from their data in another way: all of it at once, sorted, without operators,
//! state, timers or watermarks. At the parallelism of the job file and at another one.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
#[cfg(feature = "kafka")]
use weir_tests::kafka::{Broker, Isolation, Record, Topics};
use weir_tests::output;
use weir_tests::walkthrough::Walk;

/// Runs the example's job at two parallelisms, and has `check` look at each result.
fn run(name: &str, check: impl Fn(&Walk)) {
    for parallelism in ["2", "3"] {
        let walk = Walk::begin(Path::new(env!("CARGO_TARGET_TMPDIR")));
        let job = format!("examples/{name}/job.yaml");
        let arguments = ["run", "--no-progress", "--parallelism", parallelism, &job];
        let ran = walk.weir().args(arguments).output().expect("weir runs");
        let log = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{log}");
        check(&walk);
    }
}

/// What a sink of the example committed, as JSON, in a fixed order.
fn committed(walk: &Walk, dir: &str) -> Vec<Value> {
    let lines = output::committed(&walk.path(&format!("examples/{dir}")));
    let values = lines.iter().map(|line| serde_json::from_str(line));
    let values = values.collect::<Result<Vec<Value>, _>>();
    sorted(values.expect("the sinks write JSON"))
}

fn sorted(mut values: Vec<Value>) -> Vec<Value> {
    values.sort_by_cached_key(Value::to_string);
    values
}

/// A file of JSON Lines of an example.
fn data(walk: &Walk, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(walk.path(&format!("examples/{file}"))).expect("it is there");
    let values = text.lines().map(serde_json::from_str);
    values.collect::<Result<_, _>>().expect("they are JSON")
}

/// Seconds into the day: all of the made up data is of one day.
fn seconds(row: &Value, field: &str) -> i64 {
    let time = text(row, field);
    let (day, clock) = time.split_once('T').expect("RFC 3339");
    assert_eq!(day, "2026-03-02");
    let part = |at: usize| clock[at..at + 2].parse::<i64>().expect("a number");
    part(0) * 3_600 + part(3) * 60 + part(6)
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().expect("a text")
}

#[test]
fn words_are_counted() {
    let walk = Walk::begin(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let hamlet = walk.path("examples/wordcount/data/hamlet.txt");
    let mut weir = walk.weir();
    weir.args(["run", "examples/wordcount/job.yaml"])
        .stdin(File::open(&hamlet).expect("it is there"))
        .stderr(Stdio::null());
    let ran = weir.output().expect("weir runs");
    let said = String::from_utf8(ran.stdout).expect("words are text");
    let mut lines: Vec<_> = said.lines().map(str::to_owned).collect();
    lines.sort_unstable();

    let text = fs::read_to_string(hamlet)
        .expect("it is text")
        .to_lowercase();
    let mut counts = BTreeMap::new();
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_alphanumeric() || c == '\'' {
            word.push(c);
        } else if !word.is_empty() {
            *counts.entry(std::mem::take(&mut word)).or_insert(0) += 1;
        }
    }
    let mut expected: Vec<_> = counts
        .iter()
        .map(|(word, n)| format!("{word}\t{n}"))
        .collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

/// Clicks that are so many later in the file than one that makes them late are late for certain: see below.
const CERTAINLY: usize = 60;

#[test]
fn sessions_are_those_of_the_sorted_clicks_and_the_late_ones_are_apart() {
    run("sessions", |walk| {
        let mut in_time: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
        let mut late = Vec::new();
        // The highest time of the clicks up to each one.
        let mut highest = Vec::new();
        for click in data(walk, "sessions/data/clicks.jsonl") {
            let time = seconds(&click, "at");
            let is_late = |highest: i64| time < highest - 5 * 60;
            let latest: i64 = highest.last().copied().unwrap_or(0);
            if is_late(latest) {
                // Event time is told every 50 ms. The source reads 100 clicks a second, and 25 at once at most, so it has been told
                // between two clicks that are this far apart, on any machine.
                let before = highest.len().checked_sub(CERTAINLY);
                assert!(before.is_some_and(|at| is_late(highest[at])), "{click}");
                late.push(click);
            } else {
                let of_user = in_time.entry(text(&click, "user").to_owned()).or_default();
                of_user.push((time, text(&click, "at").to_owned()));
            }
            highest.push(latest.max(time));
        }
        assert_eq!(late.len(), 3);
        assert_eq!(committed(walk, "sessions/out-late"), sorted(late));

        let mut sessions = Vec::new();
        for (user, mut clicks) in in_time {
            clicks.sort();
            for session in clicks.chunk_by(|a, b| b.0 - a.0 <= 30 * 60) {
                sessions.push(json!({
                    "user": user,
                    "from": session[0].1,
                    "minutes": (session[session.len() - 1].0 - session[0].0) / 60,
                    "clicks": session.len(),
                }));
            }
        }
        assert_eq!(committed(walk, "sessions/out"), sorted(sessions));
    });
}

#[test]
fn orders_have_the_first_payment_within_the_hour() {
    run("payments", |walk| {
        let mut payments = data(walk, "payments/data/payments.jsonl");
        let mut paid = Vec::new();
        let mut unmatched = Vec::new();
        for order in data(walk, "payments/data/orders.jsonl") {
            let placed = seconds(&order, "placed");
            let fits = |payment: &Value| {
                let after = seconds(payment, "paid") - placed;
                payment["order"] == order["order"] && (0..=3_600).contains(&after)
            };
            match payments.iter().position(fits) {
                Some(at) => {
                    let payment = payments.remove(at);
                    paid.push(json!({
                        "order": order["order"],
                        "customer": order["customer"],
                        "amount": order["amount"],
                        "method": payment["method"],
                        "minutes": (seconds(&payment, "paid") - placed) / 60,
                    }));
                }
                None => unmatched.push(json!({
                    "order": order["order"], "missing": "payment", "at": order["placed"],
                })),
            }
        }
        for payment in payments {
            unmatched.push(json!({
                "order": payment["order"], "missing": "order", "at": payment["paid"],
            }));
        }
        assert!(paid.len() > 20 && unmatched.len() > 5, "both kinds occur");
        assert_eq!(committed(walk, "payments/out-paid"), sorted(paid));
        assert_eq!(committed(walk, "payments/out-unmatched"), sorted(unmatched));
    });
}

/// An airport's day.
#[derive(Debug, Default)]
struct Day {
    delays: Vec<i64>,
    no_departure: usize,
}

#[test]
fn days_are_summed_up_over_all_flights() {
    run("flights", |walk| {
        let mut days: HashMap<(String, String), Day> = HashMap::new();
        for month in 1..=12 {
            let file = format!("examples/flights/data/flights-2013-{month:02}.csv.zst");
            let file = File::open(walk.path(&file)).expect("it is there");
            let rows = zstd::decode_all(file).expect("it is zstd");
            let rows = String::from_utf8(rows).expect("it is text");
            for row in rows.lines().skip(1) {
                let fields: Vec<_> = row.split(',').collect();
                let [day, _, _, _, origin, _, delay, _] = fields[..] else {
                    panic!("not the columns of its README: {row}");
                };
                let day = days.entry((origin.to_owned(), day.to_owned())).or_default();
                match delay {
                    "NA" => day.no_departure += 1,
                    minutes => day.delays.push(minutes.parse().expect("a number")),
                }
            }
        }
        let lines = committed(walk, "flights/out");
        assert_eq!(lines.len(), days.len());
        for line in lines {
            let at = (
                text(&line, "airport").to_owned(),
                text(&line, "day").to_owned(),
            );
            // Removed, so that a day that comes twice is found.
            let day = days.remove(&at).unwrap_or_else(|| panic!("{line}"));
            let flights = day.delays.len();
            assert_eq!(line["flights"], flights, "{line}");
            assert_eq!(line["no_departure"], day.no_departure, "{line}");
            assert_eq!(
                line["max_delay"].as_i64(),
                day.delays.iter().max().copied(),
                "{line}"
            );
            let late = day.delays.iter().filter(|minutes| **minutes > 15).count();
            for (field, sum, digits) in [
                ("mean_delay", day.delays.iter().sum::<i64>(), 0.01),
                ("late_share", late as i64, 0.001),
            ] {
                let said = line[field]
                    .as_f64()
                    .expect("every day has flights that left");
                let off = (said * flights as f64 - sum as f64).abs() / flights as f64;
                assert!(
                    off <= digits / 2.0 + 1e-9,
                    "{field} of {line}: off by {off}"
                );
            }
        }
    });
}

/// What the script of the example makes up, as records with headers, for four partitions.
#[cfg(feature = "kafka")]
fn events(walk: &Walk, arguments: &[&str]) -> Vec<Record> {
    let mut script = std::process::Command::new(walk.path("examples/fraud/events"));
    let made = script.args(arguments).output().expect("there is Python");
    assert!(made.status.success(), "{made:?}");
    let made = String::from_utf8(made.stdout).expect("events are text");
    let record = |line: &str| {
        let mut fields = line.splitn(3, '\t');
        let mut field = || fields.next().expect("header, key and value");
        let (name, contents) = field().split_once(':').expect("name and contents");
        let key = field();
        let partition = key.bytes().map(i32::from).sum::<i32>() % 4;
        Record::to(partition)
            .header(name, Some(contents.as_bytes()))
            .key(key)
            .value(field())
    };
    made.lines().map(record).collect()
}

/// The alerts about what is in `payments`, without their owners, and the records that are no payments.
#[cfg(feature = "kafka")]
fn flagged(payments: &[Record]) -> (Vec<Value>, Vec<&Record>) {
    let mut damaged = Vec::new();
    let mut declined: BTreeMap<String, Vec<(i64, Value)>> = BTreeMap::new();
    for record in payments {
        let payment: Value = serde_json::from_str(&record.text()).unwrap_or_default();
        let Some(at) = payment["at"].as_str() else {
            damaged.push(record);
            continue;
        };
        let millis = seconds(&payment, "at") * 1_000 + at[20..23].parse::<i64>().expect("a number");
        if payment["outcome"] == "declined" {
            let of_card = declined.entry(record.key_text()).or_default();
            of_card.push((millis, payment));
        }
    }
    let mut alerts = Vec::new();
    for (card, mut declined) in declined {
        declined.sort_by_key(|(millis, _)| *millis);
        let mut rest = &declined[..];
        while let [first, second, third, after @ ..] = rest {
            if third.0 - first.0 > 60_000 {
                rest = &rest[1..];
                continue;
            }
            rest = after;
            let three = [&first.1, &second.1, &third.1];
            alerts.push(json!({
                "account": first.1["account"],
                "card": card,
                "declined": 3,
                "amount": three.iter().filter_map(|it| it["amount"].as_u64()).sum::<u64>(),
                "from": first.1["at"],
                "to": third.1["at"],
                "payments": three.map(|it| &it["id"]),
            }));
        }
    }
    (alerts, damaged)
}

/// By the job of the example, but that it ends when it has read all there is, and that its topics are of this test alone.
#[cfg(feature = "kafka")]
#[test]
fn cards_are_flagged_as_if_their_payments_had_come_in_order() {
    let walk = Walk::begin(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let job = walk.path("examples/fraud/job.yaml");
    let shipped = fs::read_to_string(&job).expect("it is there");
    let accounts = events(&walk, &["accounts"]);
    let payments = events(&walk, &["payments"]);
    let (mut alerts, damaged) = flagged(&payments);
    for alert in &mut alerts {
        let known = |record: &&Record| record.key_text() == text(alert, "account");
        let account = accounts.iter().find(known).map(Record::text);
        let account: Value = account.map_or(Value::Null, |text| {
            serde_json::from_str(&text).expect("it is JSON")
        });
        alert["owner"] = account["owner"].clone();
        alert["email"] = account["email"].clone();
    }
    let strangers = alerts.iter().filter(|alert| alert["owner"].is_null());
    assert!(alerts.len() > 15 && strangers.count() == 3, "both occur");
    let alerts = sorted(alerts);

    for parallelism in ["2", "3"] {
        let broker = Broker::shared();
        let topics = Topics::named(broker, "fraud");
        for topic in ["payments", "accounts", "alerts", "rejects"] {
            topics.create(topic, 4);
        }
        topics.produce("accounts", &accounts);
        topics.produce("payments", &payments);
        let own = shipped
            .replace("job: fraud", &format!("job: {}job", topics.prefix()))
            .replace("topic: ", &format!("topic: {}", topics.prefix()))
            .replace("format: json}", "format: json, stop: latest}");
        fs::write(&job, own).expect("it is ours");
        let mut weir = walk.weir();
        weir.env("KAFKA", broker.address())
            .args(["run", "--no-progress", "--parallelism", parallelism])
            .arg(&job);
        let ran = weir.output().expect("weir runs");
        let log = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{log}");
        assert!(log.contains("late 0, skipped 0, "), "{log}");

        let said = topics.read("alerts", Isolation::Committed);
        let said = said
            .iter()
            .map(|record| serde_json::from_str(&record.text()));
        let said: Result<Vec<Value>, _> = said.collect();
        assert_eq!(sorted(said.expect("alerts are JSON")), alerts);
        let as_it_came = |record: &Record| (record.key.clone(), record.value.clone());
        let mut rejects: Vec<_> = topics
            .read("rejects", Isolation::Committed)
            .iter()
            .map(as_it_came)
            .collect();
        rejects.sort();
        let mut expected: Vec<_> = damaged.iter().map(|record| as_it_came(record)).collect();
        expected.sort();
        assert_eq!(rejects, expected);
    }
}
