//! Records of a shop, in the form of tau2-bench's retail domain (github.com/sierra-research/tau2-bench, `db.json`).
//!
//! Money is whole cents here, so that a sum does not depend on its order; JSON shows decimals. Fields stand in one order whatever
//! features a build has, so a tool's result is one text. Refuses: fields that it does not know, which a tool would lose.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The largest amount that a decimal in JSON holds exactly to the cent.
const MOST: f64 = 1e15;

/// Money in cents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cents(pub i64);

impl Serialize for Cents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / 100.0)
    }
}

impl<'de> Deserialize<'de> for Cents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let cents = (f64::deserialize(deserializer)? * 100.0).round();
        if cents.abs() < MOST {
            Ok(Self(cents as i64))
        } else {
            Err(D::Error::custom("an amount of money is out of range"))
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    pub address1: String,
    pub address2: String,
    pub city: String,
    pub country: String,
    pub state: String,
    pub zip: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Name {
    pub first_name: String,
    pub last_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaymentMethod {
    /// `credit_card`, `gift_card` or `paypal`.
    pub source: String,
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brand: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_four: Option<String>,
    /// What is left on a gift card; others have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<Cents>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    pub user_id: String,
    pub name: Name,
    pub address: Address,
    pub email: String,
    /// By id.
    pub payment_methods: BTreeMap<String, PaymentMethod>,
    pub orders: Vec<String>,
}

/// One form of a product that can be bought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub item_id: String,
    pub options: BTreeMap<String, String>,
    pub available: bool,
    pub price: Cents,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Product {
    pub name: String,
    pub product_id: String,
    /// By item id.
    pub variants: BTreeMap<String, Variant>,
}

/// A variant as it was ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    pub name: String,
    pub product_id: String,
    pub item_id: String,
    pub price: Cents,
    pub options: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fulfillment {
    pub tracking_id: Vec<String>,
    pub item_ids: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payment {
    /// `payment` or `refund`.
    pub transaction_type: String,
    pub amount: Cents,
    pub payment_method_id: String,
}

impl Payment {
    pub fn charge(amount: Cents, method: &str) -> Self {
        Self { transaction_type: "payment".to_string(), amount, payment_method_id: method.to_string() }
    }
    pub fn refund(amount: Cents, method: &str) -> Self {
        Self { transaction_type: "refund".to_string(), amount, payment_method_id: method.to_string() }
    }
    pub fn is_refund(&self) -> bool {
        self.transaction_type == "refund"
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    pub order_id: String,
    pub user_id: String,
    pub address: Address,
    pub items: Vec<Item>,
    /// `pending`, `pending (item modified)`, `processed`, `delivered`, `cancelled`, `exchange requested` or `return requested`.
    pub status: String,
    pub fulfillments: Vec<Fulfillment>,
    pub payment_history: Vec<Payment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_reason: Option<String>,
    /// Sorted, as is the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_items: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_new_items: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_payment_method_id: Option<String>,
    /// What the customer pays more; below 0 what they get back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_price_difference: Option<Cents>,
    /// Sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_items: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_payment_method_id: Option<String>,
}
