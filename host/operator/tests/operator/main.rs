//! Loads and calls real components: the probe guest (`tests/guests/probe`), which does what it is
//! told, and text.

#![allow(
    clippy::unwrap_used,
    reason = "what cannot be unwrapped fails the test"
)]

mod cache;
mod calls;
mod limits;
mod load;
mod malformed;
mod recorder;
mod wasi;
