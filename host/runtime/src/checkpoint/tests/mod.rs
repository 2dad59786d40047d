//! The two machines together: against a model of storage with every interleaving of two hosts, and against a real directory.

mod explore;
mod hands;
mod model;
