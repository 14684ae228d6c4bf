//! Holds a fictional catalog of functions, and the phrases of requests for them.
//!
//! Every value that a call needs occurs in the request as digits, a number word or a word of a short list, so the
//! correct call is unambiguous and a small model can copy the value. No two functions share a phrase. Parameters are in
//! alphabetical order, so that JSON objects look the same whether or not maps keep their order.

use crate::tools::ToolSpec;
use serde_json::{Value, json};

/// The values of a parameter.
#[derive(Debug, PartialEq)]
pub enum Domain {
    /// Integers in this range, written in digits or, up to twenty, in words.
    #[expect(missing_docs, reason = "the bounds of the range")]
    Count { least: i64, most: i64 },
    /// Hours, 1 to 12, written like counts.
    Hour,
    /// One of these words.
    Word(&'static [&'static str]),
    /// True and false, with their phrases.
    #[expect(missing_docs, reason = "the two phrases")]
    Flag { yes: &'static str, no: &'static str },
}

/// A required parameter of a function.
#[derive(Debug, PartialEq)]
pub struct FunctionParameter {
    /// Name in calls and, in braces, in requests.
    pub name: &'static str,
    pub domain: Domain,
}

/// A function of the catalog.
#[derive(Debug, PartialEq)]
pub struct CatalogFunction {
    /// Name in calls.
    pub name: &'static str,
    pub description: &'static str,
    /// Parameters, sorted by name.
    pub parameters: &'static [FunctionParameter],
    /// Phrases of requests, each with `{parameter}` once for every parameter.
    pub requests: &'static [&'static str],
}

const CITIES: &[&str] = &[
    "Athens", "Berlin", "Cairo", "Delhi", "Dublin", "Lima", "Lisbon", "Lyon", "Madrid", "Milan", "Oslo", "Paris",
    "Prague", "Rome", "Tokyo", "Vienna",
];
const ROOMS: &[&str] = &["bathroom", "bedroom", "garage", "hall", "kitchen", "office"];
const PLACES: &[&str] = &["airport", "castle", "harbor", "hotel", "museum", "park", "station", "theater"];
const DISHES: &[&str] = &["burgers", "cakes", "pies", "pizzas", "salads", "soups", "tacos", "wraps"];
const MUSIC: &[&str] = &["blues", "folk", "funk", "jazz", "metal", "opera", "rock", "soul"];

const fn parameter(name: &'static str, domain: Domain) -> FunctionParameter {
    FunctionParameter { name, domain }
}
const fn count(name: &'static str, least: i64, most: i64) -> FunctionParameter {
    parameter(name, Domain::Count { least, most })
}

