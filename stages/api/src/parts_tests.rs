use super::*;
use serde::Deserialize;
use trainyard_core::above;

trait Shape {
    fn area(&self) -> f64;
}

/// Options of `rectangle`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Rectangle {
    width: f64,
    height: f64,
}

impl Default for Rectangle {
    fn default() -> Self {
        Self { width: 2.0, height: 3.0 }
    }
}

impl PartOptions for Rectangle {
    const KIND: &'static str = "rectangle";
    const SUMMARY: &'static str = "four corners";
    const DOC: &'static str = "width times height";
    fn check(&self) -> Vec<OptionProblem> {
        let sides = [("/width", self.width), ("/height", self.height)];
        sides.into_iter().filter_map(|(at, side)| OptionProblem::outside(at, side, above(0.0))).collect()
    }
}

impl Shape for Rectangle {
    fn area(&self) -> f64 {
        self.width * self.height
    }
}

/// Options of `square`, one of which has no default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Square {
    side: f64,
}

impl PartOptions for Square {
    const KIND: &'static str = "square";
    const SUMMARY: &'static str = "equal sides";
    const DOC: &'static str = "the square of its side";
}

impl Shape for Square {
    fn area(&self) -> f64 {
        self.side * self.side
    }
}

fn shapes() -> Kinds<Build<dyn Shape>> {
    let list = vec![
        part::<Rectangle, Build<dyn Shape>>(|o| Ok(Box::new(read::<Rectangle>(o)?))),
        part::<Square, Build<dyn Shape>>(|o| Ok(Box::new(read::<Square>(o)?))),
    ];
    Kinds { what: "shape", list }
}

#[test]
fn a_bare_name_is_a_map_with_its_kind_alone() {
    let whole = json!({ "kind": "rectangle", "width": 2.0, "height": 3.0 });
    for options in [json!("rectangle"), json!({ "kind": "rectangle" }), whole.clone()] {
        assert_eq!(shapes().complete(&options).unwrap(), whole);
        assert_eq!(shapes().check(&options), []);
        assert_eq!(shapes().build(&options).unwrap().area(), 6.0);
    }
}

#[test]
fn all_that_is_wrong_has_its_place() {
    let problems = shapes().check(&json!({ "kind": "rectangle", "width": 0, "height": -1 }));
    let expected = [
        OptionProblem::new("/width", "0 is out of range").help("use a value above 0"),
        OptionProblem::new("/height", "-1 is out of range").help("use a value above 0"),
    ];
    assert_eq!(problems, expected);
    let pointer = |options: Value| {
        let problems = shapes().check(&options);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].pointer.clone()
    };
    assert_eq!(pointer(json!({ "kind": "circle" })), "/kind");
    assert_eq!(pointer(json!("circle")), "");
    assert_eq!(pointer(json!({ "width": 1 })), "");
    assert_eq!(pointer(json!({ "kind": "rectangle", "depth": 1 })), "");
}

#[test]
fn what_is_refused_is_named_with_its_part() {
    let refusal = |options: Value| shapes().build(&options).err().unwrap().to_string();
    assert_eq!(
        refusal(json!({ "kind": "rectangle", "height": 0 })),
        "shape `rectangle`: `height`: 0 is out of range; use a value above 0"
    );
    assert!(
        refusal(json!({ "kind": "rectangle", "depth": 1 })).starts_with("shape `rectangle`: unknown field `depth`")
    );
    assert_eq!(refusal(json!("circle")), "no shape is called `circle`; use one of: rectangle, square");
    assert_eq!(refusal(json!(3)), "this shape has no `kind`; use one of: rectangle, square");
}

#[test]
fn ranges_do_not_keep_defaults_from_being_filled_in() {
    let full = shapes().complete(&json!({ "kind": "rectangle", "width": 0 })).unwrap();
    assert_eq!(full, json!({ "kind": "rectangle", "width": 0.0, "height": 3.0 }));
    assert!(shapes().complete(&json!({ "kind": "square" })).unwrap_err().message.contains("side"));
}

#[test]
fn the_schema_has_the_names_and_a_branch_per_part() {
    let schema = shapes().schema();
    assert_eq!(schema["oneOf"][0], json!({ "type": "string", "enum": ["rectangle", "square"] }));
    let (rectangle, square) = (&schema["oneOf"][1], &schema["oneOf"][2]);
    assert_eq!((&rectangle["title"], &rectangle["description"]), (&json!("rectangle"), &json!("four corners")));
    assert_eq!(rectangle["properties"]["kind"], json!({ "const": "rectangle" }));
    assert_eq!((&rectangle["required"], &square["required"]), (&json!(["kind"]), &json!(["kind", "side"])));
    assert_eq!(rectangle["additionalProperties"], json!(false));
    assert!(rectangle.get("$schema").is_none());
}
