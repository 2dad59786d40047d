//! What wit-bindgen makes of the contract: the record types that both sides share, the imports and
//! the macro that exports a component. Everything else in the crate hides it.

#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::undocumented_unsafe_blocks,
    reason = "generated code"
)]

wit_bindgen::generate!({
    path: "../../wit/operator.wit",
    world: "operator",
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "weir_sdk::bindings",
});
