//! The progress line of a job on a terminal: records, rate, share read, checkpoint. Redrawn in place on standard error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::clock;
use crate::log::{self, Format, Level, Line};

/// What the line shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Records read in this run.
    pub read: u64,
    /// Share of the input that was read, 0 to 1, where it is known.
    pub share: Option<f64>,
    /// The last confirmed checkpoint.
    pub checkpoint: Option<u64>,
}

/// Draws the line, several times a second at most.
pub struct Progress {
    enabled: bool,
    /// Where there is no terminal: a plain log line this often instead.
    log_every: Duration,
    last: Instant,
    last_read: u64,
    rate: f64,
}

/// Numbers with thousands separators.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

impl Progress {
    /// `wanted` is false under `--no-progress`.
    pub fn new(wanted: bool) -> Progress {
        Progress {
            enabled: wanted && log::format() == Format::Text && std::io::stderr().is_terminal(),
            log_every: Duration::from_secs(30),
            last: clock::now(),
            last_read: 0,
            rate: 0.0,
        }
    }

    /// Logs `text` about checkpoint `n`, unless the progress line shows as much.
    pub fn note(&self, n: u64, text: &str) {
        let level = if self.enabled {
            Level::Debug
        } else {
            Level::Info
        };
        log::write(Line::new(level, text).checkpoint(n));
    }

    /// How often [`Progress::show`] should be called.
    pub fn interval(&self) -> Duration {
        if self.enabled {
            Duration::from_millis(200)
        } else {
            self.log_every
        }
    }

    /// Shows `sample`, if it is time to.
    pub fn show(&mut self, sample: &Sample) {
        let now = clock::now();
        let passed = now.saturating_duration_since(self.last);
        if passed < self.interval() {
            return;
        }
        let rate = (sample.read.saturating_sub(self.last_read)) as f64 / passed.as_secs_f64();
        self.rate = if self.rate == 0.0 {
            rate
        } else {
            0.7 * self.rate + 0.3 * rate
        };
        self.last = now;
        self.last_read = sample.read;
        let text = line(sample, self.rate);
        if self.enabled {
            log::draw(&text);
        } else {
            log::info(&text);
        }
    }
}

fn line(sample: &Sample, rate: f64) -> String {
    let mut text = format!(
        "{} records read, {}/s",
        grouped(sample.read),
        grouped(rate as u64)
    );
    if let Some(share) = sample.share {
        text.push_str(&format!(", {:.0} % of the input", share * 100.0));
    }
    if let Some(n) = sample.checkpoint {
        text.push_str(&format!(", checkpoint {n}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let shown: Vec<String> = [0, 12, 999, 1_000, 336_776, 1_000_000].map(grouped).into();
        assert_eq!(shown, ["0", "12", "999", "1,000", "336,776", "1,000,000"]);
    }

    #[test]
    fn the_line_shows_only_what_is_known() {
        let mut sample = Sample {
            read: 1_234,
            share: None,
            checkpoint: None,
        };
        assert_eq!(line(&sample, 10.4), "1,234 records read, 10/s");
        sample.share = Some(0.456);
        sample.checkpoint = Some(7);
        assert_eq!(
            line(&sample, 10_400.0),
            "1,234 records read, 10,400/s, 46 % of the input, checkpoint 7"
        );
    }
}