/// All functions, sorted by name.
pub static CATALOG: [CatalogFunction; 14] = [
    CatalogFunction {
        name: "add_steps",
        description: "Adds steps to the walking log.",
        parameters: &[count("steps", 2, 999)],
        requests: &["add {steps} steps to my log", "log {steps} steps", "note that I walked {steps} steps"],
    },
    CatalogFunction {
        name: "book_room",
        description: "Books a hotel room.",
        parameters: &[
            parameter("breakfast", Domain::Flag { yes: "with breakfast", no: "without breakfast" }),
            parameter("city", Domain::Word(CITIES)),
            count("nights", 2, 30),
        ],
        requests: &[
            "book a room in {city} for {nights} nights {breakfast}",
            "reserve a room {breakfast} for {nights} nights in {city}",
            "find me a bed in {city} {breakfast}, {nights} nights",
        ],
    },
    CatalogFunction {
        name: "book_table",
        description: "Books a table in the restaurant.",
        parameters: &[count("people", 2, 20), parameter("time", Domain::Hour)],
        requests: &[
            "book a table for {people} at {time}",
            "reserve a table at {time} for {people} people",
            "get us a table, {people} of us, at {time}",
        ],
    },
    CatalogFunction {
        name: "book_train",
        description: "Books a seat in a train.",
        parameters: &[
            parameter("from", Domain::Word(CITIES)),
            parameter("time", Domain::Hour),
            parameter("to", Domain::Word(CITIES)),
        ],
        requests: &[
            "book a train from {from} to {to} at {time}",
            "get me a seat to {to} from {from} at {time}",
            "reserve the {time} o'clock train from {from} to {to}",
        ],
    },
    CatalogFunction {
        name: "call_taxi",
        description: "Calls a taxi.",
        parameters: &[parameter("place", Domain::Word(PLACES)), parameter("time", Domain::Hour)],
        requests: &[
            "call a taxi to the {place} at {time}",
            "order a cab at {time} to the {place}",
            "get me driven to the {place} at {time}",
        ],
    },
    CatalogFunction {
        name: "get_weather",
        description: "Tells the weather of a city.",
        parameters: &[parameter("city", Domain::Word(CITIES))],
        requests: &[
            "tell me the weather in {city}",
            "look up the weather for {city}",
            "check whether it rains in {city}",
        ],
    },
    CatalogFunction {
        name: "order_food",
        description: "Orders food.",
        parameters: &[count("amount", 2, 20), parameter("dish", Domain::Word(DISHES))],
        requests: &["order {amount} {dish}", "have {amount} {dish} delivered", "send for {amount} {dish}"],
    },
    CatalogFunction {
        name: "pay",
        description: "Pays an amount of euros.",
        parameters: &[count("euros", 2, 999)],
        requests: &["pay {euros} euros", "transfer {euros} euros", "send them {euros} euros"],
    },
    CatalogFunction {
        name: "play_music",
        description: "Plays music of a kind.",
        parameters: &[parameter("kind", Domain::Word(MUSIC))],
        requests: &["play some {kind}", "put on {kind} music", "let me hear {kind}"],
    },
    CatalogFunction {
        name: "rent_car",
        description: "Rents a car.",
        parameters: &[
            parameter("automatic", Domain::Flag { yes: "with automatic gears", no: "with manual gears" }),
            parameter("city", Domain::Word(CITIES)),
            count("days", 2, 30),
        ],
        requests: &[
            "rent a car in {city} for {days} days {automatic}",
            "hire a car {automatic} for {days} days in {city}",
            "get me a car {automatic} in {city}, {days} days",
        ],
    },
    CatalogFunction {
        name: "send_parcel",
        description: "Sends a parcel.",
        parameters: &[
            parameter("city", Domain::Word(CITIES)),
            parameter("gift", Domain::Flag { yes: "as a gift", no: "in plain paper" }),
            count("kilos", 2, 50),
        ],
        requests: &[
            "send a parcel of {kilos} kilos to {city} {gift}",
            "mail {kilos} kilos to {city} {gift}",
            "ship a box to {city} {gift}, {kilos} kilos",
        ],
    },
    CatalogFunction {
        name: "set_heat",
        description: "Sets the temperature of the heating.",
        parameters: &[count("degrees", 5, 30)],
        requests: &[
            "heat the house to {degrees} degrees",
            "set the heating to {degrees}",
            "make it {degrees} degrees in here",
        ],
    },
    CatalogFunction {
        name: "set_light",
        description: "Sets the brightness of a room's light.",
        parameters: &[count("level", 2, 100), parameter("room", Domain::Word(ROOMS))],
        requests: &[
            "set the {room} light to {level} percent",
            "dim the light in the {room} to {level} percent",
            "put the lamp of the {room} at {level}",
        ],
    },
    CatalogFunction {
        name: "set_timer",
        description: "Sets a timer.",
        parameters: &[count("minutes", 2, 180)],
        requests: &[
            "set a timer for {minutes} minutes",
            "wake me in {minutes} minutes",
            "ring after {minutes} minutes",
        ],
    },
];

impl Domain {
    /// Returns the type in a signature.
    fn type_name(&self) -> &'static str {
        match self {
            Self::Count { .. } | Self::Hour => "int",
            Self::Word(_) => "str",
            Self::Flag { .. } => "bool",
        }
    }
    fn schema(&self) -> Value {
        match self {
            Self::Count { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
            Self::Hour => json!({"type": "integer", "minimum": 1, "maximum": 12}),
            Self::Word(words) => json!({"type": "string", "enum": words}),
            Self::Flag { .. } => json!({"type": "boolean"}),
        }
    }
}

impl CatalogFunction {
    /// Returns the signature, such as `book_table(people: int, time: int)`.
    pub fn signature(&self) -> String {
        let parameters: Vec<String> =
            self.parameters.iter().map(|p| format!("{}: {}", p.name, p.domain.type_name())).collect();
        format!("{}({})", self.name, parameters.join(", "))
    }
    /// Returns the function as a tool description.
    pub fn spec(&self) -> ToolSpec {
        let properties: serde_json::Map<String, Value> =
            self.parameters.iter().map(|p| (p.name.to_string(), p.domain.schema())).collect();
        let required: Vec<&str> = self.parameters.iter().map(|p| p.name).collect();
        ToolSpec {
            name: self.name.to_string(),
            description: self.description.to_string(),
            parameters: json!({"properties": properties, "required": required, "type": "object"}),
        }
    }
}
