//! What the host promises to the people who run it, shown by running it: each module is named by what it proves.

mod checkpoints_taken_away;
mod clocks;
mod component_files;
mod configurations;
mod decode_policies;
mod disk_full;
mod fixture;
mod fresh_and_finished;
mod graphs;
mod guests_gone_wrong;
mod identity;
mod input_changed;
mod large_state;
mod many_checkpoints;
mod memory;
mod null_keys;
mod one_owner;
mod output_taken_away;
mod rescaled_in_order;
mod restarts_counted;
mod sample_of_the_soak;
mod stopping;
mod storage_unavailable;
mod streams;
mod verbs;
