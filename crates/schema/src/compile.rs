//! Compiles a schema's JSON into the graph. Each schema object is compiled once, however often it is
//! referenced, so the work is proportional to the size of the text.

use std::collections::HashMap;

use jsonschema::{Draft, uri};
use referencing::{Resolver, ResourceRef, SPECIFICATIONS};
use serde_json::{Map, Value};

use crate::error::SchemaError;
use crate::leaf::{Leaves, invalid};
use crate::limits::Limits;
use crate::node::{Condition, Contains, Dependent, Node, NodeId, ObjectNode};

/// The base URI of a schema without an id.
const BASE: &str = "json-schema:///";

const SEVERAL_SCOPES: &str = "dynamic references (`$dynamicRef`, `$recursiveRef`) are \
     not supported in a schema with several `$id`s";

/// Compiles a schema and everything it references.
pub(crate) fn compile(schema: &Value, limits: &Limits) -> Result<(Vec<Node>, NodeId), SchemaError> {
    jsonschema::meta::validate(schema).map_err(|error| invalid(&error))?;
    let draft = Draft::default().detect(schema);
    let resource = draft.create_resource_ref(schema);
    let base = uri::from_str(resource.id().unwrap_or(BASE)).map_err(|error| invalid(&error))?;
    // Only the drafts' own meta-schemas are registered; nothing is fetched.
    let registry = SPECIFICATIONS
        .add(base.as_str(), resource)
        .and_then(|builder| builder.draft(draft).prepare())
        .map_err(|error| invalid(&error))?;
    let mut compiler = Compiler {
        nodes: Vec::new(),
        known: HashMap::new(),
        open: Vec::new(),
        leaves: Leaves::new(limits),
        limits,
        first_scope: None,
        has_several_scopes: false,
        is_dynamic: false,
    };
    let root = compiler.node(LocatedSchema {
        schema,
        resolver: registry.resolver(base),
        draft,
    })?;
    while let Some((id, at)) = compiler.open.pop() {
        compiler.nodes[id.0] = compiler.compiled(at)?;
    }
    if compiler.is_dynamic && compiler.has_several_scopes {
        return Err(SchemaError::Unsupported(SEVERAL_SCOPES));
    }
    Ok((compiler.nodes, root))
}

/// A schema together with what its references resolve against.
struct LocatedSchema<'r> {
    schema: &'r Value,
    resolver: Resolver<'r>,
    draft: Draft,
}

impl<'r> LocatedSchema<'r> {
    fn child(&self, schema: &'r Value) -> Self {
        LocatedSchema {
            schema,
            resolver: self.resolver.clone(),
            draft: self.draft,
        }
    }

    fn is_at_least(&self, draft: Draft) -> bool {
        self.draft >= draft
    }
}

struct Compiler<'r, 'l> {
    nodes: Vec<Node>,
    /// Keyed by address: each schema has one position in its document.
    known: HashMap<*const Value, NodeId>,
    open: Vec<(NodeId, LocatedSchema<'r>)>,
    leaves: Leaves,
    limits: &'l Limits,
    first_scope: Option<String>,
    has_several_scopes: bool,
    is_dynamic: bool,
}

impl<'r> Compiler<'r, '_> {
    /// Returns the node of a schema, and queues the schema for compilation if it is new.
    fn node(&mut self, at: LocatedSchema<'r>) -> Result<NodeId, SchemaError> {
        let address = std::ptr::from_ref(at.schema);
        if let Some(id) = self.known.get(&address) {
            return Ok(*id);
        }
        let limit = self.limits.schemas;
        if self.nodes.len() >= limit {
            let message = format!("it has more than {limit} schemas");
            return Err(SchemaError::TooComplex(message));
        }
        let id = NodeId(self.nodes.len());
        self.nodes.push(Node::Bool(true));
        self.known.insert(address, id);
        self.open.push((id, at));
        Ok(id)
    }

