//! YAML as it is written: what reads it decides what a scalar is.

use std::fmt;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Text, and whether it is in quotes.
    Scalar(String, bool),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<(String, Node)>),
}

/// Reads a document without anchors.
///
/// # Panics
/// It is no YAML, or not one of these forms.
pub fn read(text: &str) -> Node {
    let mut events = Parser::new_from_str(text).map(|event| event.expect("it is YAML").0);
    while let Some(event) = events.next() {
        if let Event::StreamStart | Event::DocumentStart(_) = event {
            continue;
        }
        return value(event, &mut events);
    }
    panic!("there is no value in:\n{text}")
}

fn value<'a>(event: Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Node {
    match event {
        Event::Scalar(text, style, ..) => {
            Node::Scalar(text.into_owned(), !matches!(style, ScalarStyle::Plain))
        }
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match events.next().expect("what begins ends") {
                    Event::SequenceEnd => return Node::List(items),
                    event => items.push(value(event, events)),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut fields = Vec::new();
            loop {
                match events.next().expect("what begins ends") {
                    Event::MappingEnd => return Node::Map(fields),
                    Event::Scalar(key, ..) => {
                        let event = events.next().expect("a key has a value");
                        fields.push((key.into_owned(), value(event, events)));
                    }
                    other => panic!("not a key: {other:?}"),
                }
            }
        }
        other => panic!("not a form that jobs in documents use: {other:?}"),
    }
}

impl fmt::Display for Node {
    /// On one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Scalar(text, false) => f.write_str(text),
            Node::Scalar(text, true) => write!(f, "{text:?}"),
            Node::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Node::Map(fields) => {
                f.write_str("{")?;
                for (index, (key, node)) in fields.iter().enumerate() {
                    write!(f, "{}{key}: {node}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}
