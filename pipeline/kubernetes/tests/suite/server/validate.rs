//! Applies those validation rules of the API server for Jobs that a bug in the executor could violate.

use serde_json::{Value, json};

/// Returns the violations, as causes of a status.
pub fn causes(job: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    let mut wrong = |field: &str, message: String| {
        found.push(json!({"reason": "FieldValueInvalid", "message": message, "field": field}));
    };
    let spec = &job["spec"];
    let pod = &spec["template"]["spec"];
    let name = job["metadata"]["name"].as_str().unwrap_or_default();
    if !is_label(name) {
        let message = format!("Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of …");
        wrong("metadata.name", message);
    }
    for place in [&job["metadata"]["labels"], &spec["template"]["metadata"]["labels"]] {
        for (label, value) in place.as_object().into_iter().flatten() {
            if !is_label_value(value.as_str().unwrap_or("?")) || label.matches('/').count() > 1 {
                wrong("metadata.labels", format!("Invalid value: {value}: a valid label must … ({label})"));
            }
        }
    }
    if pod["restartPolicy"] != "Never" && pod["restartPolicy"] != "OnFailure" {
        wrong("spec.template.spec.restartPolicy", "Required value: valid values: \"OnFailure\", \"Never\"".into());
    }
    if pod["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        wrong("spec.template.spec.activeDeadlineSeconds", "Invalid value: must be between 1 and 2147483647".into());
    }
    let indexed = spec["completionMode"] == "Indexed";
    if indexed && spec["completions"].is_null() {
        wrong("spec.completions", "Required value: when completion mode is Indexed".into());
    }
    for (at, container) in pod["containers"].as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.template.spec.containers[{at}]");
        if container["image"].as_str().unwrap_or_default().is_empty() {
            wrong(&format!("{path}.image"), "Required value".into());
        }
        for (resource, limit) in container["resources"]["limits"].as_object().into_iter().flatten() {
            let whole = limit.as_str().is_some_and(|text| text.parse::<u64>().is_ok());
            if resource.contains('/') && !whole {
                wrong(
                    &format!("{path}.resources.limits[{resource}]"),
                    format!("Invalid value: {limit}: must be an integer"),
                );
            }
        }
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let volumes = pod["volumes"].as_array().into_iter().flatten();
            if !volumes.into_iter().any(|volume| volume["name"] == mount["name"]) {
                wrong(&format!("{path}.volumeMounts[0].name"), format!("Not found: {}", mount["name"]));
            }
        }
    }
    found
}

fn is_label(text: &str) -> bool {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.len() <= 63 && text.chars().all(good) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_label_value(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63 && text.chars().all(good) && ends(text.chars().next()) && ends(text.chars().last())
}
