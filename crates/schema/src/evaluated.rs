//! Finds the fields and items that no other keyword has evaluated, for `unevaluatedProperties` and
//! `unevaluatedItems`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::check::Check;
use crate::error::Complexity;
use crate::node::{Node, NodeId, ObjectNode};

impl Check<'_> {
    /// The fields that an object's schema leaves to `unevaluatedProperties`.
    pub(crate) fn unevaluated_fields<'v>(
        &mut self,
        node: &ObjectNode,
        fields: &'v Map<String, Value>,
        value: &'v Value,
    ) -> Result<Vec<&'v str>, Complexity> {
        let mut seen = HashSet::new();
        self.mark_own_fields(node, fields, &mut seen)?;
        for schema in self.applied_schemas(node, value)? {
            self.mark_fields(schema, fields, value, &mut seen)?;
        }
        let names = fields.keys().map(String::as_str);
        Ok(names.filter(|name| !seen.contains(name)).collect())
    }

    /// Marks the fields that a schema evaluates, if the object matches it.
    fn mark_fields<'v>(
        &mut self,
        id: NodeId,
        fields: &'v Map<String, Value>,
        value: &'v Value,
        seen: &mut HashSet<&'v str>,
    ) -> Result<(), Complexity> {
        self.charge(1)?;
        let Node::Object(node) = self.schema.node(id) else {
            return Ok(());
        };
        if node.unevaluated_properties.is_some() {
            self.charge(fields.len() as u64)?;
            seen.extend(fields.keys().map(String::as_str));
            return Ok(());
        }
        self.mark_own_fields(node, fields, seen)?;
        self.nested(|check| {
            for schema in check.applied_schemas(node, value)? {
                check.mark_fields(schema, fields, value, seen)?;
            }
            Ok(())
        })
    }

    fn mark_own_fields<'v>(
        &mut self,
        node: &ObjectNode,
        fields: &'v Map<String, Value>,
        seen: &mut HashSet<&'v str>,
    ) -> Result<(), Complexity> {
        if node.properties.is_empty() && node.patterns.is_empty() && node.additional.is_none() {
            return Ok(());
        }
        for name in fields.keys() {
            if !self.schemas_of(node, name)?.is_empty() {
                seen.insert(name);
            }
        }
        Ok(())
    }

    /// The items that an array's schema leaves to `unevaluatedItems`.
    pub(crate) fn unevaluated_items(
        &mut self,
        node: &ObjectNode,
        items: &[Value],
        value: &Value,
    ) -> Result<Vec<usize>, Complexity> {
        self.charge(items.len() as u64)?;
        let mut seen = vec![false; items.len()];
        self.mark_own_items(node, items, &mut seen)?;
        for schema in self.applied_schemas(node, value)? {
            self.mark_items(schema, items, value, &mut seen)?;
        }
        Ok((0..items.len()).filter(|index| !seen[*index]).collect())
    }

    fn mark_items(
        &mut self,
        id: NodeId,
        items: &[Value],
        value: &Value,
        seen: &mut [bool],
    ) -> Result<(), Complexity> {
        self.charge(1)?;
        let Node::Object(node) = self.schema.node(id) else {
            return Ok(());
        };
        if node.unevaluated_items.is_some() {
            self.charge(items.len() as u64)?;
            seen.fill(true);
            return Ok(());
        }
        self.mark_own_items(node, items, seen)?;
        self.nested(|check| {
            for schema in check.applied_schemas(node, value)? {
                check.mark_items(schema, items, value, seen)?;
            }
            Ok(())
        })
    }

    fn mark_own_items(
        &mut self,
        node: &ObjectNode,
        items: &[Value],
        seen: &mut [bool],
    ) -> Result<(), Complexity> {
        let count = if node.items.is_some() {
            items.len()
        } else {
            items.len().min(node.prefix.len())
        };
        self.charge(count as u64)?;
        seen[..count].fill(true);
        if let Some(contains) = &node.contains {
            for (item, seen) in items.iter().zip(seen) {
                *seen |= self.matches(contains.node, item)?;
            }
        }
        Ok(())
    }

    /// The schemas that apply to the value itself and that the value matches.
    fn applied_schemas(
        &mut self,
        node: &ObjectNode,
        value: &Value,
    ) -> Result<Vec<NodeId>, Complexity> {
        let mut applied: Vec<NodeId> = node.references.clone();
        applied.extend(&node.all_of);
        for id in [&node.any_of, &node.one_of].into_iter().flatten().flatten() {
            if self.matches(*id, value)? {
                applied.push(*id);
            }
        }
        if let Some(condition) = &node.condition {
            if self.matches(condition.when, value)? {
                applied.push(condition.when);
                applied.extend(condition.then);
            } else {
                applied.extend(condition.otherwise);
            }
        }
        if let Value::Object(fields) = value {
            let due = node
                .dependents
                .iter()
                .filter(|dependent| dependent.evaluates && fields.contains_key(&dependent.name));
            applied.extend(due.map(|dependent| dependent.node));
        }
        Ok(applied)
    }
}
