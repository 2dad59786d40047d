//! File sinks as the commit of a checkpoint sees them.

use std::io;
use std::path::PathBuf;

use crate::checkpoint::outputs::Adoption;
use crate::checkpoint::{Outputs, PartFound};
use crate::sink::{StagedPart, parts};

/// The output directories of the job's file sinks.
pub(super) struct FileOutputs;

fn length(path: PathBuf) -> io::Result<Option<u64>> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Outputs for FileOutputs {
    fn look(&self, part: &StagedPart) -> io::Result<PartFound> {
        let found = |length: u64, at: PartFound| {
            if length == part.bytes {
                at
            } else {
                PartFound::Length { found: length }
            }
        };
        if let Some(length) = length(part.dir.join(&part.staged))? {
            return Ok(found(length, PartFound::Staged));
        }
        if let Some(length) = length(part.dir.join(&part.name))? {
            return Ok(found(length, PartFound::Published));
        }
        Ok(PartFound::Missing)
    }

    fn length(&self, part: &StagedPart) -> io::Result<Option<u64>> {
        length(part.dir.join(&part.staged))
    }

    fn adopt(&mut self, open: &[StagedPart], attempt: u64) -> io::Result<Adoption> {
        parts::adopt(open, attempt).map_err(io::Error::other)
    }

    fn publish(&mut self, all: &[StagedPart]) -> io::Result<()> {
        parts::publish(all).map_err(io::Error::other)
    }

    fn sweep(&mut self, dirs: &[PathBuf], keep: &[StagedPart], attempt: u64) -> io::Result<()> {
        for dir in dirs {
            parts::sweep(dir, keep, attempt).map_err(io::Error::other)?;
        }
        Ok(())
    }
}
