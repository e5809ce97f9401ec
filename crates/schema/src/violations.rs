//! What is wrong with a value that does not fit: a few short complaints, found within a budget too.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::check::Check;
use crate::error::{Complaint, Complexity, abbreviated};
use crate::node::{Node, NodeId, ObjectNode};

/// How much of a value is repeated in a complaint about it, in characters.
const QUOTED: usize = 80;

/// How many names one complaint lists.
const NAMES: usize = 10;

/// Lists what is wrong. The budget of the check pays for it, and where that is used up, the complaints
/// that were found must do.
pub(crate) fn explain(mut check: Check<'_>, value: &Value) -> Vec<Complaint> {
    let root = check.schema.root;
    check.replenish();
    let mut explanation = Explanation {
        check,
        path: String::new(),
        depth: 0,
        explained: HashSet::new(),
        found: Vec::new(),
    };
    let complete = explanation.node(root, value);
    if explanation.found.is_empty() {
        let message = match complete {
            Ok(()) => "it does not fit".to_owned(),
            Err(complexity) => format!("it does not fit, and why is not known: {complexity}"),
        };
        explanation.complain(message);
    }
    explanation.found
}

struct Explanation<'s> {
    check: Check<'s>,
    /// JSON pointer to the value that is looked at.
    path: String,
    depth: usize,
    /// Which schemas were held against which values, by the values' addresses. Once is enough.
    explained: HashSet<(NodeId, *const Value)>,
    found: Vec<Complaint>,
}

type Explained = Result<(), Complexity>;

