//! Every code there is. A code is given once, for good: a retired one stays listed, so that it is never given again.
//!
//! | range | about |
//! |---|---|
//! | W01xx | the job file |
//! | W02xx | components |
//! | W03xx | start, connectors |
//! | W04xx | operators at run time |
//! | W05xx | checkpoints and recovery |
//! | W06xx | sources |
//! | W07xx | sinks |
//! | W08xx | writing operators |
//! | W09xx | Kafka |

/// Codes and their meanings in a line, ascending.
pub const CODES: &[(&str, &str)] = &[
    ("W0101", "the job file cannot be read"),
    ("W0102", "a field that does not exist there"),
    ("W0103", "something that a later release will support"),
    ("W0104", "a field is missing"),
    ("W0105", "a value of the wrong type"),
    (
        "W0106",
        "the job file is not YAML, or uses a part of YAML that job files do without",
    ),
    ("W0107", "a key stands twice in the same place"),
    ("W0108", "a `${VARIABLE}` is not set or not well formed"),
    ("W0109", "a value is malformed or out of its range"),
    (
        "W0110",
        "the job file has a version that this release does not read",
    ),
    (
        "W0111",
        "an id is used by two of the sources, operators and sinks",
    ),
    (
        "W0112",
        "an input names something that does not exist or has no such output",
    ),
    ("W0113", "operators feed each other in a circle"),
    (
        "W0114",
        "a source or operator that nothing reads, or a sink that nothing feeds",
    ),
    ("W0115", "dead letters go to something that is not a sink"),
    ("W0116", "two parts of the job use the same directory"),
    (
        "W0117",
        "parallelism is 0, above the maximum, or not possible there",
    ),
    ("W0118", "times that contradict each other"),
    ("W0119", "a delivery that a source or sink cannot give"),
    ("W0120", "fields that do not go together"),
    ("W0121", "no connector, or more than one"),
    ("W0122", "an exchange that is not possible there"),
    ("W0123", "the job file is larger than the limits allow"),
    ("W0124", "a connector that this weir was built without"),
    ("W0125", "a Kafka topic that a job uses for two things"),
    (
        "W0126",
        "Kafka sinks that cannot write in the same transactions",
    ),
    (
        "W0127",
        "a Kafka property that is not for a job file to set",
    ),
    (
        "W0200",
        "the WebAssembly engine does not start on this machine",
    ),
    ("W0201", "a component's file cannot be read"),
    ("W0202", "a component is not the pinned one"),
    ("W0203", "compiled operators cannot be kept on disk"),
    ("W0204", "a component's file changed under a running job"),
    (
        "W0210",
        "a file that is not a Weir operator, or not of this contract",
    ),
    (
        "W0211",
        "a component that describes itself wrongly, or fails to",
    ),
    ("W0212", "a component refuses its configuration"),
    (
        "W0213",
        "a configuration that does not fit the component's schema",
    ),
    ("W0220", "an output that a component does not have"),
    ("W0221", "an input that a component does not have"),
    ("W0222", "an input of a component that nothing feeds"),
    ("W0223", "keyed state without a keyed input"),
    ("W0224", "a forward exchange between different parallelisms"),
    (
        "W0225",
        "a keyed input that would not get each key in one place",
    ),
    ("W0301", "a fault of Weir itself, or of the system under it"),
    ("W0302", "the data directory cannot be used"),
    (
        "W0304",
        "a thread could not be started or a snapshot not stored",
    ),
    ("W0305", "a run without a control socket"),
    ("W0306", "metrics cannot be served"),
    ("W0307", "no job runs there"),
    (
        "W0308",
        "a running job that does not answer, or not as asked",
    ),
    ("W0309", "restarts are not counted over processes"),
    ("W0401", "a call of an operator failed"),
    ("W0402", "a record without a key at a keyed input"),
    ("W0403", "state could not be read, written or restored"),
    ("W0404", "a record that an operator failed on was set aside"),
    ("W0405", "state does not fit into memory"),
    ("W0501", "another process on this machine runs the job"),
    ("W0502", "another host took the job over"),
    (
        "W0503",
        "committed output, but nothing in checkpoint storage",
    ),
    ("W0504", "checkpoint storage was rolled back"),
    ("W0505", "output was rolled back"),
    ("W0506", "output is gone"),
    ("W0507", "a committed part is missing or changed"),
    ("W0508", "the manifest of the last checkpoint is missing"),
    (
        "W0509",
        "the manifest of the last checkpoint cannot be used",
    ),
    ("W0510", "the commit log is damaged"),
    ("W0511", "checkpoint storage is half deleted"),
    ("W0512", "checkpoint storage of another job"),
    ("W0513", "checkpoint storage whose owner cannot be read"),
    ("W0514", "output of another history of the job"),
    ("W0515", "a witness that cannot be read"),
    ("W0516", "`--fresh` over committed output"),
    ("W0517", "the number of key groups changed"),
    ("W0518", "a state file is missing or damaged"),
    ("W0519", "checkpoint storage cannot be reached"),
    ("W0521", "a checkpoint failed and was skipped"),
    ("W0522", "no checkpoint for too long"),
    ("W0523", "whether a checkpoint was committed is not known"),
    ("W0524", "committed output could not be published"),
    ("W0525", "too little space for checkpoints"),
    ("W0526", "the checkpoint holds what the job does not have"),
    (
        "W0527",
        "an operator does not fit its state in the checkpoint",
    ),
    ("W0528", "the wall clock is not trusted"),
    (
        "W0530",
        "a checkpoint that carries a transaction could not be taken",
    ),
    ("W0531", "the marker in Kafka is gone"),
    ("W0532", "the marker in Kafka is older than the commit log"),
    ("W0533", "a marker in Kafka that cannot be read"),
    ("W0534", "the commit topic was created again"),
    (
        "W0535",
        "the last checkpoint may be known only elsewhere in Kafka",
    ),
    ("W0536", "an output topic was created again"),
    ("W0601", "a source cannot be read"),
    ("W0602", "input that cannot be decoded"),
    ("W0603", "input changed under the job"),
    ("W0604", "a source's settings do not fit its input"),
    ("W0605", "what is watched cannot be looked at"),
    ("W0701", "a sink cannot be written"),
    ("W0702", "a record that a sink cannot write"),
    ("W0703", "a sink's directory cannot be used"),
    ("W0704", "staged output is not what was recorded"),
    ("W0705", "standard output was closed by its reader"),
    (
        "W0706",
        "a record that a Kafka sink cannot write was set aside",
    ),
    ("W0707", "records could not be delivered to Kafka"),
    ("W0708", "a topic that a sink writes to does not exist"),
    (
        "W0709",
        "a transaction may not last as long as the job needs",
    ),
    ("W0710", "sinks that do not fit into one transaction"),
    ("W0711", "a topic that may lose what was acknowledged"),
    ("W0801", "a project that cannot be created"),
    ("W0802", "a folder that is not an operator's project"),
    ("W0803", "the tools to build an operator are missing"),
    ("W0804", "an operator that was not built"),
    ("W0805", "a line that `weir try` does not understand"),
    ("W0901", "Kafka cannot be reached"),
    ("W0902", "Kafka refuses who we are, or what we may do"),
    ("W0903", "settings that the Kafka client does not take"),
    ("W0904", "a secret that is not there"),
    ("W0905", "Kafka could not do what it was asked for"),
    ("W0906", "a job without transactions in Kafka"),
    ("W0907", "a job of which nothing here tells whether it runs"),
];

/// What `code` means, if there is such a code.
pub fn meaning(code: &str) -> Option<&'static str> {
    CODES
        .iter()
        .find(|(known, _)| *known == code)
        .map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_well_formed_ascending_and_so_unique() {
        assert!(CODES.iter().all(|(code, _)| {
            code.len() == 5
                && code.starts_with('W')
                && code[1..].bytes().all(|byte| byte.is_ascii_digit())
        }));
        assert!(CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
