//! Whether a value fits, found out within a budget.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::Schema;
use crate::error::Complexity;
use crate::leaf::{Leaf, values_in};
use crate::node::{Node, NodeId, ObjectNode};

/// Whether something holds, or that it cannot be found out.
pub(crate) type Answer = Result<bool, Complexity>;

/// One check under way.
pub(crate) struct Check<'s> {
    pub(crate) schema: &'s Schema,
    budget: u64,
    left: u64,
    depth: usize,
    /// What is known of schemas applied to values, by the values' addresses.
    known: HashMap<(NodeId, *const Value), bool>,
}

impl<'s> Check<'s> {
    pub(crate) fn new(schema: &'s Schema, budget: u64) -> Self {
        Self {
            schema,
            budget,
            left: budget,
            depth: 0,
            known: HashMap::new(),
        }
    }

    /// Pays for work before it is done.
    pub(crate) fn pay(&mut self, steps: u64) -> Result<(), Complexity> {
        self.left = self
            .left
            .checked_sub(steps)
            .ok_or(Complexity::Steps(self.budget))?;
        Ok(())
    }

    /// Makes sure that there is something left to find out with what is wrong.
    pub(crate) fn replenish(&mut self) {
        self.left = self.left.max(self.budget / 4);
    }

    /// Does some work one level deeper.
    pub(crate) fn deeper<T>(
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

    /// Whether a value fits a schema.
    pub(crate) fn fits(&mut self, id: NodeId, value: &Value) -> Answer {
        self.pay(1)?;
        match self.schema.node(id) {
            Node::Bool(answer) => Ok(*answer),
            Node::Meta(draft) => {
                self.pay(values_in(value).saturating_mul(8))?;
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
                if let Some(answer) = self.known.get(&key) {
                    return Ok(*answer);
                }
                let answer = self.deeper(|check| check.fits_object(node, value))?;
                self.known.insert(key, answer);
                Ok(answer)
            }
            Node::Object(node) => self.fits_leaf(node.leaf.as_deref(), value),
        }
    }

    pub(crate) fn fits_leaf(&mut self, leaf: Option<&Leaf>, value: &Value) -> Answer {
        let Some(leaf) = leaf else { return Ok(true) };
        self.pay(leaf.steps(value))?;
        Ok(leaf.is_valid(value))
    }

    /// Ordered from cheap to costly.
    fn fits_object(&mut self, node: &ObjectNode, value: &Value) -> Answer {
        Ok(self.fits_leaf(node.leaf.as_deref(), value)?
            && self.fits_in_place(node, value)?
            && match value {
                Value::Object(fields) => self.fits_fields(node, fields, value)?,
                Value::Array(items) => self.fits_items(node, items, value)?,
                _ => true,
            })
    }

    fn fits_in_place(&mut self, node: &ObjectNode, value: &Value) -> Answer {
        for all in node.references.iter().chain(&node.all_of) {
            if !self.fits(*all, value)? {
                return Ok(false);
            }
        }
        if let Some(any_of) = &node.any_of
            && self.fitting(any_of, value, 1)? == 0
        {
            return Ok(false);
        }
        if let Some(one_of) = &node.one_of
            && self.fitting(one_of, value, 2)? != 1
        {
            return Ok(false);
        }
        if let Some(not) = node.not
            && self.fits(not, value)?
        {
            return Ok(false);
        }
        match self.branch(node, value)? {
            Some(branch) => self.fits(branch, value),
            None => Ok(true),
        }
    }

    /// How many of several schemas a value fits, counted up to `most`.
    pub(crate) fn fitting(
        &mut self,
        ids: &[NodeId],
        value: &Value,
        most: usize,
    ) -> Result<usize, Complexity> {
        let mut count = 0;
        for id in ids {
            count += usize::from(self.fits(*id, value)?);
            if count == most {
                break;
            }
        }
        Ok(count)
    }

    /// The schema that a condition puts in force, if it puts one.
    pub(crate) fn branch(
        &mut self,
        node: &ObjectNode,
        value: &Value,
    ) -> Result<Option<NodeId>, Complexity> {
        let Some(condition) = &node.condition else {
            return Ok(None);
        };
        Ok(if self.fits(condition.when, value)? {
            condition.then
        } else {
            condition.otherwise
        })
    }

    fn fits_fields(
        &mut self,
        node: &ObjectNode,
        fields: &Map<String, Value>,
        value: &Value,
    ) -> Answer {
        for dependent in &node.dependents {
            self.pay(1)?;
            if fields.contains_key(&dependent.name) && !self.fits(dependent.node, value)? {
                return Ok(false);
            }
        }
        if !node.looks_into_objects() {
            return Ok(true);
        }
        for (name, field) in fields {
            for schema in self.schemas_of(node, name)? {
                if !self.fits(schema, field)? {
                    return Ok(false);
                }
            }
            if let Some(names) = node.names
                && !self.name_fits(names, name)?
            {
                return Ok(false);
            }
        }
        let Some(unevaluated) = node.unevaluated_properties else {
            return Ok(true);
        };
        for field in self.unevaluated_fields(node, fields, value)? {
            if !self.fits(unevaluated, &fields[field])? {
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
        self.pay(1)?;
        let mut schemas: Vec<NodeId> = node.properties.get(name).copied().into_iter().collect();
        if !node.patterns.is_empty() {
            let text = Value::from(name);
            for (pattern, schema) in &node.patterns {
                if self.fits_leaf(Some(pattern), &text)? {
                    schemas.push(*schema);
                }
            }
        }
        if schemas.is_empty() {
            schemas.extend(node.additional);
        }
        Ok(schemas)
    }

    /// A name is a value that lives no longer than this: nothing is to be remembered of it.
    pub(crate) fn name_fits(&mut self, id: NodeId, name: &str) -> Answer {
        let known = std::mem::take(&mut self.known);
        let answer = self.fits(id, &Value::from(name));
        self.known = known;
        answer
    }

    fn fits_items(&mut self, node: &ObjectNode, items: &[Value], value: &Value) -> Answer {
        if !node.looks_into_arrays() {
            return Ok(true);
        }
        for (index, item) in items.iter().enumerate() {
            let Some(schema) = node.prefix.get(index).copied().or(node.items) else {
                break;
            };
            if !self.fits(schema, item)? {
                return Ok(false);
            }
        }
        if let Some(contains) = &node.contains {
            let mut found = 0;
            for item in items {
                found += u64::from(self.fits(contains.node, item)?);
            }
            if found < contains.least || contains.most.is_some_and(|most| found > most) {
                return Ok(false);
            }
        }
        let Some(unevaluated) = node.unevaluated_items else {
            return Ok(true);
        };
        for index in self.unevaluated_items(node, items, value)? {
            if !self.fits(unevaluated, &items[index])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a value may be given to code that recurses over it.
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