impl Explanation<'_> {
    fn is_full(&self) -> bool {
        self.found.len() >= self.check.schema.limits.complaints
    }

    fn complain(&mut self, message: String) {
        let complaint = Complaint {
            path: self.path.clone(),
            message,
        };
        if !self.is_full() && !self.found.contains(&complaint) {
            self.found.push(complaint);
        }
    }

    /// Explains one part of the value.
    fn part(&mut self, place: &str, id: NodeId, value: &Value) -> Explained {
        let length = self.path.len();
        let _ = write!(
            self.path,
            "/{}",
            place.replace('~', "~0").replace('/', "~1")
        );
        let explained = self.node(id, value);
        self.path.truncate(length);
        explained
    }

    fn node(&mut self, id: NodeId, value: &Value) -> Explained {
        let is_new = self.explained.insert((id, std::ptr::from_ref(value)));
        if self.is_full() || !is_new || self.check.fits(id, value)? {
            return Ok(());
        }
        let limit = self.check.schema.limits.depth;
        if self.depth >= limit {
            return Err(Complexity::Depth(limit));
        }
        self.depth += 1;
        let explained = self.unfit(id, value);
        self.depth -= 1;
        explained
    }

    /// Explains why a value does not fit a schema.
    fn unfit(&mut self, id: NodeId, value: &Value) -> Explained {
        match self.check.schema.node(id) {
            Node::Bool(_) => {
                let message = format!("nothing is allowed here, and {} is given", quoted(value));
                self.complain(message);
                Ok(())
            }
            Node::Meta(_) => {
                self.complain(format!("{} is no JSON Schema", quoted(value)));
                Ok(())
            }
            Node::Object(node) => {
                self.check.pay(1)?;
                self.leaf(node, value)?;
                self.in_place(node, value)?;
                match value {
                    Value::Object(fields) => self.fields(node, fields, value),
                    Value::Array(items) => self.items(node, items, value),
                    _ => Ok(()),
                }
            }
        }
    }

    fn leaf(&mut self, node: &ObjectNode, value: &Value) -> Explained {
        let Some(leaf) = &node.leaf else {
            return Ok(());
        };
        self.check.pay(leaf.steps(value))?;
        for message in leaf.complaints(value, &self.check.schema.limits) {
            self.complain(message);
        }
        Ok(())
    }

    fn in_place(&mut self, node: &ObjectNode, value: &Value) -> Explained {
        for id in node.references.iter().chain(&node.all_of) {
            self.node(*id, value)?;
        }
        let no_alternative = |keyword| {
            format!(
                "{} is not valid under any of the schemas listed in the '{keyword}' keyword",
                quoted(value)
            )
        };
        if let Some(any_of) = &node.any_of
            && self.check.fitting(any_of, value, 1)? == 0
        {
            self.complain(no_alternative("anyOf"));
        }
        if let Some(one_of) = &node.one_of {
            match self.check.fitting(one_of, value, 2)? {
                0 => self.complain(no_alternative("oneOf")),
                1 => {}
                _ => self.complain(format!(
                    "{} is valid under more than one of the schemas listed in the 'oneOf' keyword",
                    quoted(value)
                )),
            }
        }
        if let Some(not) = node.not
            && self.check.fits(not, value)?
        {
            self.complain(format!("{} is what the schema excludes", quoted(value)));
        }
        match self.check.branch(node, value)? {
            Some(branch) => self.node(branch, value),
            None => Ok(()),
        }
    }

    fn fields(
        &mut self,
        node: &ObjectNode,
        fields: &Map<String, Value>,
        value: &Value,
    ) -> Explained {
        for dependent in &node.dependents {
            if fields.contains_key(&dependent.name) {
                self.node(dependent.node, value)?;
            }
        }
        if !node.looks_into_objects() {
            return Ok(());
        }
        let mut unexpected = Vec::new();
        for (name, field) in fields {
            for schema in self.check.schemas_of(node, name)? {
                let is_closed = matches!(self.check.schema.node(schema), Node::Bool(false));
                if is_closed && Some(schema) == node.additional {
                    unexpected.push(name.as_str());
                } else {
                    self.part(name, schema, field)?;
                }
            }
            if let Some(names) = node.names
                && !self.check.name_fits(names, name)?
            {
                let name = abbreviated(name, QUOTED);
                self.complain(format!("the name '{name}' does not fit"));
            }
            if self.is_full() {
                return Ok(());
            }
        }
        self.unexpected("Additional", &unexpected);
        let Some(unevaluated) = node.unevaluated_properties else {
            return Ok(());
        };
        let mut unexpected = Vec::new();
        for name in self.check.unevaluated_fields(node, fields, value)? {
            if !self.check.fits(unevaluated, &fields[name])? {
                unexpected.push(name);
            }
        }
        self.unexpected("Unevaluated", &unexpected);
        Ok(())
    }

    fn unexpected(&mut self, kind: &str, names: &[&str]) {
        let were = match names.len() {
            0 => return,
            1 => "was",
            _ => "were",
        };
        let mut listed: Vec<String> = names
            .iter()
            .take(NAMES)
            .map(|name| format!("'{}'", abbreviated(name, QUOTED)))
            .collect();
        if names.len() > NAMES {
            listed.push(format!("{} more", names.len() - NAMES));
        }
        let listed = listed.join(", ");
        self.complain(format!(
            "{kind} properties are not allowed ({listed} {were} unexpected)"
        ));
    }

    fn items(&mut self, node: &ObjectNode, items: &[Value], value: &Value) -> Explained {
        if !node.looks_into_arrays() {
            return Ok(());
        }
        for (index, item) in items.iter().enumerate() {
            let Some(schema) = node.prefix.get(index).copied().or(node.items) else {
                break;
            };
            self.part(&index.to_string(), schema, item)?;
            if self.is_full() {
                return Ok(());
            }
        }
        if let Some(contains) = &node.contains {
            let mut found = 0;
            for item in items {
                found += u64::from(self.check.fits(contains.node, item)?);
            }
            if found < contains.least {
                let message = if found == 0 {
                    format!("None of {} are valid under the given schema", quoted(value))
                } else {
                    format!(
                        "{} has too few items of the kind that it must contain",
                        quoted(value)
                    )
                };
                self.complain(message);
            } else if contains.most.is_some_and(|most| found > most) {
                self.complain(format!(
                    "{} has too many items of the kind that it must contain",
                    quoted(value)
                ));
            }
        }
        let Some(unevaluated) = node.unevaluated_items else {
            return Ok(());
        };
        for index in self.check.unevaluated_items(node, items, value)? {
            self.part(&index.to_string(), unevaluated, &items[index])?;
        }
        Ok(())
    }
}

fn quoted(value: &Value) -> String {
    abbreviated(value, QUOTED)
}
