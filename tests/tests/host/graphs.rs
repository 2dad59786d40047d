//! Named outputs, several inputs, chained and exchanged edges: the same output at any parallelism.

use weir_tests::host::Host;
use weir_tests::soak::files::{Kind, Reference};

#[test]
fn every_parallelism_commits_the_same() {
    let host = Host::find().unwrap_or_else(|what| panic!("{what}"));
    let dir = tempfile::tempdir().expect("a temporary directory");
    for kind in Kind::ALL {
        let reference = Reference::make(host, &dir.path().join("2"), kind, 2);
        for parallelism in [1, 4] {
            let other = Reference::make(
                host,
                &dir.path().join(parallelism.to_string()),
                kind,
                parallelism,
            );
            for sink in kind.sinks() {
                let (left, right) = (reference.lines(sink), other.lines(sink));
                // Dead letters name their file, which lies in another folder here.
                let without = |lines: &[String], folder: &str| {
                    let folder = format!("{}/", dir.path().join(folder).display());
                    lines
                        .iter()
                        .map(|line| line.replace(&folder, ""))
                        .collect::<Vec<_>>()
                };
                let (left, right) = (without(left, "2"), without(right, &parallelism.to_string()));
                assert_eq!(
                    left,
                    right,
                    "{} `{sink}` at parallelism {parallelism}",
                    kind.name()
                );
            }
        }
    }
}
