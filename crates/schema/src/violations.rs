//! Explains why a value does not match: a few short violations, also within a budget.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::check::Check;
use crate::error::{Complexity, Violation, abbreviated};
use crate::node::{Node, NodeId, ObjectNode};

/// Limit of the excerpt of a value in a message, in characters.
const EXCERPT_CHARACTERS: usize = 80;

/// Limit of property names listed in one message.
const MAX_LISTED_NAMES: usize = 10;

/// Lists the violations. Charged to the check's budget; when that is used up, the list is incomplete.
pub(crate) fn explain(mut check: Check<'_>, value: &Value) -> Vec<Violation> {
    let root = check.schema.root;
    check.replenish();
    let mut explainer = Explainer {
        check,
        path: String::new(),
        depth: 0,
        explained: HashSet::new(),
        found: Vec::new(),
    };
    let complete = explainer.node(root, value);
    if explainer.found.is_empty() {
        let message = match complete {
            Ok(()) => "does not match the schema".to_owned(),
            Err(complexity) => {
                format!("does not match the schema; the reason is unknown: {complexity}")
            }
        };
        explainer.report(message);
    }
    explainer.found
}

struct Explainer<'s> {
    check: Check<'s>,
    /// JSON pointer to the current part of the value.
    path: String,
    depth: usize,
    /// Pairs already explained, so that each is reported once. Values are keyed by address.
    explained: HashSet<(NodeId, *const Value)>,
    found: Vec<Violation>,
}

type ExplainResult = Result<(), Complexity>;

impl Explainer<'_> {
    fn is_full(&self) -> bool {
        self.found.len() >= self.check.schema.limits.violations
    }

    fn report(&mut self, message: String) {
        let violation = Violation {
            path: self.path.clone(),
            message,
        };
        if !self.is_full() && !self.found.contains(&violation) {
            self.found.push(violation);
        }
    }

    /// Explains one field or item of the current value.
    fn part(&mut self, place: &str, id: NodeId, value: &Value) -> ExplainResult {
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

    fn node(&mut self, id: NodeId, value: &Value) -> ExplainResult {
        let is_new = self.explained.insert((id, std::ptr::from_ref(value)));
        if self.is_full() || !is_new || self.check.matches(id, value)? {
            return Ok(());
        }
        let limit = self.check.schema.limits.depth;
        if self.depth >= limit {
            return Err(Complexity::Depth(limit));
        }
        self.depth += 1;
        let explained = self.explain_mismatch(id, value);
        self.depth -= 1;
        explained
    }

    fn explain_mismatch(&mut self, id: NodeId, value: &Value) -> ExplainResult {
        match self.check.schema.node(id) {
            Node::Bool(_) => {
                let message = format!("no value is allowed here, got {}", quoted(value));
                self.report(message);
                Ok(())
            }
            Node::Meta(_) => {
                self.report(format!("{} is not a JSON Schema", quoted(value)));
                Ok(())
            }
            Node::Object(node) => {
                self.check.charge(1)?;
                self.leaf(node, value)?;
                self.in_place_keywords(node, value)?;
                match value {
                    Value::Object(fields) => self.fields(node, fields, value),
                    Value::Array(items) => self.items(node, items, value),
                    _ => Ok(()),
                }
            }
        }
    }

    fn leaf(&mut self, node: &ObjectNode, value: &Value) -> ExplainResult {
        let Some(leaf) = &node.leaf else {
            return Ok(());
        };
        self.check.charge(leaf.steps(value))?;
        for message in leaf.violations(value, &self.check.schema.limits) {
            self.report(message);
        }
        Ok(())
    }

    fn in_place_keywords(&mut self, node: &ObjectNode, value: &Value) -> ExplainResult {
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
            && self.check.count_matches(any_of, value, 1)? == 0
        {
            self.report(no_alternative("anyOf"));
        }
        if let Some(one_of) = &node.one_of {
            match self.check.count_matches(one_of, value, 2)? {
                0 => self.report(no_alternative("oneOf")),
                1 => {}
                _ => self.report(format!(
                    "{} is valid under more than one of the schemas listed in the 'oneOf' keyword",
                    quoted(value)
                )),
            }
        }
        if let Some(not) = node.not
            && self.check.matches(not, value)?
        {
            self.report(format!(
                "{} is excluded by the 'not' keyword",
                quoted(value)
            ));
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
    ) -> ExplainResult {
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
                && !self.check.matches_name(names, name)?
            {
                let name = abbreviated(name, EXCERPT_CHARACTERS);
                self.report(format!(
                    "the property name '{name}' does not match 'propertyNames'"
                ));
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
            if !self.check.matches(unevaluated, &fields[name])? {
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
            .take(MAX_LISTED_NAMES)
            .map(|name| format!("'{}'", abbreviated(name, EXCERPT_CHARACTERS)))
            .collect();
        if names.len() > MAX_LISTED_NAMES {
            listed.push(format!("{} more", names.len() - MAX_LISTED_NAMES));
        }
        let listed = listed.join(", ");
        self.report(format!(
            "{kind} properties are not allowed ({listed} {were} unexpected)"
        ));
    }

    fn items(&mut self, node: &ObjectNode, items: &[Value], value: &Value) -> ExplainResult {
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
                found += u64::from(self.check.matches(contains.node, item)?);
            }
            if found < contains.least {
                let message = if found == 0 {
                    format!("None of {} are valid under the given schema", quoted(value))
                } else {
                    format!(
                        "{} has too few items that match the 'contains' keyword",
                        quoted(value)
                    )
                };
                self.report(message);
            } else if contains.most.is_some_and(|most| found > most) {
                self.report(format!(
                    "{} has too many items that match the 'contains' keyword",
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
    abbreviated(value, EXCERPT_CHARACTERS)
}
