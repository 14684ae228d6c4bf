//! Hostile templates: each ends with an error, in bounded time and memory, and none ends the process.

use super::{BuiltinTemplate, ChatTemplate, RenderOptions};
use trainyard_tables::Message;

/// Compiles and renders a template.
fn render(source: &str) -> trainyard_core::Result<String> {
    ChatTemplate::new(source)?.render(&[Message::new("user", "x")], true, &RenderOptions::default())
}

/// Asserts that each template fails with these words.
#[track_caller]
fn fails(words: &str, sources: &[&str]) {
    for source in sources {
        let start: String = source.chars().take(80).collect();
        let error = render(source).expect_err(&start);
        let text = error.to_string();
        assert!(text.contains(words), "{start}: {text}");
        assert!(error.help.is_some(), "{start}: {text}");
    }
}

#[test]
fn deep_sources_do_not_reach_the_parser() {
    let chain = |start: &str, part: &str, end: &str| format!("{{{{ {start}{}{end} }}}}", part.repeat(50_000));
    for source in [
        chain("", "-", "1"),
        chain("", "not ", "1"),
        chain("1", "+1", ""),
        chain("messages", ".x", ""),
        chain("1", "|string", ""),
        chain("", "[", ""),
        chain("", "(", ""),
    ] {
        // Some are too long, the others nested too deeply.
        fails("more than the limit of", &[&source]);
    }
    fails("more than the limit of", &[&format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(10_000))]);
    fails("maximum recursion limits", &[&format!("{}{}", "{% if 1 %}".repeat(1_000), "{% endif %}".repeat(1_000))]);
}

#[test]
fn expressions_at_the_limit_are_compiled_and_rendered() {
    let chain = |start: &str, part: &str, end: &str| format!("{{{{ {start}{}{end} }}}}", part.repeat(998));
    assert_eq!(render(&chain("1", "+1", "")).unwrap(), "999");
    assert_eq!(render(&chain("", "-", "1")).unwrap(), "1");
    assert_eq!(render(&chain("", "not ", "1")).unwrap(), "True");
    assert_eq!(render(&chain("'a'", "|string", "")).unwrap(), "a");
    let chain = format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(1_000));
    assert_eq!(render(&chain).unwrap(), "");
}

#[test]
fn endless_loops_run_out_of_fuel() {
    let nested = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    let output = "{% for a in range(99999) %}{% for b in range(99999) %}xxxx{% endfor %}{% endfor %}";
    fails("fuel", &[nested, output]);
}

#[test]
fn texts_cannot_grow_without_bound() {
    let doubled = "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = OF %}{% endfor %}";
    for of in
        ["ns.s ~ ns.s", "ns.s + ns.s", "[ns.s, ns.s]|join", "ns.s|replace('x', 'xx')", "'%s%s'|format(ns.s, ns.s)"]
    {
        fails("more than the limit of", &[&doubled.replace("OF", of)]);
    }
    fails(
        "more than the limit of",
        &[
            "{% macro m(s) %}{{ m(s ~ s) }}{% endmacro %}{{ m('xxxxxxxxxxxxxxxx') }}",
            "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set s %}{{ ns.s }}{{ ns.s }}{% endset %}\
             {% set ns.s = s %}{% endfor %}",
            "{{ ('a' * 9999)|replace('a', 'b' * 9999)|replace('b', 'c' * 9999) }}",
            "{{ ('a' * 9999).replace('a', 'b' * 99999) }}",
            "{{ ('a' * 2000000)|list|join('b' * 999) }}",
            "{{ ('\\n' * 99999)|indent(99999) }}",
            "{{ ([1] * 99999999)|list|length }}",
            "{{ ('a' * 99999999)|list|length }}",
            "{{ ('a' * 99999999)|sort|length }}",
            "{{ ('a ' * 9999999).split()|length }}",
            "{{ ('a ' * 9999999)|split|length }}",
            "{{ ('a,' * 9999999).split(',')|length }}",
            "{{ ('a\\n' * 9999999).splitlines()|length }}",
            "{{ ('a\\n' * 9999999)|lines|length }}",
            "{{ ((1,) * 99999999)|length }}",
            "{{ (99999999 * (1,))|length }}",
            "{{ [1]|batch(1000000000, 0) }}",
            "{{ [1]|slice(1000000000) }}",
            "{{ [1]|tojson(indent=1000000000) }}",
        ],
    );
    for width in ["{{ '%999999999d'|format(1) }}", "{{ '{:999999999}'.format(1) }}", "{{ '%*d'|format(999999999, 1) }}"]
    {
        assert!(render(width).unwrap_err().message.contains("width"), "{width}");
    }
}

