use super::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
        sides.into_iter().filter_map(|(at, side)| OptionProblem::out_of_range(at, side, above(0.0))).collect()
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

type ShapeKind = PartKind<dyn Shape>;

fn shapes() -> Family<dyn Shape> {
    let members = vec![
        ShapeKind::new::<Rectangle>(|o, ()| Ok(Box::new(o))),
        ShapeKind::with_needs::<Square>(|o, ()| Ok(Box::new(o)), |_| vec!["corners"]),
    ];
    Family::new("shapes", "shape", members)
}

#[test]
fn bare_name_equals_a_map_with_its_kind() {
    let complete = json!({ "kind": "rectangle", "width": 2.0, "height": 3.0 });
    for options in [json!("rectangle"), json!({ "kind": "rectangle" }), complete.clone()] {
        assert_eq!(shapes().complete(&options).unwrap(), complete);
        assert_eq!(shapes().check(&options), []);
        assert_eq!(shapes().build(&options, &()).unwrap().area(), 6.0);
    }
}

#[test]
fn problems_have_pointers() {
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
fn errors_name_the_part() {
    let error = |options: Value| shapes().build(&options, &()).err().unwrap().to_string();
    assert_eq!(
        error(json!({ "kind": "rectangle", "height": 0 })),
        "shape `rectangle`: `height`: 0 is out of range; use a value above 0"
    );
    assert!(error(json!({ "kind": "rectangle", "depth": 1 })).starts_with("shape `rectangle`: unknown field `depth`"));
    assert_eq!(error(json!("circle")), "no shape is called `circle`; use one of: rectangle, square");
    assert_eq!(error(json!(3)), "this shape has no `kind`; use one of: rectangle, square");
}

#[test]
fn defaults_are_filled_in_despite_range_errors() {
    let full = shapes().complete(&json!({ "kind": "rectangle", "width": 0 })).unwrap();
    assert_eq!(full, json!({ "kind": "rectangle", "width": 0.0, "height": 3.0 }));
    assert!(shapes().complete(&json!({ "kind": "square" })).unwrap_err().message.contains("side"));
}

#[test]
fn schema_has_names_and_a_branch_per_part() {
    let schema = shapes().schema();
    assert_eq!(schema["oneOf"][0], json!({ "type": "string", "enum": ["rectangle", "square"] }));
    let (rectangle, square) = (&schema["oneOf"][1], &schema["oneOf"][2]);
    assert_eq!((&rectangle["title"], &rectangle["description"]), (&json!("rectangle"), &json!("four corners")));
    assert_eq!(rectangle["properties"]["kind"], json!({ "const": "rectangle" }));
    assert_eq!((&rectangle["required"], &square["required"]), (&json!(["kind"]), &json!(["kind", "side"])));
    assert_eq!(rectangle["additionalProperties"], json!(false));
    assert!(rectangle.get("$schema").is_none());
}

#[test]
fn added_part_keeps_the_order() {
    let mut family = shapes();
    family.add(ShapeKind::plain("point", "no corners", "Nothing to set.", |()| Ok(Box::new(Point)))).unwrap();
    assert_eq!(family.names(), ["point", "rectangle", "square"]);
    assert_eq!(family.build(&json!("point"), &()).unwrap().area(), 0.0);
    assert_eq!(family.complete(&json!("point")).unwrap(), json!({ "kind": "point" }));
    assert!(family.check(&json!({ "kind": "point", "size": 1 }))[0].message.contains("size"));
    let twice = family.add(ShapeKind::new::<Rectangle>(|o, ()| Ok(Box::new(o)))).unwrap_err();
    assert!(twice.message.contains("`shapes/rectangle`"), "{twice}");
}

struct Point;

impl Shape for Point {
    fn area(&self) -> f64 {
        0.0
    }
}

#[test]
fn pages_describe_parts() {
    let pages = shapes().pages();
    assert_eq!(pages.iter().map(|page| page.name.as_str()).collect::<Vec<_>>(), ["shapes/rectangle", "shapes/square"]);
    assert_eq!((pages[0].summary, pages[0].doc), ("four corners", "width times height"));
    assert_eq!(pages[0].options["properties"]["kind"], json!({ "const": "rectangle" }));
    assert!(pages[0].needs.is_empty() && pages[1].needs.is_empty(), "`square` has no default options");
    assert_eq!(
        shapes().read(&json!({ "kind": "square", "side": 1.0 })).unwrap_or_else(|_| panic!()).needs(),
        ["corners"]
    );
}

#[test]
fn fill_schema_inserts_families() {
    let mut schema = json!({ "properties": {
        "one": { "x-family": "shapes", "description": "a shape" },
        "many": { "x-family": "shapes", "type": "array", "items": true },
        "other": { "x-family": "colors" },
    }});
    let family = json!({ "oneOf": [] });
    fill_schema(&mut schema, "shapes", &family);
    assert_eq!(schema["properties"]["one"], json!({ "oneOf": [], "description": "a shape" }));
    assert_eq!(schema["properties"]["many"], json!({ "type": "array", "items": { "oneOf": [] } }));
    assert_eq!(schema["properties"]["other"], json!({ "x-family": "colors" }));
}
