//! Checks whether a value matches a schema, within a budget of steps.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::Schema;
use crate::error::Complexity;
use crate::leaf::{Leaf, values_in};
use crate::node::{Node, NodeId, ObjectNode};

/// Whether something holds; `Complexity` if a limit was reached before that was results.
pub(crate) type Answer = Result<bool, Complexity>;

/// One running check of one value.
pub(crate) struct Check<'s> {
    pub(crate) schema: &'s Schema,
    budget: u64,
    remaining: u64,
    depth: usize,
    /// Results so far. Keyed by the value's address, so that no value is cloned or compared.
    results: HashMap<(NodeId, *const Value), bool>,
}

impl<'s> Check<'s> {
    pub(crate) fn new(schema: &'s Schema, budget: u64) -> Self {
        Self {
            schema,
            budget,
            remaining: budget,
            depth: 0,
            results: HashMap::new(),
        }
    }

    /// Charges for work before it is done.
    pub(crate) fn charge(&mut self, steps: u64) -> Result<(), Complexity> {
        self.remaining = self
            .remaining
            .checked_sub(steps)
            .ok_or(Complexity::Steps(self.budget))?;
        Ok(())
    }

    /// Guarantees a quarter of the budget for explaining a mismatch.
    pub(crate) fn replenish(&mut self) {
        self.remaining = self.remaining.max(self.budget / 4);
    }

