//! Tools described by a model's own chat template, and calls in its own format.
//!
//! The environment is built before any model is known, so its options say how tools are described and calls written.
//! A model with a format of its own plays in the same environment with these two options changed.

use crate::model::Policy;
use crate::own_format::own_format;
use crate::parts::Parts;
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_envs::tools::described;
use trainyard_envs::{Environment, ToolHost};
use trainyard_lm::template::{TemplateOptions, ToolDescriptions};

/// The environment of these options for one model, whose template then describes its tools; none if the environment is
/// to be played as its options say.
///
/// Errors (kind invalid): `native` with a template or an environment that cannot.
pub fn environment(
    parts: &Parts,
    options: &Value,
    template: &TemplateOptions,
    policy: &mut Policy,
    host: &Arc<ToolHost>,
) -> Result<Option<Box<dyn Environment>>> {
    let Some(format) = own_format(&policy.folder.chat, template.tools)? else { return Ok(None) };
    if options.get("describe_tools").is_none() || options.get("format").is_none() {
        if template.tools == ToolDescriptions::Auto {
            return Ok(None);
        }
        let message = "the problems of this environment describe their tools themselves, so `template.tools` cannot be \
                       `native`";
        return Err(Error::invalid(message).help("use `prompt` or `auto`"));
    }
    let mut native = options.clone();
    native["describe_tools"] = json!(false);
    native["format"] = json!(format);
    let environment = parts.envs.environments.build(&native, host)?;
    policy.folder.chat = policy.folder.chat.clone().with_tools(described(&environment.tools()));
    Ok(Some(environment))
}
