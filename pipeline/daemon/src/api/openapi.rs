//! Builds the OpenAPI document from the routes and their request and response types.

use super::error::ErrorBody;
use super::guard::{HEALTH, needed};
use super::route::ApiRoute;
use super::tokens::Role;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Common prefix of all routes.
pub const ROOT: &str = "/api/v1";

/// Returns the document: OpenAPI 3.1, whose schemas are JSON Schema 2020-12.
pub fn document(routes: &[ApiRoute]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.definitions_path = "/components/schemas".into());
    let mut generator = SchemaGenerator::new(settings);
    let error = generator.subschema_for::<ErrorBody>().to_value();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let path = format!("{ROOT}{}", route.path);
        let operation = operation(route, &path, &error, &mut generator);
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[route.method.as_str().to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Trainyard", "version": "1",
            "description": "Runs, artifacts and schedules of a store. Times are RFC 3339 in UTC.",
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(route: &ApiRoute, path: &str, error: &Value, generator: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = names(route.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    if let Some(query) = route.query {
        parameters.extend(of_query(&query(generator).to_value()));
    }
    let content = |schema: &Value| json!({"application/json": {"schema": schema}});
    let response = (route.response)(generator).to_value();
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "description": match needed(&route.method) {
            Role::Viewer => "Role: viewer.",
            Role::Operator => "Role: operator.",
        },
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": content(&response)},
            "default": {"description": "An error.", "content": content(error)},
        },
        "security": if path == HEALTH { json!([]) } else { json!([{"token": []}, {}]) },
    });
    if let Some(body) = route.body {
        let schema = body(generator).to_value();
        operation["requestBody"] = json!({"required": true, "content": content(&schema)});
    }
    operation
}

/// Returns the names of the parameters in a path, which are in braces.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Returns one query parameter for each property of a schema.
fn of_query(schema: &Value) -> Vec<Value> {
    let required = |name: &str| schema["required"].as_array().is_some_and(|list| list.iter().any(|r| r == name));
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let one = |(name, schema): (String, Value)| {
        let description = schema.get("description").cloned().unwrap_or(Value::Null);
        json!({
            "name": name, "in": "query", "required": required(&name), "schema": schema, "description": description,
        })
    };
    properties.into_iter().map(one).collect()
}
