//! Formats a model: its shape, parameters by part, adapter, tokenizer, chat template and the models before it.

use super::human::table;
use std::collections::HashSet;
use std::fmt::Write as _;
use trainyard_core::Digest;
use trainyard_core::units::format_size;
use trainyard_lm::template::BuiltinTemplate;
use trainyard_views::model::{
    ModelAdapter, ModelArchitecture, ModelStep, ModelTemplate, ModelTokenizer, ModelView, ParameterCounts,
    SpecialToken, TensorSum,
};

/// Maximum special tokens that are listed.
const SPECIAL: usize = 12;
/// Digits of a digest.
const DIGITS: usize = 12;

/// Formats a model, without a line feed at the end.
pub fn page(model: &ModelView) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(model.architecture.as_ref().map(architecture));
    parts.extend(model.parameters.as_ref().map(parameters));
    parts.extend(model.adapter.as_ref().map(adapter));
    let facts = [model.tokenizer.as_ref().map(tokenizer), model.template.as_ref().map(template)];
    parts.extend(facts.into_iter().flatten());
    parts.extend((!model.made_from.is_empty()).then(|| made_from(&model.made_from, model.truncated)));
    let unreadable: Vec<String> = model.unreadable.iter().map(|file| format!("cannot be read: {}", file.why)).collect();
    parts.extend((!unreadable.is_empty()).then(|| unreadable.join("\n")));
    parts.join("\n\n")
}

