//! Implements the steps that tools share when they change items or payment methods.

use crate::environments::customer_service::database::Shop;
use crate::environments::customer_service::records::{Cents, PaymentMethod, ShopOrder, Variant};

/// Returns a copy of the order with this id. Fails unless it has this status.
pub fn order_with_status(shop: &Shop, id: &str, status: &str) -> Result<ShopOrder, String> {
    let order = shop.order(id).ok_or("order not found")?;
    if order.status == status { Ok(order.clone()) } else { Err(format!("the order is {}, not {status}", order.status)) }
}

/// Returns the positions in an order of the items with these ids. An id that is listed twice means two items. Fails if
/// an item is missing.
pub fn item_positions(order: &ShopOrder, ids: &[&str]) -> Result<Vec<usize>, String> {
    let mut positions: Vec<usize> = Vec::with_capacity(ids.len());
    for id in ids {
        let position = (0..order.items.len()).find(|i| !positions.contains(i) && order.items[*i].item_id == *id);
        positions.push(position.ok_or_else(|| format!("item `{id}` is not so often in the order"))?);
    }
    Ok(positions)
}

/// Items of an order with their new variants, and the total price difference for the customer.
pub struct ItemExchange {
    pub pairs: Vec<(usize, Variant)>,
    pub difference: Cents,
}

/// Pairs the items `old` of an order with the variants `new`. Fails unless every variant is an available one of the
/// same product.
pub fn exchange(shop: &Shop, order: &ShopOrder, old: &[&str], new: &[&str]) -> Result<ItemExchange, String> {
    let positions = item_positions(order, old)?;
    if old.len() != new.len() {
        return Err("the numbers of old and new items differ".to_string());
    }
    let mut difference = 0;
    let mut pairs = Vec::with_capacity(old.len());
    for (position, id) in positions.into_iter().zip(new) {
        let item = &order.items[position];
        let variants = &shop.product(&item.product_id).ok_or("product not found")?.variants;
        let variant = variants.get(*id).ok_or_else(|| format!("item `{id}` is no variant of {}", item.name))?;
        if !variant.available {
            return Err(format!("item `{id}` is not available"));
        }
        difference += variant.price.0 - item.price.0;
        pairs.push((position, variant.clone()));
    }
    Ok(ItemExchange { pairs, difference: Cents(difference) })
}

/// Returns the payment method with this id of a user.
pub fn method<'a>(shop: &'a Shop, user_id: &str, id: &str) -> Result<&'a PaymentMethod, String> {
    let user = shop.user(user_id).ok_or("user not found")?;
    user.payment_methods.get(id).ok_or_else(|| format!("the user has no means of payment `{id}`"))
}

/// Fails if the balance of a gift card is less than `amount`. Other payment methods cover any amount.
pub fn covers(method: &PaymentMethod, amount: Cents) -> Result<(), String> {
    match method.balance {
        Some(balance) if balance < amount => Err(format!("there is too little on gift card `{}`", method.id)),
        _ => Ok(()),
    }
}

/// Adds an amount, which may be negative, to the balance of a gift card. Does nothing for other payment methods, which
/// have no balance.
pub fn credit(shop: &mut Shop, user_id: &str, id: &str, amount: Cents) {
    let Some(mut user) = shop.user(user_id).cloned() else { return };
    if let Some(balance) = user.payment_methods.get_mut(id).and_then(|method| method.balance.as_mut()) {
        balance.0 += amount.0;
        shop.put_user(user);
    }
}
