//! Jobs that share a commit topic: what one of them does there is no hindrance to others.

use std::time::{Duration, Instant};

use weir_tests::place::{Place, Start};

use crate::fixture::Scene;

/// How long a start may take on a busy machine. Checkpoints of the neighbour come a hundred times as often.
const START: Duration = Duration::from_secs(15);

fn job(job: &str, records: &str) -> String {
    format!(
        "version: 1
job: <{job}>
checkpoint: {{dir: checkpoints, interval: 20ms}}
sources:
  in: {{generator: {{records: {records}}}, rate: 1000}}
sinks:
  out: {{input: in, kafka: {{brokers: <brokers>, topic: <out>, commit_topic: <commits>}}}}
"
    )
}

#[test]
fn a_job_starts_while_its_neighbour_commits_all_the_time() {
    let scene = Scene::new("neighbours");
    scene.topics.create("out", 1);
    // One partition for both.
    scene.topics.create("commits", 1);
    scene.write_job(&job("busy", "unbounded"));
    let mut busy = scene.place.start(&Start::default());
    assert!(busy.says("checkpoint 20 committed", 1, weir_tests::host::HANGS));

    let place = Place::temporary();
    place.write_job(&scene.filled_in(&job("other", "1")));
    let began = Instant::now();
    place.run().expect(0, &["fresh start", "finished"]);
    // A marker of its own is looked for behind those of the other one, at the start and for a second time once it has claimed the job.
    place.run().expect(0, &["finished already"]);
    place
        .run_with(&Start::with(&["--fresh", "--accept-duplicates"]))
        .expect(0, &["fresh start"]);
    let took = began.elapsed();
    assert!(busy.is_running(), "{}", busy.log());
    busy.kill();
    assert!(took < 3 * START, "three starts took {took:?}");
}
