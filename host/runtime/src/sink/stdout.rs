//! Standard output, one value a line.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};

use super::{Error, Written, line};
use crate::batch::Batch;
use crate::job::model::SinkFormat;

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 64 * 1024;

/// The writer of standard output. It holds lines back until there are enough, input is idle or a barrier comes.
#[derive(Debug)]
pub struct StdoutSink {
    sink: String,
    output: File,
    buffer: Vec<u8>,
    written: Written,
}

impl StdoutSink {
    /// Writes to this process's standard output.
    ///
    /// # Errors
    /// [`Error::Io`] if it is not open.
    pub fn open(sink: &str) -> Result<StdoutSink, Error> {
        match io::stdout().as_fd().try_clone_to_owned() {
            Ok(output) => Ok(StdoutSink::over(output, sink)),
            Err(cause) => Err(cannot_write(sink, cause)),
        }
    }

    fn over(output: OwnedFd, sink: &str) -> StdoutSink {
        StdoutSink {
            sink: sink.to_owned(),
            output: output.into(),
            buffer: Vec::with_capacity(2 * BUFFER_BYTES),
            written: Written::default(),
        }
    }

    /// Writes the values of `batch`, a line each, or holds them back.
    ///
    /// # Errors
    /// [`Error::Value`] for a value that is no line, [`Error::Closed`] if nobody reads any more.
    pub fn write(&mut self, batch: &Batch) -> Result<(), Error> {
        for row in 0..batch.len() {
            let value = line::value(&self.sink, &SinkFormat::Raw, batch, row)?;
            self.buffer.extend_from_slice(value);
            self.buffer.push(b'\n');
            self.written.records += 1;
            self.written.bytes += value.len() as u64 + 1;
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// [`Error::Closed`] if nobody reads any more.
    pub fn flush(&mut self) -> Result<(), Error> {
        let mut done = 0;
        while done < self.buffer.len() {
            match self.output.write(&self.buffer[done..]) {
                Ok(0) => return Err(cannot_write(&self.sink, ErrorKind::WriteZero.into())),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Whoever else holds the pipe may have made it non-blocking.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let ready = poll(&mut [PollFd::new(&self.output, PollFlags::OUT)], None);
                    if let Err(error) = ready
                        && error != rustix::io::Errno::INTR
                    {
                        return Err(cannot_write(&self.sink, error.into()));
                    }
                }
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    return Err(Error::Closed(self.sink.clone()));
                }
                Err(error) => return Err(cannot_write(&self.sink, error)),
            }
        }
        self.buffer.clear();
        Ok(())
    }

    /// What was written so far, held back or not.
    pub fn written(&self) -> Written {
        self.written
    }
}

fn cannot_write(sink: &str, cause: io::Error) -> Error {
    Error::Io {
        what: format!("sink `{sink}`: cannot write to standard output"),
        source: cause,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::tests::{batch, lines};
    use super::*;

    #[test]
    fn lines_are_held_back_until_flushed() {
        let (mut read, write) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&read, true).unwrap();
        let mut sink = StdoutSink::over(write.into(), "out");
        sink.write(&lines(&["a", "", "b c"])).unwrap();
        let mut seen = [0; 16];
        assert_eq!(
            read.read(&mut seen).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        sink.flush().unwrap();
        let bytes = read.read(&mut seen).unwrap();
        assert_eq!(&seen[..bytes], b"a\n\nb c\n");
        assert_eq!(
            sink.written(),
            Written {
                records: 3,
                bytes: 7
            }
        );
    }

    #[test]
    fn much_output_is_not_held_back_and_survives_a_full_non_blocking_pipe() {
        let (mut read, write) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&write, true).unwrap();
        let mut sink = StdoutSink::over(write.into(), "out");
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            read.read_to_end(&mut all).unwrap();
            all
        });
        let line = "x".repeat(99);
        let batch = lines(&vec![&line[..]; 10_000]);
        sink.write(&batch).unwrap();
        assert!(sink.buffer.len() < BUFFER_BYTES);
        sink.flush().unwrap();
        drop(sink);
        let all = reader.join().unwrap();
        assert_eq!(all.len(), 1_000_000);
        assert!(
            all.split(|&b| b == b'\n')
                .take(10_000)
                .all(|seen| seen == line.as_bytes())
        );
    }

    #[test]
    fn a_reader_that_left_ends_the_job_clearly() {
        let (read, write) = io::pipe().unwrap();
        drop(read);
        let mut sink = StdoutSink::over(write.into(), "out");
        sink.write(&lines(&["a"])).unwrap();
        let error = sink.flush().unwrap_err();
        assert_eq!(error.code(), "W0705");
        assert!(error.to_string().contains("`out`"));
    }

    #[test]
    fn values_that_are_no_lines_are_refused() {
        let (_read, write) = io::pipe().unwrap();
        let mut sink = StdoutSink::over(write.into(), "out");
        assert_eq!(
            sink.write(&batch(&[Some(b"a\nb")])).unwrap_err().code(),
            "W0702"
        );
        assert_eq!(sink.write(&batch(&[None])).unwrap_err().code(), "W0702");
    }

    #[test]
    fn a_full_disk_is_named() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut sink = StdoutSink::over(full.into(), "out");
        sink.write(&lines(&["a"])).unwrap();
        let error = sink.flush().unwrap_err();
        assert_eq!(error.code(), "W0701");
        assert!(error.to_string().contains("`out`"), "{error}");
    }
}
