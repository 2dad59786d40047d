//! YAML to a tree in which every key and value has its place.
//!
//! Built on parser events rather than a ready-made document, because the document would have lost places and duplicate
//! keys. Job files do without tags, merge keys, keys that are not plain text, and several documents; each is refused by
//! name. Aliases are copied in. What a file can make the host allocate is capped: see the constants.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::model::Place;
use super::report::Report;
use super::substitute::{Environment, substitute};
use crate::diagnostic::Diagnostic;

/// Mappings and lists inside each other.
const MAX_DEPTH: usize = 64;

/// Bytes of the tree, aliases and variables expanded; each value counts [`NODE_BYTES`] beside its text.
const MAX_TREE_BYTES: usize = 32 * 1024 * 1024;

const NODE_BYTES: usize = 64;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub place: Place,
    pub value: Value,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Scalar {
        text: String,
        /// Written without quotes, so that it may be a number, a boolean or nothing.
        plain: bool,
        /// Whether a variable went into it: then messages must not show it.
        substituted: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Already reported; whatever reads it fails without a word.
    Broken,
}

/// A field of a mapping.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: String,
    pub key_place: Place,
    pub node: Node,
}

impl Node {
    /// The entry at `path`: keys, and decimal numbers for places in a list.
    pub(super) fn child(&self, key: &str) -> Option<(Place, &Node)> {
        match &self.value {
            Value::Map(entries) => {
                let entry = entries.iter().find(|entry| entry.key == key)?;
                Some((entry.key_place, &entry.node))
            }
            Value::List(items) => {
                let item = items.get(key.parse::<usize>().ok()?)?;
                Some((item.place, item))
            }
            Value::Scalar { .. } | Value::Broken => None,
        }
    }

    /// Whether there is a value at `path`.
    pub(super) fn has(&self, path: &[&str]) -> bool {
        let mut node = Some(self);
        for key in path {
            node = node.and_then(|node| node.child(key)).map(|(_, node)| node);
        }
        node.is_some()
    }

    /// Where the value at `path` stands, or as much of the path as there is: what is missing is missed there.
    pub(super) fn place_of(&self, path: &[&str]) -> Place {
        let (mut node, mut place) = (self, self.place);
        for (depth, key) in path.iter().enumerate() {
            let Some((key_place, child)) = node.child(key) else {
                break;
            };
            let is_last = depth + 1 == path.len();
            let is_scalar = matches!(child.value, Value::Scalar { .. });
            (node, place) = (
                child,
                if is_last && is_scalar {
                    child.place
                } else {
                    key_place
                },
            );
        }
        place
    }
}

/// A mapping or list that is not closed yet.
struct Open {
    place: Place,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        keys: HashMap<String, Place>,
        /// The key whose value comes next. Its value is dropped if the key was refused.
        key: Option<(String, Place, bool)>,
    },
}

struct Builder<'a> {
    report: &'a Report,
    environment: &'a Environment<'a>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    root: Option<Node>,
    bytes: usize,
}

/// Reads `text`. Mistakes after which the rest still makes sense are reported and left out.
///
/// # Errors
/// The mistake after which nothing does.
pub(super) fn read(
    text: &str,
    environment: &Environment<'_>,
    report: &Report,
) -> Result<Node, Diagnostic> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder {
        report,
        environment,
        open: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        bytes: 0,
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| builder.not_yaml(&error, text))?;
        builder.event(event, place(&span))?;
    }
    let empty = || {
        report.error(
            "W0106",
            Place { line: 1, column: 1 },
            "the job file is empty",
        )
    };
    let root = builder.root.ok_or_else(empty)?;
    match &root.value {
        Value::Scalar {
            text, plain: true, ..
        } if text.is_empty() => Err(empty()),
        _ => Ok(root),
    }
}

fn place(span: &Span) -> Place {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Place {
        line: number(span.start.line()),
        column: number(span.start.col() + 1),
    }
}

