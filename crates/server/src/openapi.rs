//! The OpenAPI 3.1 document, made from the route table. Its schemas are those of the types that are sent and read.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::route::{Access, Answers, Errors, Route, Scope, routes};

/// Where schemas stand in the document.
const SCHEMAS: &str = "/components/schemas";

/// The document. Endpoints of apps are listed at the root and under `/apps/{app}`.
pub fn openapi(requires_token: bool) -> Value {
    let settings = SchemaSettings::draft2020_12();
    let mut generator = settings
        .with(|settings| {
            settings.definitions_path = SCHEMAS.into();
            settings.meta_schema = None;
        })
        .into_generator();
    let mut paths = Map::new();
    for route in routes() {
        let operation = operation(route, false, requires_token, &mut generator);
        add(&mut paths, route.path.to_owned(), route, operation);
    }
    for route in routes().iter().filter(|route| route.scope == Scope::App) {
        let operation = self::operation(route, true, requires_token, &mut generator);
        add(
            &mut paths,
            format!("/apps/{{app}}{}", route.path),
            route,
            operation,
        );
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Convoke",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A task belongs to the store, not to a connection: a client that goes away stops nothing.",
        },
        "paths": paths,
        "components": { "schemas": generator.take_definitions(true) },
    });
    if requires_token {
        document["components"]["securitySchemes"] = json!({
            "token": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" },
        });
    }
    document
}

fn add(paths: &mut Map<String, Value>, path: String, route: &Route, operation: Value) {
    let path = paths.entry(path).or_insert_with(|| json!({}));
    path[route.method.as_str().to_lowercase()] = operation;
}

fn operation(
    route: &Route,
    of_app: bool,
    requires_token: bool,
    generator: &mut SchemaGenerator,
) -> Value {
    let named = if of_app {
        format!("{}_of_app", route.name)
    } else {
        route.name.to_owned()
    };
    let mut operation = json!({
        "operationId": named,
        "summary": route.summary,
        "parameters": parameters(route, of_app, generator),
        "responses": responses(route, generator),
    });
    if let Some(request) = route.request {
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": request(generator) } },
        });
    }
    if requires_token && route.access != Access::Public {
        operation["security"] = json!([{ "token": [] }]);
    }
    operation
}

fn parameters(route: &Route, of_app: bool, generator: &mut SchemaGenerator) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|segment| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        Some(json!({
            "name": name, "in": "path", "required": true,
            "schema": path_schema(name),
        }))
    });
    let mut parameters: Vec<Value> = in_path.collect();
    if of_app {
        parameters.push(json!({
            "name": "app", "in": "path", "required": true,
            "description": "The app's name", "schema": { "type": "string" },
        }));
    }
    for query in route.query {
        parameters.push(json!({
            "name": query.name, "in": "query", "description": query.description,
            "schema": (query.schema)(generator),
        }));
    }
    parameters
}

/// The schema of a path's parameter.
fn path_schema(name: &str) -> Value {
    match name {
        "blob" => json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" }),
        "workflow" => json!({ "type": "string" }),
        _ => json!({ "type": "string", "format": "uuid" }),
    }
}

fn responses(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    for (status, answers) in route.answers {
        let description = if *status < 400 { "Done" } else { "Not now" };
        let (media_type, schema) = match answers {
            Answers::Nothing => {
                let answer = json!({ "description": description });
                responses.insert(status.to_string(), answer);
                continue;
            }
            Answers::Json(schema) => ("application/json", schema(generator)),
            Answers::Events => ("text/event-stream", events_schema()),
            Answers::Text(media_type) => (*media_type, text_schema()),
            // Not described further: any media type, any bytes.
            Answers::Binary => ("*/*", schemars::json_schema!({})),
        };
        let content = json!({ media_type: { "schema": schema } });
        responses.insert(
            status.to_string(),
            json!({ "description": description, "content": content }),
        );
    }
    let Errors {
        media_type, schema, ..
    } = route.errors;
    let problem = json!({
        "description": "What went wrong, with a stable `code`",
        "content": { media_type: { "schema": schema(generator) } },
    });
    responses.insert("default".into(), problem);
    responses.into()
}

/// OpenAPI 3.1 has no schemas of single events.
fn events_schema() -> schemars::Schema {
    schemars::json_schema!({
        "description": "Events, each with an `id`, the cursor after it, and `data` that is JSON; `live` events have no `id`",
    })
}

fn text_schema() -> schemars::Schema {
    schemars::json_schema!({ "type": "string" })
}
