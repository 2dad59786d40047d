//! Where the values of an operator's `config:` stand, for what its component finds wrong with them later.

use std::collections::BTreeMap;

use crate::config_schema::below;
use crate::job::model::{ConfigPlace, Place};
use crate::job::print::is_secret;
use crate::job::tree::{Node, Value};

/// By JSON pointer; empty where operator `id` has no `config:`.
pub(super) fn places(tree: &Node, id: &str) -> BTreeMap<String, ConfigPlace> {
    let operator = tree
        .child("operators")
        .and_then(|(_, operators)| operators.child(id));
    let mut places = BTreeMap::new();
    if let Some((key, config)) = operator.and_then(|(_, operator)| operator.child("config")) {
        collect(config, key, false, "", &mut places);
    }
    places
}

fn collect(
    node: &Node,
    key: Place,
    secret: bool,
    pointer: &str,
    places: &mut BTreeMap<String, ConfigPlace>,
) {
    let (value, secret) = match &node.value {
        Value::Scalar { substituted, .. } => (node.place, secret || *substituted),
        _ => (key, secret),
    };
    let place = ConfigPlace { key, value, secret };
    places.insert(pointer.to_owned(), place);
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                let secret = secret || is_secret(&entry.key);
                let pointer = below(pointer, &entry.key);
                collect(&entry.node, entry.key_place, secret, &pointer, places);
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let pointer = below(pointer, &index.to_string());
                collect(item, item.place, secret, &pointer, places);
            }
        }
        Value::Scalar { .. } | Value::Broken => {}
    }
}
