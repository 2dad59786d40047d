//! Files that are no operators are refused in words that help.

use weir_operator::{Form, Problem, inspect};

use crate::recorder::{engine, guest, probe};

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// The message of a failed load.
fn refused(bytes: &[u8]) -> String {
    match engine().load(bytes, "build/clean.wasm") {
        Ok(_) => panic!("it was loaded"),
        Err(error) => error.to_string(),
    }
}

/// A component with an instance of this name among its exports, and these imports.
fn component(exports: &str, imports: &[&str]) -> Vec<u8> {
    let imports: String = imports
        .iter()
        .map(|name| format!("(import \"{name}\" (instance))\n"))
        .collect();
    wat(&format!(
        "(component {imports} (instance $empty) (export \"{exports}\" (instance $empty)))"
    ))
}

#[test]
fn a_core_module_with_types_is_loaded_as_a_component() {
    let bytes = guest("weir_guest_probe");
    let interface = probe().interface();
    assert_eq!(interface.exports, ["weir:operator/lifecycle@0.1.0"]);
    assert!(
        interface
            .imports
            .iter()
            .all(|name| name.starts_with("weir:operator/")),
        "{interface:?}"
    );
    assert!(
        interface
            .imports
            .contains(&"weir:operator/state@0.1.0".to_owned())
    );
    let inspection = inspect(&bytes);
    assert_eq!(inspection.form, Form::Module { typed: true });
    assert_eq!(inspection.problem, None);
    assert_eq!(inspection.interface, *interface);
    assert_eq!(inspection.sha256, probe().sha256());
    assert_eq!(probe().sha256().len(), 64);
    assert_eq!(probe().origin(), "probe.wasm");
}

#[test]
fn a_component_is_loaded_as_it_is() {
    let module = guest("weir_guest_probe");
    let encoded = wit_component::ComponentEncoder::default()
        .module(&module)
        .unwrap()
        .validate(true)
        .encode()
        .unwrap();
    let component = engine().load(&encoded, "probe.wasm").unwrap();
    assert_ne!(component.sha256(), probe().sha256());
    assert_eq!(component.interface(), probe().interface());
    assert_eq!(inspect(&encoded).form, Form::Component);
    assert_eq!(
        component.describe(None, &Default::default()).unwrap().name,
        "probe"
    );
}

#[test]
fn files_that_are_not_webassembly() {
    assert_eq!(
        refused(b"\x7fELF\x02\x01\x01"),
        "build/clean.wasm is not a Weir operator\n  \
         found: a native program or library; needed: `weir:operator@0.1`\n  \
         help: build it with `--target wasm32-unknown-unknown`"
    );
    assert!(refused(b"").contains("found: an empty file;"));
    assert!(refused(b"(component)").contains("found: WebAssembly in its text format;"));
    assert!(
        refused(b"job: flights")
            .contains("found: not WebAssembly, starts with the bytes 6a 6f 62 3a;")
    );
    assert_eq!(inspect(b"job: flights").form, Form::Other);
}

#[test]
fn core_modules_without_types() {
    assert_eq!(
        refused(&wat("(module (func (export \"run\")))")),
        "build/clean.wasm is not a Weir operator\n  \
         found: a core module without component type information; needed: `weir:operator@0.1`\n  \
         help: operators use weir-sdk, or wit-bindgen with the contract's WIT; what strips a \
         module must keep its `component-type` sections"
    );
    let inspection = inspect(&wat(
        "(module (import \"a\" \"b\" (func)) (func (export \"run\")))",
    ));
    assert_eq!(inspection.form, Form::Module { typed: false });
    assert_eq!(
        (inspection.interface.imports, inspection.interface.exports),
        (vec!["a.b".into()], vec!["run".into()])
    );
    assert_eq!(inspection.problem, Some(Problem::Untyped));
}

#[test]
fn programs() {
    let command = refused(&component(
        "wasi:cli/run@0.2.0",
        &["wasi:cli/environment@0.2.0"],
    ));
    assert_eq!(
        command,
        "build/clean.wasm is not a Weir operator\n  \
         found: a WASI command, exports `wasi:cli/run@0.2.0`; needed: `weir:operator@0.1`\n  \
         help: it was built as a program; an operator is a library (`crate-type = \
         [\"cdylib\"]`) built with `--target wasm32-unknown-unknown`; `weir inspect` shows what is there"
    );
    let preview_1 = "(import \"wasi_snapshot_preview1\" \"fd_write\" (func))";
    let command = refused(&wat(&format!(
        "(module {preview_1} (func (export \"_start\")))"
    )));
    assert!(
        command.contains("found: a WASI command, exports `_start`; needed"),
        "{command}"
    );
    let typed = refused(&wat(&format!(
        "(module {preview_1} (@custom \"component-type\" \"\"))"
    )));
    assert!(
        typed.contains("imports `wasi_snapshot_preview1.fd_write`, of which there are no stubs")
            && typed.contains("has to become a component first"),
        "{typed}"
    );
    let library = refused(&wat(&format!("(module {preview_1})")));
    assert!(
        library
            .contains("found: a WASI command, imports `wasi_snapshot_preview1.fd_write`; needed"),
        "{library}"
    );
}

