//! Builds environments whose tools the model's own chat template describes, with calls in that model's format.
//!
//! The environment is built before the model is known, so its options define the description of tools and the format of
//! calls. For a model with its own format, the same environment is built again with these two options changed.

use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_api::stage::refuse;
use trainyard_core::{OptionProblem, Result};
use trainyard_envs::tools::tools_json;
use trainyard_envs::{Environment, EnvironmentParts, ToolHost};
use trainyard_lm::ModelFolder;
use trainyard_lm::template::{TemplateOptions, ToolDescriptions};

/// Builds the environment for a model whose template describes the tools, and, unless a program keeps the conversation,
/// adds the tools to the model's encoder. Returns `None` if the environment's options apply unchanged.
///
/// Errors: invalid, if the template or the environment does not support `native`.
pub fn environment(
    parts: &EnvironmentParts,
    options: &Value,
    template: &TemplateOptions,
    model: &mut ModelFolder,
    host: &Arc<ToolHost>,
) -> Result<Option<Box<dyn Environment>>> {
    let Some(format) = model.chat.tool_call_format(template.tools)? else { return Ok(None) };
    if let Some(problem) = described_by_problems(options) {
        return match template.tools {
            ToolDescriptions::Native => refuse(vec![problem]).map(|()| None),
            ToolDescriptions::Auto | ToolDescriptions::Prompt => Ok(None),
        };
    }
    let mut native = options.clone();
    native["describe_tools"] = json!(false);
    native["format"] = json!(format);
    let environment = parts.environments.build(&native, host)?;
    // If a program keeps the conversation, its requests contain the tools.
    if environment.prompts() {
        model.chat = model.chat.clone().with_tools(tools_json(&environment.tools()));
    }
    Ok(Some(environment))
}

/// Checks that the model's template can show the results of the environment's tools. Errors: invalid.
pub fn expect_tools(model: &ModelFolder, environment: &dyn Environment) -> Result<()> {
    if environment.tools().is_empty() { Ok(()) } else { model.chat.expect_tools() }
}

/// Returns a problem with `native` if the problems of the environment already describe their tools, else `None`.
fn described_by_problems(environment: &Value) -> Option<OptionProblem> {
    let chooses = environment.get("describe_tools").is_some() && environment.get("format").is_some();
    let message = "the problems of this environment describe their tools themselves, so `template.tools` cannot be \
                   `native`";
    (!chooses).then(|| OptionProblem::new(TOOLS_POINTER, message).help("use `prompt` or `auto`"))
}

const TOOLS_POINTER: &str = "/template/tools";

/// Returns the problem that `check` can find in the options: `native` with an environment whose tools the template
/// cannot describe.
pub fn problems(environment: &Value, template: &TemplateOptions) -> Vec<OptionProblem> {
    // A missing `kind` is reported by the environment.
    let requires_native = template.tools == ToolDescriptions::Native && environment.get("kind").is_some();
    requires_native.then(|| described_by_problems(environment)).flatten().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PolicyModel;
    use crate::testing::{demonstrations, environment_options, sums, tiny_model};
    use trainyard_core::{Facts, WiredInputs};
    use trainyard_lm::backend::cpu::Cpu;
    use trainyard_lm::examples::tokenize;
    use trainyard_lm::shape::{self, TOOL_TEMPLATE};
    use trainyard_lm::template::{ChatEncoder, ChatTemplate, TokenizedConversation};

    #[test]
    fn templates_that_cannot_be_native_are_found_by_their_facts() {
        let native = TemplateOptions { tools: ToolDescriptions::Native, ..TemplateOptions::default() };
        let of = |source: Value, options: &TemplateOptions| {
            let mut inputs = WiredInputs::default();
            inputs.wire("models", vec![Facts::new(), Facts::from([(TOOL_TEMPLATE.to_string(), source)])]);
            shape::native_template_problems(options, &inputs, &["model", "models"])
                .into_iter()
                .map(|p| (p.pointer, p.message))
                .next()
        };
        assert_eq!(of(json!("{% if tools %}<tool_call>{% endif %}"), &native), None);
        let (pointer, message) = of(json!(null), &native).unwrap();
        assert!(pointer == "/template/tools" && message.contains("does not describe tools"), "{message}");
        assert!(of(json!("{{ tools }}"), &native).unwrap().1.contains("an unsupported format"));
        assert_eq!(of(json!(null), &TemplateOptions::default()), None);
        let reported = problems(&json!({"kind": "function-calling"}), &native);
        assert!(reported[0].message.contains("describe their tools themselves"), "{reported:?}");
        let chosen = json!({"kind": "word-problems", "describe_tools": false, "format": "hermes"});
        assert_eq!(problems(&chosen, &native), []);
    }

    const OWN: &str = "{{ tools | tojson if tools else '' }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\
        {% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|end|>\
        {% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

    /// Fine-tuning on a demonstration of `data/synthesize` uses the same prompt tokens as the rollouts of `rl`.
    #[test]
    fn demonstrations_are_learned_under_the_prompts_of_rollouts() {
        let complete = |tools: ToolDescriptions| TemplateOptions { tools, ..TemplateOptions::default() };
        let native_model = tiny_model(16, 1, 1);
        let template = ChatTemplate::new(OWN).unwrap();
        let native_model = ModelFolder {
            chat: ChatEncoder::new(native_model.chat.tokenizer().clone(), template).unwrap(),
            ..native_model
        };
        let parts = EnvironmentParts::standard();
        let options = parts.environments.complete(&environment_options()).unwrap();
        let (problems, host) = (sums(1, 3, 2), ToolHost::new(1));
        let played = parts.environments.build(&options, &host).unwrap();
        let mut row = demonstrations(1, 3, 2).remove(0);
        row.environment_tools = Some(tools_json(&played.tools()));
        let shown = |folder: &ModelFolder, tools: ToolDescriptions| {
            let policy = PolicyModel {
                folder: folder.clone(),
                digest: String::new(),
                backend: Arc::new(Cpu),
                sampling_backend: None,
            };
            let template = complete(tools);
            let mut policy = policy.with_template(&template).unwrap();
            let tuned = tokenize(&policy.folder, std::slice::from_ref(&row), true).remove(0).unwrap();
            let first = tuned.contexts[0].mask.iter().position(|learned| *learned).unwrap();
            let native = environment(&parts, &options, &template, &mut policy.folder, &host).unwrap();
            let environment = native.as_deref().unwrap_or(&*played);
            let mut conversation = TokenizedConversation::new(&policy.folder.chat, None);
            conversation.extend(&environment.prompt(&problems[0]).unwrap()).unwrap();
            conversation.open_first_turn().unwrap();
            assert_eq!(tuned.contexts[0].tokens[..first], *conversation.context(), "{tools:?}");
            policy.folder.chat.tokenizer().decode(conversation.context()).unwrap()
        };
        assert!(
            shown(&native_model, ToolDescriptions::Auto).contains("calculator"),
            "the template describes the tools"
        );
        assert!(!shown(&native_model, ToolDescriptions::Prompt).contains("calculator"));
        assert!(!shown(&tiny_model(16, 1, 1), ToolDescriptions::Auto).contains("calculator"));
    }
}
