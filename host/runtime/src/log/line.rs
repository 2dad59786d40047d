//! One log line and its two forms.

use std::fmt::Write;

use serde::Serialize;

use super::repeats::Repeated;

/// How much somebody should care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Only helps when looking closely.
    Debug,
    /// Good to know in the morning.
    Info,
    /// Needs a look.
    Warn,
    /// Ended something.
    Error,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// A line to log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    pub(super) level: Level,
    pub(super) message: String,
    pub(super) code: Option<&'static str>,
    pub(super) checkpoint: Option<u64>,
    pub(super) operator: Option<String>,
    pub(super) subtask: Option<u16>,
    pub(super) guest: bool,
}

/// What a line gets when it is printed.
pub(super) struct Context<'a> {
    pub(super) at: jiff::Timestamp,
    pub(super) job: &'a str,
    pub(super) attempt: Option<u64>,
    pub(super) replay: bool,
    /// The line stands for so many that were held back.
    pub(super) repeated: Option<Repeated>,
}

#[derive(Serialize)]
struct Json<'a> {
    ts: String,
    level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    job: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subtask: Option<u16>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    guest: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replay: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated: Option<u64>,
    message: &'a str,
}

impl Line {
    /// A line of the host.
    pub fn new(level: Level, message: impl Into<String>) -> Line {
        Line {
            level,
            message: message.into(),
            code: None,
            checkpoint: None,
            operator: None,
            subtask: None,
            guest: false,
        }
    }

    /// With a permanent code.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Line {
        self.code = Some(code);
        self
    }

    /// About this checkpoint.
    #[must_use]
    pub fn checkpoint(mut self, n: u64) -> Line {
        self.checkpoint = Some(n);
        self
    }

    /// About this operator, source or sink.
    #[must_use]
    pub fn operator(mut self, id: &str) -> Line {
        self.operator = Some(id.to_owned());
        self
    }

    /// About this subtask of it.
    #[must_use]
    pub fn subtask(mut self, subtask: u16) -> Line {
        self.subtask = Some(subtask);
        self
    }

    /// What a guest said itself.
    #[must_use]
    pub(super) fn of_guest(mut self) -> Line {
        self.guest = true;
        self
    }

    /// The line for people, with its end.
    pub(super) fn to_text(&self, context: &Context<'_>) -> String {
        let mut text = format!(
            "{:.3} {:<5} {}: ",
            context.at,
            self.level.word(),
            context.job
        );
        if let Some(code) = self.code {
            let _ = write!(text, "[{code}] ");
        }
        if let Some(operator) = self.operator.as_ref().filter(|_| self.guest) {
            let subtask = self.subtask.unwrap_or(0);
            let replay = if context.replay { ", replay" } else { "" };
            let _ = write!(text, "[{operator}[{subtask}]{replay}] ");
        }
        append(&mut text, &self.message);
        if let Some(Repeated { times, seconds }) = context.repeated {
            let _ = write!(text, " (repeated {times} times in {seconds} s)");
        }
        text.push('\n');
        text
    }

    /// The line for machines, with its end.
    pub(super) fn to_json(&self, context: &Context<'_>) -> String {
        let json = Json {
            ts: format!("{:.3}", context.at),
            level: self.level,
            code: self.code,
            job: context.job,
            attempt: context.attempt,
            checkpoint: self.checkpoint,
            operator: self.operator.as_deref(),
            subtask: self.subtask,
            guest: self.guest,
            replay: context.replay,
            repeated: context.repeated.map(|repeated| repeated.times),
            message: &self.message,
        };
        let mut text = serde_json::to_string(&json).expect("plain data");
        text.push('\n');
        text
    }
}

/// Appends `message` so that it stays one entry: control characters escaped, further lines indented.
fn append(text: &mut String, message: &str) {
    for (number, line) in message.split('\n').enumerate() {
        if number > 0 {
            text.push('\n');
            if !line.starts_with("  ") {
                text.push_str("  ");
            }
        }
        for c in line.chars() {
            if c.is_control() && c != '\t' {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(repeated: Option<u64>) -> Context<'static> {
        let repeated = repeated.map(|times| Repeated { times, seconds: 60 });
        Context {
            at: "2026-11-29T23:54:36.828Z".parse().expect("a time"),
            job: "night",
            attempt: Some(3),
            replay: true,
            repeated,
        }
    }

    fn guest(message: &str) -> Line {
        let line = Line::new(Level::Warn, message).operator("daily");
        line.subtask(1).of_guest()
    }

    #[test]
    fn text_has_code_and_who() {
        let line = Line::new(Level::Warn, "checkpoint 7 failed")
            .code("W0521")
            .checkpoint(7);
        assert_eq!(
            line.to_text(&context(None)),
            "2026-11-29T23:54:36.828Z warn  night: [W0521] checkpoint 7 failed\n"
        );
        assert_eq!(
            guest("no field").to_text(&context(Some(412))),
            "2026-11-29T23:54:36.828Z warn  night: [daily[1], replay] no field (repeated 412 times in 60 s)\n"
        );
    }

    #[test]
    fn nothing_in_a_message_passes_for_a_line_of_its_own() {
        let forged =
            "x\r\n2026-11-29T00:00:00.000Z error night: gone\x1b[2K\0\u{85}\n  indented\ttab";
        let text = guest(forged).to_text(&context(None));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].ends_with("x\\r"), "{text}");
        assert_eq!(
            lines[1],
            "  2026-11-29T00:00:00.000Z error night: gone\\u{1b}[2K\\u{0}\\u{85}"
        );
        assert_eq!(lines[2], "  indented\ttab");
    }

    #[test]
    fn json_is_one_line_with_the_fields_that_are_known() {
        let text = guest("a\n\"b\"\u{1b}").to_json(&context(Some(2)));
        assert_eq!(
            text,
            "{\"ts\":\"2026-11-29T23:54:36.828Z\",\"level\":\"warn\",\"job\":\"night\",\"attempt\":3,\"operator\":\"daily\",\
             \"subtask\":1,\"guest\":true,\"replay\":true,\"repeated\":2,\"message\":\"a\\n\\\"b\\\"\\u001b\"}\n"
        );
        let plain = Line::new(Level::Info, "m").checkpoint(4).code("W0521");
        let context = Context {
            attempt: None,
            replay: false,
            ..context(None)
        };
        assert_eq!(
            plain.to_json(&context),
            "{\"ts\":\"2026-11-29T23:54:36.828Z\",\"level\":\"info\",\"code\":\"W0521\",\"job\":\"night\",\"checkpoint\":4,\"message\":\"m\"}\n"
        );
    }
}