#[test]
fn components_for_something_else() {
    assert_eq!(
        refused(&component("my:filter/lines@1.0.0", &["my:host/clock"])),
        "build/clean.wasm is not a Weir operator\n  \
         found: exports `my:filter/lines@1.0.0`; needed: `weir:operator@0.1`\n  \
         help: `weir inspect` shows what is there"
    );
    assert!(
        refused(&wat("(component)")).contains("found: a component that exports nothing; needed")
    );
    let inspection = inspect(&component("my:filter/lines@1.0.0", &["my:host/clock"]));
    assert_eq!(inspection.interface.imports, ["my:host/clock"]);
    assert_eq!(inspection.interface.exports, ["my:filter/lines@1.0.0"]);
}

#[test]
fn another_version_of_the_contract() {
    assert_eq!(
        refused(&component(
            "weir:operator/lifecycle@0.2.0",
            &["weir:operator/state@0.2.0"]
        )),
        "build/clean.wasm was built for another version of the operator contract\n  \
         found: `weir:operator@0.2.0`; this host has `weir:operator@0.1.0`\n  \
         help: build it again with the SDK of this release"
    );
}

#[test]
fn imports_outside_of_the_contract() {
    let operator = "weir:operator/lifecycle@0.1.0";
    assert_eq!(
        refused(&component(
            operator,
            &[
                "wasi:http/types@0.2.0",
                "wasi:io/streams@0.2.0",
                "wasi:keyvalue/store@0.2.0",
                "weir:operator/types@0.1.0"
            ]
        )),
        "build/clean.wasm needs what this host does not offer\n  \
         imports `wasi:http/types@0.2.0`, `wasi:keyvalue/store@0.2.0`, of which there are no stubs\n  \
         help: operators get stubs of WASI 0.2's cli, clocks, filesystem, io, random and sockets; \
         build it without the rest (componentize-js: `disableFeatures: ['http', 'fetch-event']`)"
    );
    assert_eq!(
        refused(&component(
            operator,
            &["wasi:io/streams@0.2.0", "my:db/query"]
        )),
        "build/clean.wasm needs what this host does not offer\n  \
         imports `my:db/query`, not part of `weir:operator@0.1`\n  \
         help: `weir inspect` shows what is there"
    );
}

#[test]
fn functions_that_are_missing_or_of_other_types() {
    let operator = "weir:operator/lifecycle@0.1.0";
    assert_eq!(
        refused(&component(operator, &[])),
        "build/clean.wasm does not match the operator contract\n  \
         `describe` is missing\n  \
         help: build it with the contract's WIT as released, unchanged"
    );
    let other = |name: &str, function: &str, body: &str| {
        wat(&format!(
            "(component
               (core module $m (memory (export \"m\") 1) (func (export \"f\") {body} unreachable))
               (core instance $i (instantiate $m))
               (func $f {function} (canon lift (core func $i \"f\")))
               (instance $x (export \"{name}\" (func $f)))
               (export \"{operator}\" (instance $x)))"
        ))
    };
    let message = refused(&other("describe", "(param \"config\" u32)", "(param i32)"));
    assert!(
        message.contains("`describe` is not of the type that `weir:operator@0.1` gives it"),
        "{message}"
    );
    let import = wat(&format!(
        "(component
           (import \"weir:operator/state@0.1.0\" (instance (export \"take\" (func))))
           (instance $x) (export \"{operator}\" (instance $x)))"
    ));
    let message = refused(&import);
    assert!(
        message.contains("does not match the operator contract") && message.contains("take"),
        "{message}"
    );
}

#[test]
fn broken_files_never_panic() {
    assert!(refused(b"\0asm\x0d\0\x01\0\xff").contains("is not valid WebAssembly"));
    assert!(refused(b"\0asm\x01\0\0\0\x01\x7f").contains("is not valid WebAssembly"));
    let probe = guest("weir_guest_probe");
    // Cut anywhere: valid up to there at best.
    for cut in (0..probe.len()).step_by(probe.len() / 97) {
        assert!(engine().load(&probe[..cut], "cut.wasm").is_err(), "{cut}");
    }
    // Bits flipped by a fixed sequence, looked at but not compiled.
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..200 {
        let mut flipped = probe.clone();
        for _ in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let position = random as usize % flipped.len();
            flipped[position] ^= 1 << (random >> 60 & 7);
        }
        let inspection = inspect(&flipped);
        assert_eq!(inspection.sha256.len(), 64);
    }
}