    fn nodes<'a>(
        &mut self,
        at: &LocatedSchema<'r>,
        schemas: impl IntoIterator<Item = &'r Value> + 'a,
    ) -> Result<Vec<NodeId>, SchemaError> {
        schemas
            .into_iter()
            .map(|schema| self.node(at.child(schema)))
            .collect()
    }

    fn compiled(&mut self, mut at: LocatedSchema<'r>) -> Result<Node, SchemaError> {
        let object = match at.schema {
            Value::Bool(answer) => return Ok(Node::Bool(*answer)),
            Value::Object(object) => object,
            other => {
                let message = format!("{} is not a schema", kind_of(other));
                return Err(SchemaError::Invalid(message));
            }
        };
        at.draft = at.draft.detect(at.schema);
        at.resolver = at
            .resolver
            .in_subresource(ResourceRef::new(at.schema, at.draft))
            .map_err(|error| invalid(&error))?;
        self.record_scope(&at);
        let mut node = ObjectNode::default();
        if let Some(reference) = text(object, "$ref") {
            let target = self.resolve_reference(&at, reference)?;
            node.references.push(target);
            // Up to draft 7, `$ref` replaces its siblings.
            if !at.is_at_least(Draft::Draft201909) {
                return Ok(Node::Object(Box::new(node)));
            }
        }
        self.dynamic_references(&at, object, &mut node)?;
        node.leaf = self.leaves.of(object, at.draft)?;
        self.in_place_keywords(&at, object, &mut node)?;
        self.object_keywords(&at, object, &mut node)?;
        self.array_keywords(&at, object, &mut node)?;
        Ok(Node::Object(Box::new(node)))
    }

    /// Records the base URI: a dynamic reference is supported only if all schemas share one document.
    fn record_scope(&mut self, at: &LocatedSchema<'_>) {
        let base = at.resolver.base_uri();
        match &self.first_scope {
            None => self.first_scope = Some(base.as_str().to_owned()),
            Some(first) => self.has_several_scopes |= first != base.as_str(),
        }
    }

    fn resolve_reference(
        &mut self,
        at: &LocatedSchema<'r>,
        reference: &str,
    ) -> Result<NodeId, SchemaError> {
        let found = at
            .resolver
            .lookup(reference)
            .map_err(|error| invalid(&error))?;
        let (schema, resolver, draft) = found.into_inner();
        let meta = meta_schema(schema);
        let id = self.node(LocatedSchema {
            schema,
            resolver,
            draft,
        })?;
        if let Some(meta) = meta {
            self.open.retain(|(open, _)| *open != id);
            self.nodes[id.0] = Node::Meta(meta);
        }
        Ok(id)
    }

    /// In a schema of one document, a dynamic reference resolves like a static one.
    fn dynamic_references(
        &mut self,
        at: &LocatedSchema<'r>,
        object: &Map<String, Value>,
        node: &mut ObjectNode,
    ) -> Result<(), SchemaError> {
        let reference = match at.draft {
            Draft::Draft201909 => text(object, "$recursiveRef"),
            draft if draft >= Draft::Draft202012 => text(object, "$dynamicRef"),
            _ => None,
        };
        if let Some(reference) = reference {
            self.is_dynamic = true;
            node.references.push(self.resolve_reference(at, reference)?);
        }
        Ok(())
    }

    fn in_place_keywords(
        &mut self,
        at: &LocatedSchema<'r>,
        object: &'r Map<String, Value>,
        node: &mut ObjectNode,
    ) -> Result<(), SchemaError> {
        node.all_of = self.nodes(at, list(object, "allOf").into_iter().flatten())?;
        node.any_of = self.alternatives(at, object, "anyOf")?;
        node.one_of = self.alternatives(at, object, "oneOf")?;
        node.not = self.optional(at, object, "not")?;
        if at.is_at_least(Draft::Draft7)
            && let Some(when) = self.optional(at, object, "if")?
        {
            node.condition = Some(Condition {
                when,
                then: self.optional(at, object, "then")?,
                otherwise: self.optional(at, object, "else")?,
            });
        }
        let newer = object.get("dependentSchemas");
        let newer = newer.filter(|_| at.is_at_least(Draft::Draft201909));
        for (keyword, evaluates) in [(object.get("dependencies"), false), (newer, true)] {
            for (name, schema) in fields(keyword).filter(|(_, schema)| !schema.is_array()) {
                node.dependents.push(Dependent {
                    name: name.clone(),
                    node: self.node(at.child(schema))?,
                    evaluates,
                });
            }
        }
        Ok(())
    }

    fn object_keywords(
        &mut self,
        at: &LocatedSchema<'r>,
        object: &'r Map<String, Value>,
        node: &mut ObjectNode,
    ) -> Result<(), SchemaError> {
        for (name, schema) in fields(object.get("properties")) {
            let property = self.node(at.child(schema))?;
            node.properties.insert(name.clone(), property);
        }
        for (pattern, schema) in fields(object.get("patternProperties")) {
            let leaf = self.leaves.pattern(pattern, at.draft)?;
            let property = self.node(at.child(schema))?;
            node.patterns.push((leaf, property));
        }
        node.additional = self.optional(at, object, "additionalProperties")?;
        if at.is_at_least(Draft::Draft6) {
            node.names = self.optional(at, object, "propertyNames")?;
        }
        if at.is_at_least(Draft::Draft201909) {
            node.unevaluated_properties = self.optional(at, object, "unevaluatedProperties")?;
        }
        Ok(())
    }

    fn array_keywords(
        &mut self,
        at: &LocatedSchema<'r>,
        object: &'r Map<String, Value>,
        node: &mut ObjectNode,
    ) -> Result<(), SchemaError> {
        let items = object.get("items");
        if at.is_at_least(Draft::Draft202012) {
            node.prefix = self.nodes(at, list(object, "prefixItems").into_iter().flatten())?;
            node.items = self.optional(at, object, "items")?;
        } else if let Some(Value::Array(prefix)) = items {
            node.prefix = self.nodes(at, prefix)?;
            node.items = self.optional(at, object, "additionalItems")?;
        } else {
            node.items = self.optional(at, object, "items")?;
        }
        if at.is_at_least(Draft::Draft6)
            && let Some(contained) = self.optional(at, object, "contains")?
        {
            let bounded = at.is_at_least(Draft::Draft201909);
            let bound = |keyword| object.get(keyword).filter(|_| bounded).and_then(count);
            node.contains = Some(Contains {
                node: contained,
                least: bound("minContains").unwrap_or(1),
                most: bound("maxContains"),
            });
        }
        if at.is_at_least(Draft::Draft201909) {
            node.unevaluated_items = self.optional(at, object, "unevaluatedItems")?;
        }
        Ok(())
    }

    fn optional(
        &mut self,
        at: &LocatedSchema<'r>,
        object: &'r Map<String, Value>,
        keyword: &str,
    ) -> Result<Option<NodeId>, SchemaError> {
        object
            .get(keyword)
            .map(|schema| self.node(at.child(schema)))
            .transpose()
    }

    fn alternatives(
        &mut self,
        at: &LocatedSchema<'r>,
        object: &'r Map<String, Value>,
        keyword: &str,
    ) -> Result<Option<Vec<NodeId>>, SchemaError> {
        list(object, keyword)
            .map(|schemas| self.nodes(at, schemas))
            .transpose()
    }
}

/// The draft whose meta-schema this is, for drafts with dynamic references.
fn meta_schema(schema: &Value) -> Option<Draft> {
    match schema.get("$id")?.as_str()? {
        "https://json-schema.org/draft/2019-09/schema" => Some(Draft::Draft201909),
        "https://json-schema.org/draft/2020-12/schema" => Some(Draft::Draft202012),
        _ => None,
    }
}

fn text<'a>(object: &'a Map<String, Value>, keyword: &str) -> Option<&'a str> {
    object.get(keyword)?.as_str()
}

fn list<'a>(object: &'a Map<String, Value>, keyword: &str) -> Option<&'a Vec<Value>> {
    object.get(keyword)?.as_array()
}

fn fields(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// Reads a count, which may be written as `2.0`.
fn count(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count beyond the range has the same effect as the largest one"
    )]
    let rounded = |number: f64| number as u64;
    value.as_u64().or_else(|| value.as_f64().map(rounded))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
