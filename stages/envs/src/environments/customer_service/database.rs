//! Holds the database of a shop, and the view of it that one episode changes.
//!
//! An episode changes a handful of records out of thousands and may be forked at any turn. [`Shop`] therefore stores
//! only the changed records, on top of a [`ShopDatabase`] that all episodes share. Tools never add users, orders or
//! products.

use super::records::{Product, ShopOrder, User, Variant};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// A small fictional shop: two customers, four orders, three products.
const MADE_UP: &str = include_str!("made_up_shop.json");

/// All records, by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopDatabase {
    /// Products by id.
    pub products: BTreeMap<String, Product>,
    /// Users by id.
    pub users: BTreeMap<String, User>,
    /// Orders by id.
    pub orders: BTreeMap<String, ShopOrder>,
}

impl ShopDatabase {
    /// Reads a file in the form of tau2-bench's retail `db.json`.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| io_error(path, &e))?;
        Self::read(&text).map_err(|e| e.at(path.display()))
    }
    /// Returns the shop used when no database is given.
    pub fn made_up() -> Result<Self> {
        Self::read(MADE_UP)
    }
    fn read(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| {
            Error::data(format!("not a shop database: {e}"))
                .help("use a file with `products`, `users` and `orders`, like tau2-bench's retail `db.json`")
        })
    }
}

/// Shop with the changes of one episode.
#[derive(Debug, Clone)]
pub struct Shop {
    base: Arc<ShopDatabase>,
    users: BTreeMap<String, User>,
    orders: BTreeMap<String, ShopOrder>,
}

impl Shop {
    pub fn new(base: Arc<ShopDatabase>) -> Self {
        Self { base, users: BTreeMap::new(), orders: BTreeMap::new() }
    }
    /// Returns the order with this id, including changes of the episode.
    pub fn order(&self, id: &str) -> Option<&ShopOrder> {
        self.orders.get(id).or_else(|| self.base.orders.get(id))
    }
    /// Returns the user with this id, including changes of the episode.
    pub fn user(&self, id: &str) -> Option<&User> {
        self.users.get(id).or_else(|| self.base.users.get(id))
    }
    /// Returns all users, sorted by id, including changes of the episode.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.base.users.keys().filter_map(|id| self.user(id))
    }
    pub fn product(&self, id: &str) -> Option<&Product> {
        self.base.products.get(id)
    }
    /// Returns all products, sorted by id.
    pub fn products(&self) -> impl Iterator<Item = &Product> {
        self.base.products.values()
    }
    /// Returns the variant with this item id, of any product.
    pub fn variant(&self, item_id: &str) -> Option<&Variant> {
        self.products().find_map(|product| product.variants.get(item_id))
    }
    pub fn put_order(&mut self, order: ShopOrder) {
        self.orders.insert(order.order_id.clone(), order);
    }
    pub fn put_user(&mut self, user: User) {
        self.users.insert(user.user_id.clone(), user);
    }
    /// Returns the names of the records in which two shops differ. Both must have the same base.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let users: BTreeSet<&String> = self.users.keys().chain(other.users.keys()).collect();
        let orders: BTreeSet<&String> = self.orders.keys().chain(other.orders.keys()).collect();
        let users = users.into_iter().filter(|id| self.user(id) != other.user(id)).map(|id| format!("user `{id}`"));
        let orders =
            orders.into_iter().filter(|id| self.order(id) != other.order(id)).map(|id| format!("order `{id}`"));
        users.chain(orders).collect()
    }
}