    /// Runs `work` one level deeper, within the limit on depth.
    pub(crate) fn nested<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Complexity>,
    ) -> Result<T, Complexity> {
        let limit = self.schema.limits.depth;
        if self.depth >= limit {
            return Err(Complexity::Depth(limit));
        }
        self.depth += 1;
        let outcome = work(self);
        self.depth -= 1;
        outcome
    }

    pub(crate) fn matches(&mut self, id: NodeId, value: &Value) -> Answer {
        self.charge(1)?;
        match self.schema.node(id) {
            Node::Bool(answer) => Ok(*answer),
            Node::Meta(draft) => {
                self.charge(values_in(value).saturating_mul(8))?;
                self.within_depth(value)?;
                Ok(match draft {
                    jsonschema::Draft::Draft201909 => {
                        jsonschema::draft201909::meta::is_valid(value)
                    }
                    _ => jsonschema::draft202012::meta::is_valid(value),
                })
            }
            Node::Object(node) if node.is_composed() => {
                let key = (id, std::ptr::from_ref(value));
                if let Some(answer) = self.results.get(&key) {
                    return Ok(*answer);
                }
                let answer = self.nested(|check| check.matches_object(node, value))?;
                self.results.insert(key, answer);
                Ok(answer)
            }
            Node::Object(node) => self.matches_leaf(node.leaf.as_deref(), value),
        }
    }

    pub(crate) fn matches_leaf(&mut self, leaf: Option<&Leaf>, value: &Value) -> Answer {
        let Some(leaf) = leaf else { return Ok(true) };
        self.charge(leaf.steps(value))?;
        Ok(leaf.is_valid(value))
    }

    /// Runs the checks from cheap to costly.
    fn matches_object(&mut self, node: &ObjectNode, value: &Value) -> Answer {
        Ok(self.matches_leaf(node.leaf.as_deref(), value)?
            && self.matches_in_place(node, value)?
            && match value {
                Value::Object(fields) => self.matches_fields(node, fields, value)?,
                Value::Array(items) => self.matches_items(node, items, value)?,
                _ => true,
            })
    }

    fn matches_in_place(&mut self, node: &ObjectNode, value: &Value) -> Answer {
        for all in node.references.iter().chain(&node.all_of) {
            if !self.matches(*all, value)? {
                return Ok(false);
            }
        }
        if let Some(any_of) = &node.any_of
            && self.count_matches(any_of, value, 1)? == 0
        {
            return Ok(false);
        }
        if let Some(one_of) = &node.one_of
            && self.count_matches(one_of, value, 2)? != 1
        {
            return Ok(false);
        }
        if let Some(not) = node.not
            && self.matches(not, value)?
        {
            return Ok(false);
        }
        match self.branch(node, value)? {
            Some(branch) => self.matches(branch, value),
            None => Ok(true),
        }
    }

    /// Counts how many of the schemas the value matches, up to `most`.
    pub(crate) fn count_matches(
        &mut self,
        ids: &[NodeId],
        value: &Value,
        most: usize,
    ) -> Result<usize, Complexity> {
        let mut count = 0;
        for id in ids {
            count += usize::from(self.matches(*id, value)?);
            if count == most {
                break;
            }
        }
        Ok(count)
    }

    /// The schema that `if` / `then` / `else` selects for this value, if any.
    pub(crate) fn branch(
        &mut self,
        node: &ObjectNode,
        value: &Value,
    ) -> Result<Option<NodeId>, Complexity> {
        let Some(condition) = &node.condition else {
            return Ok(None);
        };
        Ok(if self.matches(condition.when, value)? {
            condition.then
        } else {
            condition.otherwise
        })
    }

    fn matches_fields(
        &mut self,
        node: &ObjectNode,
        fields: &Map<String, Value>,
        value: &Value,
    ) -> Answer {
        for dependent in &node.dependents {
            self.charge(1)?;
            if fields.contains_key(&dependent.name) && !self.matches(dependent.node, value)? {
                return Ok(false);
            }
        }
        if !node.looks_into_objects() {
            return Ok(true);
        }
        for (name, field) in fields {
            for schema in self.schemas_of(node, name)? {
                if !self.matches(schema, field)? {
                    return Ok(false);
                }
            }
            if let Some(names) = node.names
                && !self.matches_name(names, name)?
            {
                return Ok(false);
            }
        }
        let Some(unevaluated) = node.unevaluated_properties else {
            return Ok(true);
        };
        for field in self.unevaluated_fields(node, fields, value)? {
            if !self.matches(unevaluated, &fields[field])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The schemas that an object's own keywords apply to one of its fields.
    pub(crate) fn schemas_of(
        &mut self,
        node: &ObjectNode,
        name: &str,
    ) -> Result<Vec<NodeId>, Complexity> {
        self.charge(1)?;
        let mut schemas: Vec<NodeId> = node.properties.get(name).copied().into_iter().collect();
        if !node.patterns.is_empty() {
            let text = Value::from(name);
            for (pattern, schema) in &node.patterns {
                if self.matches_leaf(Some(pattern), &text)? {
                    schemas.push(*schema);
                }
            }
        }
        if schemas.is_empty() {
            schemas.extend(node.additional);
        }
        Ok(schemas)
    }

    /// Checks a property's name. The name is a temporary value, so its address must not stay in
    /// `results`.
    pub(crate) fn matches_name(&mut self, id: NodeId, name: &str) -> Answer {
        let results = std::mem::take(&mut self.results);
        let answer = self.matches(id, &Value::from(name));
        self.results = results;
        answer
    }

    fn matches_items(&mut self, node: &ObjectNode, items: &[Value], value: &Value) -> Answer {
        if !node.looks_into_arrays() {
            return Ok(true);
        }
        for (index, item) in items.iter().enumerate() {
            let Some(schema) = node.prefix.get(index).copied().or(node.items) else {
                break;
            };
            if !self.matches(schema, item)? {
                return Ok(false);
            }
        }
        if let Some(contains) = &node.contains {
            let mut found = 0;
            for item in items {
                found += u64::from(self.matches(contains.node, item)?);
            }
            if found < contains.least || contains.most.is_some_and(|most| found > most) {
                return Ok(false);
            }
        }
        let Some(unevaluated) = node.unevaluated_items else {
            return Ok(true);
        };
        for index in self.unevaluated_items(node, items, value)? {
            if !self.matches(unevaluated, &items[index])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Rejects a value that is too deep for code that recurses over it.
    fn within_depth(&self, value: &Value) -> Result<(), Complexity> {
        let limit = self.schema.limits.depth;
        let mut open = vec![(value, self.depth)];
        while let Some((value, depth)) = open.pop() {
            if depth > limit {
                return Err(Complexity::Depth(limit));
            }
            match value {
                Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
                Value::Object(fields) => {
                    open.extend(fields.values().map(|field| (field, depth + 1)));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