impl Builder<'_> {
    fn not_yaml(&self, error: &ScanError, text: &str) -> Diagnostic {
        let mark = error.marker();
        let place = place(&Span::empty(*mark));
        let diagnostic =
            self.report
                .error("W0106", place, format!("not valid YAML: {}", error.info()));
        let line = text
            .lines()
            .nth(mark.line().saturating_sub(1))
            .unwrap_or_default();
        let indent = line.len() - line.trim_start().len();
        if line[..indent].contains('\t') {
            return diagnostic.help("the line is indented with a tab; YAML wants spaces");
        }
        if line.contains("${") {
            return diagnostic.help(
                "inside `{…}` and `[…]` a variable stands in quotes, which make it text; for a number,\n\
                 write the fields on lines of their own",
            );
        }
        diagnostic
    }

    fn event(&mut self, event: Event<'_>, place: Place) -> Result<(), Diagnostic> {
        let refuse = |builder: &Self, title: &str| Err(builder.report.error("W0106", place, title));
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                return refuse(self, "a second document: a job file holds one job");
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => return Ok(()),
            Event::Scalar(ref text, style, anchor, ref tag) => {
                self.refuse_tag(tag.is_some(), place);
                if self.wants_key() {
                    return self.key(text, style == ScalarStyle::Plain, place);
                }
                let node = Node {
                    place,
                    value: self.scalar(text, style, place),
                };
                self.complete(node, anchor)
            }
            Event::Alias(_) | Event::SequenceStart(..) | Event::MappingStart(..)
                if self.wants_key() =>
            {
                return refuse(self, "a key that is not plain text");
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => {
                    let node = node.clone();
                    self.bytes += size(&node);
                    self.complete(node, 0)
                }
                None => return refuse(self, "an alias inside what it stands for"),
            },
            Event::SequenceStart(anchor, ref tag) => {
                self.refuse_tag(tag.is_some(), place);
                self.open(Open {
                    place,
                    anchor,
                    content: Content::List(Vec::new()),
                })
            }
            Event::MappingStart(anchor, ref tag) => {
                self.refuse_tag(tag.is_some(), place);
                let content = Content::Map {
                    entries: Vec::new(),
                    keys: HashMap::new(),
                    key: None,
                };
                self.open(Open {
                    place,
                    anchor,
                    content,
                })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Open {
                    place,
                    anchor,
                    content,
                } = self
                    .open
                    .pop()
                    .expect("the parser closes only what it opened");
                let value = match content {
                    Content::List(items) => Value::List(items),
                    Content::Map { entries, .. } => Value::Map(entries),
                };
                self.complete(Node { place, value }, anchor)
            }
        }
        if self.open.len() > MAX_DEPTH {
            let title = format!("nested more than {MAX_DEPTH} deep");
            return Err(self.report.error("W0123", place, title));
        }
        if self.bytes > MAX_TREE_BYTES {
            return Err(self
                .report
                .error("W0123", place, "the job file is too large to hold")
                .note("with aliases and variables filled in it is over 32 MiB"));
        }
        Ok(())
    }

    fn refuse_tag(&self, tagged: bool, place: Place) {
        if tagged {
            self.report.push(
                self.report
                    .error("W0106", place, "a tag (`!…`); job files do without")
                    .help("leave it out; quotes make a value text"),
            );
        }
    }

    fn wants_key(&self) -> bool {
        matches!(
            self.open.last(),
            Some(Open {
                content: Content::Map { key: None, .. },
                ..
            })
        )
    }

    fn key(&mut self, text: &str, plain: bool, place: Place) -> Result<(), Diagnostic> {
        let Some(Open {
            content: Content::Map { keys, key, .. },
            ..
        }) = self.open.last_mut()
        else {
            unreachable!("called only where `wants_key`");
        };
        let first = keys.get(text).copied();
        *key = Some((
            text.to_owned(),
            place,
            first.is_some() || (plain && text == "<<"),
        ));
        self.bytes += NODE_BYTES + text.len();
        if let Some(first) = first {
            self.report.push(
                self.report
                    .error(
                        "W0107",
                        place,
                        format!("`{}` stands here twice", shorten(text)),
                    )
                    .note(format!(
                        "the first one is at {}:{}",
                        first.line, first.column
                    )),
            );
        } else if plain && text == "<<" {
            self.report.push(
                self.report
                    .error("W0106", place, "a merge key (`<<`); YAML 1.2 has none")
                    .help("write the fields out, or give the whole value an alias"),
            );
        } else {
            keys.insert(text.to_owned(), place);
        }
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, place: Place) -> Value {
        match substitute(text, self.environment) {
            Ok(replaced) => {
                self.bytes += NODE_BYTES + replaced.len();
                Value::Scalar {
                    plain: style == ScalarStyle::Plain,
                    substituted: text.contains("${"),
                    text: replaced.into_owned(),
                }
            }
            Err(problem) => {
                self.report.push(
                    self.report
                        .error("W0108", place, problem.title)
                        .help(problem.help),
                );
                Value::Broken
            }
        }
    }

    fn open(&mut self, open: Open) {
        self.bytes += NODE_BYTES;
        self.open.push(open);
    }

    /// Puts a finished value where it belongs.
    fn complete(&mut self, node: Node, anchor: usize) {
        if anchor != 0 {
            self.bytes += size(&node);
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map { entries, key, .. }) => {
                let (key, key_place, refused) =
                    key.take().expect("in a mapping a value follows its key");
                if !refused {
                    entries.push(Entry {
                        key,
                        key_place,
                        node,
                    });
                }
            }
        }
    }
}

/// Bytes that a copy of `node` counts for.
fn size(node: &Node) -> usize {
    NODE_BYTES
        + match &node.value {
            Value::Scalar { text, .. } => text.len(),
            Value::List(items) => items.iter().map(size).sum(),
            Value::Map(entries) => entries
                .iter()
                .map(|entry| NODE_BYTES + entry.key.len() + size(&entry.node))
                .sum(),
            Value::Broken => 0,
        }
}

/// `text` for a message: its first line, cut at 40 characters.
pub(super) fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(40).filter(|c| !c.is_control()).collect();
    if cut.len() == text.len() {
        cut
    } else {
        format!("{cut}…")
    }
}
