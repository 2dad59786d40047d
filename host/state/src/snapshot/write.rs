//! Writing the file; the layout is in the parent module.

use std::io;
use std::io::Write;

use xxhash_rust::xxh3::Xxh3;

use super::{
    CELL_GONE, FOOTER, GONE, Header, MAGIC, RowValue, SectionKind, SnapshotSummary, VERSION,
};

/// Rows gather up to here before they are written.
const BUFFER: usize = 256 << 10;

pub(super) struct Writer<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    /// Of all bytes before the buffer.
    file: Xxh3,
    sections: u32,
    row_bytes: u64,
    summary: SnapshotSummary,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut dyn Write, header: &Header) -> io::Result<Self> {
        let header = header.encode()?;
        let mut buffer = MAGIC.to_vec();
        buffer.extend_from_slice(&VERSION.to_le_bytes());
        buffer.extend_from_slice(&(header.len() as u32).to_le_bytes());
        buffer.extend_from_slice(&header);
        buffer.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(&header).to_le_bytes());
        Ok(Writer {
            out,
            buffer,
            file: Xxh3::new(),
            sections: 0,
            row_bytes: 0,
            summary: SnapshotSummary::default(),
        })
    }

    /// Writes a group's section, or nothing if there is nothing to say. Rows come by rising key;
    /// `timers` of them are timers.
    pub(super) fn section(
        &mut self,
        kind: SectionKind,
        group: u16,
        timers: u64,
        rows: &[(&[u8], RowValue<'_>)],
    ) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (mut removals, mut bytes) = (0, 0);
        for (key, value) in rows {
            bytes += (8 + key.len()) as u64;
            match value {
                RowValue::Is(value) => bytes += value.len() as u64,
                RowValue::Gone | RowValue::CellGone => removals += 1,
            }
        }
        let entries = rows.len() as u64 - timers - removals;
        let mut section = Xxh3::new();
        let mut head = vec![kind as u8];
        head.extend_from_slice(&group.to_le_bytes());
        for count in [entries, timers, removals, bytes] {
            head.extend_from_slice(&count.to_le_bytes());
        }
        self.put(&head, Some(&mut section))?;
        for (key, value) in rows {
            let (length, value) = match value {
                RowValue::Is(value) => (length_of(value), *value),
                RowValue::Gone => (GONE, &[][..]),
                RowValue::CellGone => (CELL_GONE, &[][..]),
            };
            let lengths = [length_of(key), length].map(u32::to_le_bytes);
            self.put(lengths.as_flattened(), Some(&mut section))?;
            self.put(key, Some(&mut section))?;
            self.put(value, Some(&mut section))?;
        }
        self.put(&section.digest().to_le_bytes(), None)?;
        self.sections += 1;
        self.row_bytes += bytes;
        self.summary.entries += entries;
        self.summary.timers += timers;
        self.summary.removals += removals;
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<SnapshotSummary> {
        let mut footer = vec![FOOTER];
        footer.extend_from_slice(&self.sections.to_le_bytes());
        let SnapshotSummary {
            entries,
            timers,
            removals,
            ..
        } = self.summary;
        for total in [entries, timers, removals, self.row_bytes] {
            footer.extend_from_slice(&total.to_le_bytes());
        }
        self.put(&footer, None)?;
        self.flush()?;
        let checksum = self.file.digest();
        self.put(&checksum.to_le_bytes(), None)?;
        self.flush()?;
        Ok(self.summary)
    }

    fn put(&mut self, bytes: &[u8], section: Option<&mut Xxh3>) -> io::Result<()> {
        if let Some(section) = section {
            section.update(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.update(&self.buffer);
        self.out.write_all(&self.buffer)?;
        self.summary.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a call's budget is below 4 GiB")
}
