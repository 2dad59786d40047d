//! Lines on their way into a part, compressed if the sink says so.
//!
//! At each barrier a frame ends (a member, in gzip's words): what the file has then can be decompressed by itself, and what comes after
//! begins another. Both formats allow frames one after the other, so a part is a proper file at whichever barrier it is cut.
//! The cost is some bytes of header and trailer a frame, and that it cannot refer to what came before it.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::job::model::SinkCompression;

/// A frame that is being written.
enum Frame {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(ZstdEncoder<'static, Vec<u8>>),
}

/// See the module.
pub(super) struct Encoder {
    compression: SinkCompression,
    frame: Option<Frame>,
    /// What is to be written to the file while no frame is open.
    plain: Vec<u8>,
}

impl Encoder {
    pub(super) fn new(compression: SinkCompression) -> Encoder {
        Encoder {
            compression,
            frame: None,
            plain: Vec::new(),
        }
    }

    /// Takes bytes, in the frame that is open or a new one.
    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.frame.is_none() && self.compression != SinkCompression::None {
            let before = std::mem::take(&mut self.plain);
            self.frame = match self.compression {
                SinkCompression::None => None,
                SinkCompression::Gzip { level } => {
                    let level = flate2::Compression::new(level.into());
                    Some(Frame::Gzip(GzEncoder::new(before, level)))
                }
                SinkCompression::Zstd { level } => {
                    let mut encoder = ZstdEncoder::new(before, level.into())?;
                    encoder.include_checksum(true)?;
                    Some(Frame::Zstd(encoder))
                }
            };
        }
        match &mut self.frame {
            None => self.plain.extend_from_slice(bytes),
            Some(Frame::Gzip(encoder)) => encoder.write_all(bytes)?,
            Some(Frame::Zstd(encoder)) => encoder.write_all(bytes)?,
        }
        Ok(())
    }

    /// What is to be written to the file so far, to be taken from here. More may be held back until the frame ends.
    pub(super) fn ready(&mut self) -> &mut Vec<u8> {
        match &mut self.frame {
            None => &mut self.plain,
            Some(Frame::Gzip(encoder)) => encoder.get_mut(),
            Some(Frame::Zstd(encoder)) => encoder.get_mut(),
        }
    }

    /// Ends the frame that is open, if there is one: [`Encoder::ready`] has all of it.
    pub(super) fn end_frame(&mut self) -> io::Result<()> {
        match self.frame.take() {
            None => {}
            Some(Frame::Gzip(encoder)) => self.plain = encoder.finish()?,
            Some(Frame::Zstd(encoder)) => self.plain = encoder.finish()?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const ALL: [SinkCompression; 5] = [
        SinkCompression::None,
        SinkCompression::Gzip { level: 1 },
        SinkCompression::Gzip { level: 9 },
        SinkCompression::Zstd { level: 1 },
        SinkCompression::Zstd { level: 19 },
    ];

    fn decompressed(compression: SinkCompression, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match compression {
            SinkCompression::None => out.extend_from_slice(bytes),
            SinkCompression::Gzip { .. } => {
                let mut decoder = flate2::read::MultiGzDecoder::new(bytes);
                decoder.read_to_end(&mut out).unwrap();
            }
            SinkCompression::Zstd { .. } => out = zstd::decode_all(bytes).unwrap(),
        }
        out
    }

    #[test]
    fn cut_at_any_end_of_a_frame_it_is_a_whole_file() {
        for compression in ALL {
            let mut encoder = Encoder::new(compression);
            let (mut file, mut expected) = (Vec::new(), Vec::new());
            for frame in 1..5_u32 {
                for line in 0..frame * 1_000 {
                    let line = format!("line {line} of frame {frame}\n");
                    encoder.push(line.as_bytes()).unwrap();
                    expected.extend_from_slice(line.as_bytes());
                    // Taken in pieces, as it is written.
                    file.append(encoder.ready());
                }
                encoder.end_frame().unwrap();
                file.append(encoder.ready());
                assert_eq!(
                    decompressed(compression, &file),
                    expected,
                    "{compression:?}"
                );
                let length = file.len();
                encoder.end_frame().unwrap();
                assert!(encoder.ready().is_empty(), "a frame ends once");
                assert_eq!(file.len(), length);
            }
            if compression != SinkCompression::None {
                assert!(file.len() < expected.len() / 4, "{compression:?}");
            }
        }
    }
}