#[test]
fn captured_texts_cannot_grow_without_bound() {
    let long = "x".repeat(200_000);
    let repeated = |body: &str| format!("{{% for i in range(99999) %}}{body}{{% endfor %}}");
    let texts = [
        long.clone(),
        format!("{{% raw %}}{long}{{% endraw %}}"),
        format!("{{# c #}}{}{{{{ 1 }}}}", " ".repeat(9_999)),
    ];
    for text in texts.map(|text| repeated(&text)) {
        fails(
            "more than the limit of",
            &[
                &format!("{{% set s %}}{text}{{% endset %}}"),
                &format!("{{% macro m() %}}{text}{{% endmacro %}}{{{{ m()|length }}}}"),
                &format!("{{% filter length %}}{text}{{% endfilter %}}"),
                &format!(
                    "{{% macro m() %}}{{{{ caller()|length }}}}{{% endmacro %}}{{% call m() %}}{text}{{% endcall %}}"
                ),
            ],
        );
    }
    let lists = [
        "range(9999)|list".to_string(),
        format!("[{}]", "1e300, ".repeat(999)),
        format!("['{}']", "\u{1}".repeat(9_999)),
        format!("[{}]", "true, ".repeat(9_999)),
    ];
    for list in lists {
        let captured = format!("{{% set l = {list} %}}{{% set s %}}{}{{% endset %}}", repeated("{{ l }}"));
        fails("more than the limit of", &[&captured]);
    }
    // Each is within the limits of a value, and all are kept.
    let kept: String = (0..5_000).map(|i| format!("{{% set l{i} = range(99999)|list %}}")).collect();
    fails("more than the limit of", &[&kept]);
    // Or held by one expression.
    for (list, times) in [("l|list, ", 400), ("l|reverse|list, ", 400), ("(l|join(',')).split(','), ", 150)] {
        let list = list.repeat(times);
        fails("too many bytes", &[&format!("{{% set l = range(99999)|list %}}{{{{ [{list}]|length }}}}")]);
    }
    // Short texts are bounded by the instructions.
    let short = format!("{{% set s %}}{}{{% endset %}}", repeated(&repeated(&"x{# c #}".repeat(1_000))));
    fails("fuel", &[&short]);
}

#[test]
fn values_cannot_nest_without_bound() {
    let nested = "{% set ns = namespace(s=[]) %}{% for i in range(90000) %}{% set ns.s = [ns.s] %}{% endfor %}";
    fails("nested too deeply", &[nested, &format!("{nested}{{{{ ns.s|tojson }}}}")]);
    fails("nested too deeply", &[&format!("{{% set s = [] %}}{}", "{% set s = [s] %}".repeat(5_000))]);
    // Every level holds the one below it twice.
    fails("too many items", &[&format!("{{% set s = [1] %}}{}{{{{ s }}}}", "{% set s = [s, s] %}".repeat(60))]);
    let cycle = "{% set ns = namespace(s=1) %}{% set ns.s = ns %}{{ ns }}";
    assert!(render(cycle).unwrap_err().message.contains("a namespace cannot be kept in a namespace"));
    for view in ["ns|items", "ns.items()", "ns|items|list", "[ns]|list"] {
        let source = format!("{{% set ns = namespace(s=1) %}}{{% set ns.s = {view} %}}{{{{ ns ~ '' }}}}");
        assert!(render(&source).unwrap_err().message.contains("a namespace cannot be"), "{view}");
    }
    let hidden = "{% set ns = namespace(s=1) %}{% set ns.s = [{'a': ns}] %}{{ ns ~ '' }}";
    assert!(render(hidden).unwrap_err().message.contains("a namespace cannot be kept in a namespace"));
}

#[test]
fn recursion_ends_with_an_error() {
    for source in [
        "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}",
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
    ] {
        render(source).unwrap_err();
    }
}

/// The checks change nothing that published templates do with texts, lists and namespaces.
#[test]
fn ordinary_templates_render_as_before() {
    for (source, expected) in [
        (
            "{% set ns = namespace(n=0, l=[]) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}\
             {% set ns.l = ns.l + [i] %}\
          {% endfor %}{{ ns.n }} {{ ns.l }}",
            "3 [1, 2]",
        ),
        ("{%- set a, b = 1, 'x' -%} {{ a ~ b ~ c }}", "1x"),
        ("{% set x = messages[0].content if messages else 'none' %}{{ x + '|' ~ x|upper }}", "x|X"),
        ("{% set x = missing %}{{ x is defined }} {{ x ~ 'y' }}", "False y"),
        ("{% set x %}a{{ 'b' + 'c' }}{% endset %}{{ x|replace('b', 'd') }}", "adc"),
        ("{{ ['a', 'b']|join(', ') }} {{ '-'.join(['a', 'b']) }} {{ 'aba'.replace('a', 'c') }}", "a, b a-b cbc"),
        ("{{ '%s has %5.1f'|format('a', 2.0) }} {{ '{}-{}'.format(1, 'b') }}", "a has   2.0 1-b"),
        ("{{ 'a\\nb'|indent(2) }} {{ [1, 2, 3]|batch(2)|list }}", "a\n  b [[1, 2], [3]]"),
        ("{{ {'a': {'b': [1]}}|tojson(indent=1) }}", "{\n \"a\": {\n  \"b\": [\n   1\n  ]\n }\n}"),
    ] {
        assert_eq!(render(source).unwrap(), expected, "{source}");
    }
}

#[test]
fn long_conversations_have_more_fuel() {
    // Looks at all messages for every message.
    let source = "{% for a in messages %}{% for b in messages %}{% if a.content == b.content %}{% endif %}{% endfor %}\
                  {% endfor %}done";
    let messages: Vec<Message> = (0..500).map(|i| Message::new("user", i.to_string())).collect();
    let template = ChatTemplate::new(source).unwrap();
    assert_eq!(template.render(&messages, false, &RenderOptions::default()).unwrap(), "done");
}

#[test]
fn built_in_templates_render_long_texts() {
    let template = BuiltinTemplate::Chatml.template().unwrap();
    let text = "x".repeat(4 << 20);
    let rendered = template.render(&[Message::new("user", text.as_str())], true, &RenderOptions::default()).unwrap();
    assert!(rendered.contains(&text));
}
