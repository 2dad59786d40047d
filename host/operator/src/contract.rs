//! The contract's Rust face, generated from `wit/operator.wit`, and which versions of it this host
//! takes.

/// The contract's package.
pub const PACKAGE: &str = "weir:operator";

/// The contract's version that this host implements. Within a track (0.1) a later patch only adds
/// functions to what the host offers, so components built against this patch or an earlier one run.
pub const VERSION: &str = "0.1.0";

/// The interface that makes a component an operator.
pub(crate) const LIFECYCLE: &str = "lifecycle";

/// The interfaces an operator may import. `types` has no functions; it is imported for its types.
pub(crate) const IMPORTS: [&str; 6] = [
    "types",
    "state",
    "shared-state",
    "timers",
    "output",
    "diagnostics",
];

/// The contract as people call it: package and track.
pub(crate) const NEEDED: &str = "weir:operator@0.1";

/// Whether a component built against this version of the contract runs here.
pub(crate) fn runs(version: &str) -> bool {
    fn parse(version: &str) -> Option<[u64; 3]> {
        let mut parts = version.split('.').map(|part| part.parse().ok());
        let parsed = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(parsed)
    }
    match (parse(version), parse(VERSION)) {
        (Some(theirs), Some(ours)) => theirs[..2] == ours[..2] && theirs[2] <= ours[2],
        _ => false,
    }
}

/// What `bindgen!` makes of the contract. Arguments of exports are borrowed, so that a batch is
/// lowered straight from the runtime's columns.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "generated code; its documentation is the WIT's"
)]
pub(crate) mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit/operator.wit",
        world: "operator",
        ownership: Borrowing { duplicate_if_necessary: true },
        imports: { default: trappable },
    });
}

pub(crate) use bindings::weir::operator as wit;

#[cfg(test)]
mod tests {
    use super::{IMPORTS, LIFECYCLE, NEEDED, PACKAGE, VERSION, runs};

    #[test]
    fn the_constants_agree_with_the_wit() {
        let wit = include_str!("../../../wit/operator.wit");
        assert!(wit.contains(&format!("package {PACKAGE}@{VERSION};")));
        assert!(format!("{PACKAGE}@{VERSION}").starts_with(&format!("{NEEDED}.")));
        for interface in IMPORTS.iter().chain([&LIFECYCLE]) {
            assert!(
                wit.contains(&format!("interface {interface} {{")),
                "{interface}"
            );
        }
        assert_eq!(wit.matches("\ninterface ").count(), IMPORTS.len() + 1);
    }

    #[test]
    fn a_version_runs_within_its_track_and_not_from_the_future() {
        assert!(runs("0.1.0"));
        for other in [
            "0.1.1", "0.2.0", "0.0.9", "1.1.0", "0.1", "0.1.0-rc", "0.1.0.0", "",
        ] {
            assert!(!runs(other), "{other}");
        }
    }
}
