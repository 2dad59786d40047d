//! A file's bytes, decompressed.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek};
use std::os::unix::fs::FileExt;

use flate2::bufread::MultiGzDecoder;

use crate::job::model::Compression;
use crate::source::framer::CHUNK;

/// The magic numbers: of gzip with its only method, of a zstd frame, and (without the low half of the first byte) of a
/// skippable frame, which some zstd writers put first.
const GZIP: &[u8] = &[0x1f, 0x8b, 0x08];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const ZSTD_SKIPPABLE: &[u8] = &[0x50, 0x2a, 0x4d, 0x18];

/// A file that is being read. Members of gzip and frames of zstd follow each other seamlessly; a stream that breaks off
/// inside one is an error, not an end.
pub(super) enum Stream {
    Plain(File),
    Gzip(MultiGzDecoder<BufReader<File>>),
    Zstd(zstd::Decoder<'static, BufReader<File>>),
}

impl Stream {
    pub(super) fn open(file: File, compression: Compression) -> io::Result<Stream> {
        let compression = match compression {
            Compression::Auto => detect(&file)?,
            given => given,
        };
        Ok(match compression {
            Compression::Auto | Compression::Plain => Stream::Plain(file),
            Compression::Gzip => {
                Stream::Gzip(MultiGzDecoder::new(BufReader::with_capacity(CHUNK, file)))
            }
            Compression::Zstd => Stream::Zstd(zstd::Decoder::with_buffer(
                BufReader::with_capacity(CHUNK, file),
            )?),
        })
    }

    /// The file below.
    pub(super) fn file(&self) -> &File {
        match self {
            Stream::Plain(file) => file,
            Stream::Gzip(decoder) => decoder.get_ref().get_ref(),
            Stream::Zstd(decoder) => decoder.get_ref().get_ref(),
        }
    }

    /// Bytes taken from the file as it is on disk.
    pub(super) fn raw_position(&self) -> io::Result<u64> {
        self.file().stream_position()
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Stream::Plain(file) => file.read(buffer),
                Stream::Gzip(decoder) => {
                    decoder.read(buffer).map_err(|error| damaged("gzip", error))
                }
                Stream::Zstd(decoder) => {
                    decoder.read(buffer).map_err(|error| damaged("zstd", error))
                }
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stream::Plain(_) => "Plain",
            Stream::Gzip(_) => "Gzip",
            Stream::Zstd(_) => "Zstd",
        })
    }
}

/// Says that it is the compressed data which is wrong, unless the disk is.
fn damaged(format: &str, error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() || error.kind() == ErrorKind::Interrupted {
        return error;
    }
    let what = match error.kind() {
        ErrorKind::UnexpectedEof => format!("the {format} data break off"),
        _ => format!("damaged {format} data ({error})"),
    };
    io::Error::new(error.kind(), what)
}

/// What a file with contents begins like, if not as it is said to.
pub(super) fn contradicts(file: &File, said: Compression) -> io::Result<Option<&'static str>> {
    let name = |compression| match compression {
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
        Compression::Auto | Compression::Plain => "no compression",
    };
    if !matches!(said, Compression::Gzip | Compression::Zstd) || file.metadata()?.len() == 0 {
        return Ok(None);
    }
    let found = detect(file)?;
    Ok((found != said).then(|| name(found)))
}

fn detect(file: &File) -> io::Result<Compression> {
    let mut start = [0; 4];
    let mut read = 0;
    while read < start.len() {
        match file.read_at(&mut start[read..], read as u64) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let start = &start[..read];
    let skippable = start.len() == 4
        && start[0] & 0xf0 == ZSTD_SKIPPABLE[0]
        && start[1..] == ZSTD_SKIPPABLE[1..];
    Ok(if start.starts_with(GZIP) {
        Compression::Gzip
    } else if start == ZSTD || skippable {
        Compression::Zstd
    } else {
        Compression::Plain
    })
}