fn architecture(shape: &ModelArchitecture) -> String {
    let count = |value: Option<u64>, name: &str| value.map(|value| format!("{value} {name}"));
    let heads = shape.heads.map(|heads| match shape.kv_heads.filter(|kv_heads| *kv_heads != heads) {
        Some(kv_heads) => format!("{heads} heads, {kv_heads} for keys and values"),
        None => format!("{heads} heads"),
    });
    let width = |value: Option<u64>, name: &str| value.map(|value| format!("{name} {value}"));
    let facts = [
        count(shape.layers, "layers"),
        width(shape.hidden_size, "hidden size"),
        heads,
        width(shape.intermediate_size, "MLP size"),
        count(shape.vocabulary_rows, "rows of embeddings"),
        (shape.tied_embeddings == Some(true)).then(|| "embeddings are the output head".to_string()),
        shape.max_position_embeddings.map(|length| format!("sequences of at most {length} tokens")),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let family = shape.family.as_deref().unwrap_or("unknown family");
    let class = shape.class.as_ref().map(|class| format!(" ({class})")).unwrap_or_default();
    let separator = if facts.is_empty() { "" } else { ": " };
    format!("{family}{class}{separator}{}", facts.join(", "))
}

fn parameters(counts: &ParameterCounts) -> String {
    let row = |name: &str, sum: &TensorSum| {
        let share = 100.0 * sum.parameters as f64 / counts.total.parameters.max(1) as f64;
        let (tensors, parameters) = (sum.tensors.to_string(), sum.parameters.to_string());
        vec![name.to_string(), tensors, parameters, format!("{share:.1}"), format_size(sum.bytes)]
    };
    let mut rows: Vec<Vec<String>> = counts.parts.iter().map(|part| row(part.part.name(), &part.sum)).collect();
    rows.push(row("all", &counts.total));
    let types: Vec<String> = match counts.dtypes.as_slice() {
        [one] => vec![one.dtype.clone()],
        several => several.iter().map(|of| format!("{} ({} parameters)", of.dtype, of.sum.parameters)).collect(),
    };
    let table = table(&["part", "tensors", "parameters", "%", "size"], &rows);
    format!("{table}\nstored as {}", types.join(", "))
}

fn adapter(adapter: &ModelAdapter) -> String {
    let number = |value: Option<f64>, name: &str| value.map(|value| format!("{name} {value}"));
    let facts = [
        adapter.rank.map(|rank| format!("rank {rank}")),
        number(adapter.alpha, "alpha"),
        number(adapter.dropout.filter(|share| *share > 0.0), "dropout"),
        adapter.rslora.then(|| "rslora".to_string()),
        adapter.parameters.as_ref().map(|counts| {
            let sum = &counts.total;
            format!("{} parameters in {} tensors, {}", sum.parameters, sum.tensors, format_size(sum.bytes))
        }),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let mut text = format!("adapter {}: {}", adapter.kind.as_deref().unwrap_or("of unknown kind"), facts.join(", "));
    if !adapter.targets.is_empty() {
        let _ = write!(text, "\n  layers: {}", adapter.targets.join(", "));
    }
    if let Some(base) = adapter.base_artifact.as_ref().or(adapter.base.as_ref()) {
        let _ = write!(text, "\n  base: {base}");
    }
    text + "\n  shape and parameters above are those of the base"
}

fn tokenizer(tokenizer: &ModelTokenizer) -> String {
    let mut text =
        format!("tokenizer {:.DIGITS$}: {}, {} tokens", tokenizer.digest, tokenizer.kind, tokenizer.vocabulary);
    let shown: Vec<String> = tokenizer.special.iter().take(SPECIAL).map(special_token).collect();
    if !shown.is_empty() {
        let _ = write!(text, "\n  special: {}", shown.join(", "));
        let hidden = tokenizer.special_total.saturating_sub(shown.len() as u64);
        if hidden > 0 {
            let _ = write!(text, ", {hidden} more");
        }
    }
    text
}

fn special_token(token: &SpecialToken) -> String {
    let id = token.id.map_or_else(|| "without id".to_string(), |id| id.to_string());
    let roles: String = token.roles.iter().map(|role| format!(", {role}")).collect();
    format!("{} ({id}{roles})", token.text)
}

fn template(template: &ModelTemplate) -> String {
    let known = [(BuiltinTemplate::Compact, "compact"), (BuiltinTemplate::Chatml, "chatml")];
    let is_same = |builtin: BuiltinTemplate| Digest::of(builtin.source().as_bytes()).as_str() == template.digest;
    let name = known.into_iter().find(|(builtin, _)| is_same(*builtin));
    let name = name.map(|(_, name)| format!("`{name}` ")).unwrap_or_default();
    let of = format!("chat template {name}{:.DIGITS$}: {} lines in {}", template.digest, template.lines, template.file);
    let lines: String = template.first_lines.iter().map(|line| format!("\n  {line}")).collect();
    let more = if template.lines > template.first_lines.len() as u64 { "\n  …" } else { "" };
    format!("{of}{lines}{more}")
}

/// Lists the models before a model with their inputs, each once. An input that is one of the models is not repeated.
fn made_from(steps: &[ModelStep], truncated: bool) -> String {
    let models: HashSet<&str> = steps.iter().map(|step| step.artifact.as_str()).collect();
    let mut text = "made from".to_string();
    for step in steps {
        let _ = write!(text, "\n  {} {:.DIGITS$}, by {}", step.artifact, step.digest, step.stage_kind);
        for input in &step.inputs {
            let rows = input.rows.map(|rows| format!(", {rows} rows")).unwrap_or_default();
            let note = match (models.contains(input.artifact.as_str()), input.is_stored) {
                (true, _) => " (in this list)",
                (false, true) => "",
                (false, false) => " (no longer in the store)",
            };
            let _ = write!(text, "\n    {}: {} {:.DIGITS$}{rows}{note}", input.input, input.artifact, input.digest);
        }
    }
    if truncated {
        text.push_str("\n  (there are more models)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_views::model::{ModelPart, PartSum, StepInput, TypeSum, UnreadableFile};

    fn counts() -> ParameterCounts {
        let norms = TensorSum { tensors: 1, parameters: 100, bytes: 400 };
        let mlp = TensorSum { tensors: 2, parameters: 300, bytes: 1_200 };
        let total = TensorSum { tensors: 3, parameters: 400, bytes: 1_600 };
        ParameterCounts {
            total,
            parts: vec![PartSum { part: ModelPart::Mlp, sum: mlp }, PartSum { part: ModelPart::Norms, sum: norms }],
            dtypes: vec![TypeSum { dtype: "F32".into(), sum: total }],
        }
    }

    fn step(artifact: &str, inputs: Vec<StepInput>) -> ModelStep {
        ModelStep {
            artifact: artifact.into(),
            digest: "0123456789abcdef".into(),
            stage_kind: "sft".into(),
            stage_digest: String::new(),
            inputs,
        }
    }

    fn input(name: &str, artifact: &str, rows: Option<u64>, is_stored: bool) -> StepInput {
        let (input, artifact, digest) = (name.into(), artifact.into(), "fedcba9876543210".into());
        StepInput { input, artifact, kind: String::new(), digest, rows, is_stored }
    }

    #[test]
    fn every_part_of_a_model_is_formatted() {
        let shape = ModelArchitecture {
            family: Some("llama".into()),
            class: Some("LlamaForCausalLM".into()),
            layers: Some(3),
            hidden_size: Some(96),
            heads: Some(4),
            kv_heads: Some(2),
            intermediate_size: Some(256),
            vocabulary_rows: Some(300),
            max_position_embeddings: Some(1_024),
            tied_embeddings: Some(true),
        };
        let special = SpecialToken { text: "<|end|>".into(), id: Some(5), roles: vec!["eos_token".into()] };
        let source = BuiltinTemplate::Compact.source();
        let model = ModelView {
            architecture: Some(shape),
            parameters: Some(counts()),
            adapter: None,
            tokenizer: Some(ModelTokenizer {
                kind: "byte-level BPE".into(),
                vocabulary: 300,
                digest: "abcdef0123456789".into(),
                special: vec![special],
                special_total: 2,
            }),
            template: Some(ModelTemplate {
                file: "chat_template.jinja".into(),
                digest: Digest::of(source.as_bytes()).to_string(),
                lines: 20,
                first_lines: vec!["{%- x -%}".into()],
            }),
            made_from: vec![
                step("r/sft/model", vec![input("model", "r/base/model", None, true)]),
                step("r/base/model", vec![input("corpus", "r/data/rows", Some(7), true)]),
            ],
            truncated: false,
            unreadable: vec![UnreadableFile { path: "x".into(), why: "file `x`: lost".into() }],
        };
        let digest = Digest::of(source.as_bytes());
        let expected = format!(
            "llama (LlamaForCausalLM): 3 layers, hidden size 96, 4 heads, 2 for keys and values, MLP size 256, 300 \
             rows of embeddings, embeddings are the output head, sequences of at most 1024 tokens\n\n\
             part   tensors  parameters      %  size\n\
             mlp          2         300   75.0  1.2 KiB\n\
             norms        1         100   25.0  400 B\n\
             all          3         400  100.0  1.6 KiB\n\
             stored as F32\n\n\
             tokenizer abcdef012345: byte-level BPE, 300 tokens\n  special: <|end|> (5, eos_token), 1 more\n\n\
             chat template `compact` {}: 20 lines in chat_template.jinja\n  {{%- x -%}}\n  …\n\n\
             made from\n  r/sft/model 0123456789ab, by sft\n    model: r/base/model fedcba987654 (in this list)\n  \
             r/base/model 0123456789ab, by sft\n    corpus: r/data/rows fedcba987654, 7 rows\n\n\
             cannot be read: file `x`: lost",
            digest.short()
        );
        assert_eq!(page(&model), expected);
        assert_eq!(page(&ModelView::default()), "");
    }

    #[test]
    fn an_adapter_names_its_base() {
        let known = ModelAdapter {
            kind: Some("lora".into()),
            rank: Some(4),
            alpha: Some(8.0),
            dropout: Some(0.0),
            targets: vec!["q_proj".into(), "v_proj".into()],
            base: Some("base".into()),
            base_artifact: Some("r/base/model".into()),
            parameters: Some(counts()),
            ..ModelAdapter::default()
        };
        let expected = "adapter lora: rank 4, alpha 8, 400 parameters in 3 tensors, 1.6 KiB\n  \
                        layers: q_proj, v_proj\n  base: r/base/model\n  \
                        shape and parameters above are those of the base";
        assert_eq!(adapter(&known), expected);
    }

    #[test]
    fn types_and_lost_inputs_are_named() {
        let half = TensorSum { tensors: 1, parameters: 100, bytes: 200 };
        let mut mixed = counts();
        mixed.dtypes.push(TypeSum { dtype: "F16".into(), sum: half });
        assert!(parameters(&mixed).ends_with("stored as F32 (400 parameters), F16 (100 parameters)"));
        let lost = [step("r/sft/model", vec![input("model", "abc/model", None, false)])];
        let text = made_from(&lost, true);
        assert!(text.ends_with("abc/model fedcba987654 (no longer in the store)\n  (there are more models)"), "{text}");
    }
}
