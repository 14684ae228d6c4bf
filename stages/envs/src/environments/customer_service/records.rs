//! Defines the records of a shop, in the format of tau2-bench's retail domain (github.com/sierra-research/tau2-bench,
//! `db.json`).
//!
//! Amounts of money are whole cents in memory, so that sums are exact, and decimals in JSON. The order of fields is
//! fixed, so that a tool's result always has the same text. Unknown fields are errors because a tool would lose them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Amounts at or above this many cents are not exact as JSON numbers.
const EXACT_CENTS_LIMIT: f64 = 1e15;

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
        if cents.abs() < EXACT_CENTS_LIMIT {
            Ok(Self(cents as i64))
        } else {
            Err(D::Error::custom("an amount of money is out of range"))
        }
    }
}

/// A postal address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields of the data set")]
pub struct PostalAddress {
    pub address1: String,
    pub address2: String,
    pub city: String,
    pub country: String,
    pub state: String,
    pub zip: String,
}

/// A person's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields of the data set")]
pub struct PersonName {
    pub first_name: String,
    pub last_name: String,
}

/// A way to pay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaymentMethod {
    /// `credit_card`, `gift_card` or `paypal`.
    pub source: String,
    /// Key in [`User::payment_methods`].
    pub id: String,
    /// Brand of a credit card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brand: Option<String>,
    /// Last digits of a credit card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_four: Option<String>,
    /// Balance of a gift card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<Cents>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// User id, such as `ada_moss_1001`.
    pub user_id: String,
    /// First and last name.
    pub name: PersonName,
    /// Default address.
    pub address: PostalAddress,
    /// Email address; unique.
    pub email: String,
    /// Payment methods by id.
    pub payment_methods: BTreeMap<String, PaymentMethod>,
    /// Ids of orders.
    pub orders: Vec<String>,
}

/// A variant of a product that can be bought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Id of the variant.
    pub item_id: String,
    /// Option name → value (`color` → `red`).
    pub options: BTreeMap<String, String>,
    /// Whether it is in stock.
    pub available: bool,
    /// Price of one piece.
    pub price: Cents,
}

/// A product with its variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Product {
    /// Name, such as `Mug`.
    pub name: String,
    /// Id of the product.
    pub product_id: String,
    /// Variants by item id.
    pub variants: BTreeMap<String, Variant>,
}

/// A variant as ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderItem {
    /// Name of the product.
    pub name: String,
    /// Id of the product.
    pub product_id: String,
    /// Id of the variant.
    pub item_id: String,
    /// Price when it was ordered.
    pub price: Cents,
    /// Option name → value.
    pub options: BTreeMap<String, String>,
}

/// A shipment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fulfillment {
    /// Tracking ids.
    pub tracking_id: Vec<String>,
    /// Ids of the items it contains.
    pub item_ids: Vec<String>,
}

/// An entry of an order's payment history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payment {
    /// `payment` or `refund`.
    pub transaction_type: String,
    /// Amount, always positive.
    pub amount: Cents,
    /// Id of the payment method.
    pub payment_method_id: String,
}

impl Payment {
    /// Returns a payment by the customer.
    pub fn charge(amount: Cents, method: &str) -> Self {
        Self { transaction_type: "payment".to_string(), amount, payment_method_id: method.to_string() }
    }
    /// Returns a refund to the customer.
    pub fn refund(amount: Cents, method: &str) -> Self {
        Self { transaction_type: "refund".to_string(), amount, payment_method_id: method.to_string() }
    }
    pub fn is_refund(&self) -> bool {
        self.transaction_type == "refund"
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopOrder {
    /// Id with its sign, such as `#W1000001`.
    pub order_id: String,
    /// Id of the customer.
    pub user_id: String,
    /// Delivery address.
    pub address: PostalAddress,
    /// The items; two equal pieces are two items.
    pub items: Vec<OrderItem>,
    /// `pending`, `pending (item modified)`, `processed`, `delivered`, `cancelled`, `exchange requested` or
    /// `return requested`.
    pub status: String,
    /// Shipments.
    pub fulfillments: Vec<Fulfillment>,
    /// Payments and refunds, oldest first.
    pub payment_history: Vec<Payment>,
    /// Reason for the cancellation, if the order is cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_reason: Option<String>,
    /// Ids of the items given back in an exchange, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_items: Option<Vec<String>>,
    /// Ids of the items received in an exchange, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_new_items: Option<Vec<String>>,
    /// Id of the payment method that settles the price difference of an exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_payment_method_id: Option<String>,
    /// Amount that the customer pays for an exchange; negative = a refund.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_price_difference: Option<Cents>,
    /// Ids of the returned items, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_items: Option<Vec<String>>,
    /// Id of the payment method that receives the refund of a return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_payment_method_id: Option<String>,
}
