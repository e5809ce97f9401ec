//! Warns about keys and passwords written into a file instead of being taken from the environment.

use crate::diagnostic::Diagnostic;
use crate::document::Document;
use crate::environment::has_variable;
use crate::yaml::{Kind, Node, push};

/// Suffixes of keys whose values are secrets.
const SECRET_KEYS: [&str; 7] = [
    "api_key",
    "apikey",
    "authorization",
    "token",
    "secret",
    "password",
    "x-api-key",
];

/// Warns about every secret written below a JSON pointer, without showing its value.
pub(crate) fn check(document: &Document, pointer: &str) -> Vec<Diagnostic> {
    let Some(node) = document.written.find(pointer) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    collect(node, &mut pointer.to_owned(), &mut found);
    found
        .into_iter()
        .map(|pointer| {
            let key = pointer.rsplit('/').next().unwrap_or_default();
            document
                .warning(
                    &pointer,
                    "app.secret_in_file",
                    format!("the file contains the value of `{key}`"),
                )
                .without_excerpt()
                .help(format!(
                    "write `${{{}}}` and set that variable in the environment",
                    key.to_uppercase().replace('-', "_")
                ))
        })
        .collect()
}

fn collect(node: &Node, pointer: &mut String, found: &mut Vec<String>) {
    let length = pointer.len();
    for (index, item) in node.items().iter().enumerate() {
        push(pointer, &index.to_string());
        collect(item, pointer, found);
        pointer.truncate(length);
    }
    for entry in node.entries() {
        push(pointer, &entry.key);
        let key = entry.key.to_lowercase();
        match &entry.node.kind {
            Kind::Text(text) => {
                if SECRET_KEYS.iter().any(|secret| key.ends_with(secret))
                    && !text.is_empty()
                    && !has_variable(text)
                {
                    found.push(pointer.clone());
                }
            }
            _ => collect(&entry.node, pointer, found),
        }
        pointer.truncate(length);
    }
}
