use super::{
    Description, InputDecl, InputKind, OutputDecl, OutputKeys, StateDecl, StateKind, TimeDomain,
    TimerDecl, Ttl, TtlRenewal,
};

fn options(names: &[&str]) -> Vec<(String, String)> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), String::new()))
        .collect()
}

fn input(name: &str) -> InputDecl {
    InputDecl {
        name: name.to_owned(),
        kind: InputKind::Keyed,
        headers: false,
        options: vec![],
    }
}

fn output(name: &str) -> OutputDecl {
    OutputDecl {
        name: name.to_owned(),
        keys: OutputKeys::Kept,
        options: vec![],
    }
}

fn state(name: &str) -> StateDecl {
    StateDecl {
        name: name.to_owned(),
        kind: StateKind::Value,
        version: 3,
        migrates_from: vec![1, 2],
        ttl: Some(Ttl {
            millis: 1,
            renewal: TtlRenewal::Access,
        }),
        value_encoding: "json".to_owned(),
        entry_encoding: String::new(),
        options: vec![],
    }
}

fn timer(name: &str) -> TimerDecl {
    TimerDecl {
        name: name.to_owned(),
        domain: TimeDomain::Event,
        options: vec![],
    }
}

fn sound() -> Description {
    Description {
        name: "Daily delays".to_owned(),
        version: String::new(),
        inputs: vec![input("flights"), input("airports")],
        outputs: vec![output("ok"), output("late_1")],
        states: vec![state("count"), state("window/sum")],
        timers: vec![timer("count")],
        on_watermark: false,
        options: vec![],
    }
}

/// What `check` says of a sound description after a change.
fn refused(change: impl FnOnce(&mut Description)) -> String {
    let mut description = sound();
    change(&mut description);
    description
        .check()
        .expect_err("the change should make it unsound")
}

#[test]
fn a_sound_description_passes() {
    sound().check().unwrap();
}

#[test]
fn names_are_unique_short_and_of_a_few_characters() {
    assert_eq!(refused(|d| d.name.clear()), "its name is empty");
    assert!(refused(|d| d.version = "\n".to_owned()).contains("its version"));
    assert_eq!(
        refused(|d| d.inputs[1].name = "flights".to_owned()),
        "it declares two inputs `flights`"
    );
    assert_eq!(
        refused(|d| d.outputs[1].name = "ok".to_owned()),
        "it declares two outputs `ok`"
    );
    assert_eq!(
        refused(|d| d.states[1].name = "count".to_owned()),
        "it declares two states `count`"
    );
    assert_eq!(
        refused(|d| d.timers.push(timer("count"))),
        "it declares two timers `count`"
    );
    for name in ["", "a.b", "ä", "a b", &"x".repeat(65)] {
        assert!(
            refused(|d| d.inputs[0].name = name.to_owned()).starts_with("the name of input 0"),
            "{name}"
        );
        assert!(
            refused(|d| d.outputs[1].name = name.to_owned()).starts_with("the name of output 1"),
            "{name}"
        );
    }
    for name in ["", "a b", "a\n", &"x".repeat(65)] {
        assert!(
            refused(|d| d.states[0].name = name.to_owned()).starts_with("the name of state 0"),
            "{name}"
        );
        assert!(
            refused(|d| d.timers[0].name = name.to_owned()).starts_with("the name of timer 0"),
            "{name}"
        );
    }
}

#[test]
fn declarations_are_counted() {
    assert_eq!(refused(|d| d.inputs.clear()), "it declares no inputs");
    assert_eq!(
        refused(|d| d.outputs = (0..257).map(|i| output(&i.to_string())).collect()),
        "it declares 257 outputs; the limit is 256"
    );
    assert_eq!(
        refused(|d| d.states[0].migrates_from = (10..300).collect()),
        "state `count` migrates from more than 256 versions"
    );
}

