//! The reference of the operator contract: every item of the WIT package with its documentation, as Markdown with links.

use std::fmt::Write;

use wit_parser::{
    Docs, Function, Interface, Resolve, Type, TypeDef, TypeDefKind, TypeOwner, World, WorldItem,
};

use super::cell;
use crate::documents::anchor;

/// The page of the one package in `wit`.
///
/// # Panics
/// It is no WIT, has a form that this page has no words for, or an item without documentation.
pub fn page(wit: &str) -> String {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("operator.wit", wit).expect("it is WIT");
    let package = &resolve.packages[package];
    let writer = Writer { resolve: &resolve };
    let mut page = format!(
        "# The operator contract: reference\n\n\
         `{}`. [Writing operators](writing-operators.md) explains how the Rust SDK shows it; this page is for authors of\n\
         SDKs, and of operators in other languages.\n\n\
         It is made from [`wit/operator.wit`](../wit/operator.wit) and says nothing else. After a change there,\n\
         `WEIR_BLESS=1 cargo test --release --workspace --test references` rewrites it.\n\n{}\n",
        package.name,
        docs(&package.docs, "the package")
    );
    page.push_str("\n## Contents\n\n| interface | |\n|---|---|\n");
    for (name, &id) in &package.interfaces {
        let interface = &resolve.interfaces[id];
        let items = interface.types.keys().filter(|item| {
            let kind = &resolve.types[interface.types[*item]].kind;
            !matches!(kind, TypeDefKind::Type(_))
        });
        let items = items.chain(interface.functions.keys());
        let items: Vec<_> = items.map(|item| link(name, item)).collect();
        let _ = writeln!(
            page,
            "| [`{name}`](#{}) | {} |",
            anchor(&heading(name)),
            items.join(", ")
        );
    }
    for &world in package.worlds.values() {
        writer.world(&mut page, &resolve.worlds[world]);
    }
    for &interface in package.interfaces.values() {
        writer.interface(&mut page, &resolve.interfaces[interface]);
    }
    page
}

fn heading(interface: &str) -> String {
    format!("Interface `{interface}`")
}

/// A link to an item of an interface.
fn link(interface: &str, item: &str) -> String {
    let target = anchor(&format!("{interface}.{item}"));
    format!("[`{item}`](#{target})")
}

fn docs<'a>(docs: &'a Docs, what: &str) -> &'a str {
    let text = docs.contents.as_deref().unwrap_or_default().trim();
    assert!(!text.is_empty(), "{what} has no documentation");
    text
}

struct Writer<'a> {
    resolve: &'a Resolve,
}

impl Writer<'_> {
    fn world(&self, page: &mut String, world: &World) {
        let text = docs(&world.docs, &world.name);
        let _ = write!(page, "\n## World `{}`\n\n{text}\n\n", world.name);
        for (items, what) in [
            (&world.imports, "may import"),
            (&world.exports, "must export"),
        ] {
            let names: Vec<_> = items.values().map(|item| self.item(item)).collect();
            let _ = writeln!(page, "* It {what} {}.", names.join(", "));
        }
    }

    fn item(&self, item: &WorldItem) -> String {
        let WorldItem::Interface { id, .. } = item else {
            panic!("a world of interfaces only");
        };
        let name = self.resolve.interfaces[*id].name.as_deref();
        let name = name.expect("interfaces of a package have names");
        format!("[`{name}`](#{})", anchor(&heading(name)))
    }

    fn interface(&self, page: &mut String, interface: &Interface) {
        let name = interface.name.as_deref();
        let name = name.expect("interfaces of a package have names");
        let text = docs(&interface.docs, name);
        let _ = write!(page, "\n## {}\n\n{text}\n", heading(name));
        for (item, &id) in &interface.types {
            // What another interface's type is called here has no meaning of its own.
            let definition = &self.resolve.types[id];
            if !matches!(definition.kind, TypeDefKind::Type(_)) {
                self.definition(page, name, item, definition);
            }
        }
        for function in interface.functions.values() {
            self.function(page, name, function);
        }
    }

    fn definition(&self, page: &mut String, interface: &str, name: &str, definition: &TypeDef) {
        let text = docs(&definition.docs, name);
        let _ = write!(page, "\n### `{interface}.{name}`\n\n");
        match &definition.kind {
            TypeDefKind::Record(record) => {
                let _ = write!(
                    page,
                    "Record. {text}\n\n| field | type | meaning |\n|---|---|---|\n"
                );
                for field in &record.fields {
                    let text = docs(&field.docs, &field.name);
                    let kind = self.kind(&field.ty);
                    let _ = writeln!(page, "| `{}` | {kind} | {} |", field.name, cell(text));
                }
            }
            TypeDefKind::Enum(words) => {
                let _ = write!(
                    page,
                    "Enumeration. {text}\n\n| case | meaning |\n|---|---|\n"
                );
                for word in &words.cases {
                    let text = docs(&word.docs, &word.name);
                    let _ = writeln!(page, "| `{}` | {} |", word.name, cell(text));
                }
            }
            kind => {
                let _ = writeln!(page, "Another name for {}. {text}", self.form(kind));
            }
        }
    }

    fn function(&self, page: &mut String, interface: &str, function: &Function) {
        let name = &function.name;
        let text = docs(&function.docs, name);
        let _ = write!(page, "\n### `{interface}.{name}`\n\n");
        let takes = function.params.iter();
        let takes = takes.map(|param| format!("`{}`: {}", param.name, self.kind(&param.ty)));
        let takes = takes.collect::<Vec<_>>().join(", ");
        let returns = function.result.as_ref().map(|kind| self.kind(kind));
        let returns = returns.unwrap_or_else(|| "nothing".to_owned());
        let _ = write!(page, "Function ({takes}) → {returns}\n\n{text}\n");
    }

    /// A type where it is used.
    fn kind(&self, kind: &Type) -> String {
        let id = match kind {
            Type::Bool => return "`bool`".to_owned(),
            Type::U8 => return "`u8`".to_owned(),
            Type::U32 => return "`u32`".to_owned(),
            Type::U64 => return "`u64`".to_owned(),
            Type::S64 => return "`s64`".to_owned(),
            Type::String => return "`string`".to_owned(),
            Type::Id(id) => *id,
            other => panic!("the reference has no words for {other:?}"),
        };
        let definition = &self.resolve.types[id];
        match (&definition.kind, &definition.name, definition.owner) {
            // Where it is only called by its name, the link leads to where it is defined.
            (TypeDefKind::Type(of), _, _) => self.kind(of),
            (_, Some(name), TypeOwner::Interface(interface)) => {
                let interface = self.resolve.interfaces[interface].name.as_deref();
                link(interface.expect("interfaces of a package have names"), name)
            }
            (form, _, _) => self.form(form),
        }
    }

    /// A type that has no name.
    fn form(&self, form: &TypeDefKind) -> String {
        match form {
            TypeDefKind::List(of) => format!("list of {}", self.kind(of)),
            TypeDefKind::Option(of) => format!("optional {}", self.kind(of)),
            TypeDefKind::Tuple(tuple) => {
                let types: Vec<_> = tuple.types.iter().map(|kind| self.kind(kind)).collect();
                format!("({})", types.join(", "))
            }
            TypeDefKind::Result(result) => {
                let of = |kind: &Option<Type>| {
                    kind.as_ref()
                        .map_or("nothing".to_owned(), |kind| self.kind(kind))
                };
                format!("{}, or the error {}", of(&result.ok), of(&result.err))
            }
            other => panic!("the reference has no words for {}", other.as_str()),
        }
    }
}