#[test]
fn unknown_options_are_refused_everywhere() {
    let said = "has an option that this host does not know, \"retain\"";
    assert_eq!(
        refused(|d| d.options = options(&["retain"])),
        format!("it {said}")
    );
    assert_eq!(
        refused(|d| d.inputs[1].options = options(&["retain"])),
        format!("input `airports` {said}")
    );
    assert_eq!(
        refused(|d| d.outputs[0].options = options(&["retain"])),
        format!("output `ok` {said}")
    );
    assert_eq!(
        refused(|d| d.states[0].options = options(&["retain"])),
        format!("state `count` {said}")
    );
    assert_eq!(
        refused(|d| d.timers[0].options = options(&["retain"])),
        format!("timer `count` {said}")
    );
}

#[test]
fn what_is_not_supported_yet_is_refused_by_name() {
    assert_eq!(
        refused(|d| d.inputs[1].kind = InputKind::Broadcast),
        "input `airports` is broadcast, which is not supported yet"
    );
    assert_eq!(
        refused(|d| d.states[0].kind = StateKind::SharedEntries),
        "state `count` is shared-entries, which is not supported yet"
    );
}

#[test]
fn states_and_timers_make_sense() {
    assert_eq!(
        refused(|d| d.states[0].ttl = Some(Ttl {
            millis: 0,
            renewal: TtlRenewal::Write
        })),
        "state `count` has a TTL of 0 ms"
    );
    assert_eq!(
        refused(|d| d.states[0].migrates_from.push(3)),
        "state `count` migrates from its own version, 3"
    );
    assert!(
        refused(|d| d.states[0].value_encoding = "\0".to_owned()).starts_with("the value encoding")
    );
    assert!(
        refused(|d| d.states[0].entry_encoding = "x".repeat(65)).starts_with("the entry encoding")
    );
    let unkeyed = |d: &mut Description| {
        d.inputs
            .iter_mut()
            .for_each(|input| input.kind = InputKind::Unkeyed)
    };
    assert_eq!(
        refused(unkeyed),
        "it declares state `count`, but no keyed input from which to use it"
    );
    let only_timers = |d: &mut Description| {
        unkeyed(d);
        d.states.clear();
    };
    assert_eq!(
        refused(only_timers),
        "it declares timer `count`, but no keyed input from which to use it"
    );
}

#[test]
fn kinds_are_called_as_in_the_contract() {
    let wit = include_str!("../../../../wit/operator.wit");
    let names = [
        InputKind::Keyed.to_string(),
        InputKind::Unkeyed.to_string(),
        InputKind::Broadcast.to_string(),
        OutputKeys::Kept.to_string(),
        OutputKeys::Given.to_string(),
        OutputKeys::Absent.to_string(),
        StateKind::Value.to_string(),
        StateKind::Items.to_string(),
        StateKind::Entries.to_string(),
        StateKind::SharedEntries.to_string(),
        TtlRenewal::Write.to_string(),
        TtlRenewal::Access.to_string(),
        TimeDomain::Event.to_string(),
        TimeDomain::Processing.to_string(),
    ];
    for name in names {
        assert!(wit.contains(&format!("    {name},\n")), "{name}");
    }
}

#[test]
fn a_configuration_schema_is_the_one_option_there_is_and_is_given_once() {
    let schema = (
        "config-schema".to_owned(),
        r#"{"type": "object"}"#.to_owned(),
    );
    let mut description = sound();
    assert_eq!(description.config_schema(), None);
    description.options = vec![schema.clone()];
    description.check().unwrap();
    assert_eq!(description.config_schema(), Some(schema.1.as_str()));
    let twice = refused(|d| d.options = vec![schema.clone(), schema.clone()]);
    assert_eq!(twice, "it has the option \"config-schema\" twice");
    let beside =
        refused(|d| d.options = vec![schema.clone(), ("retain".to_owned(), String::new())]);
    assert!(beside.contains("\"retain\""), "{beside}");
    let elsewhere = refused(|d| d.states[0].options = vec![schema]);
    assert!(
        elsewhere.contains("state `count` has an option"),
        "{elsewhere}"
    );
}
