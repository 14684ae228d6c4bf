//! What changes of items and of means of payment have in common.

use crate::environments::customer_service::database::Shop;
use crate::environments::customer_service::records::{Cents, Order, PaymentMethod, Variant};

/// An order that has this status.
pub fn order_with_status(shop: &Shop, id: &str, status: &str) -> Result<Order, String> {
    let order = shop.order(id).ok_or("order not found")?;
    if order.status == status { Ok(order.clone()) } else { Err(format!("the order is {}, not {status}", order.status)) }
}

/// The places in an order of the items with these ids. An id that is listed twice stands for two items.
pub fn places(order: &Order, ids: &[&str]) -> Result<Vec<usize>, String> {
    let mut places: Vec<usize> = Vec::with_capacity(ids.len());
    for id in ids {
        let place = (0..order.items.len()).find(|i| !places.contains(i) && order.items[*i].item_id == *id);
        places.push(place.ok_or_else(|| format!("item `{id}` is not so often in the order"))?);
    }
    Ok(places)
}

/// Which items of an order become which variants, and what the customer pays more for all together.
pub struct Exchange {
    pub pairs: Vec<(usize, Variant)>,
    pub difference: Cents,
}

/// Pairs of old items and new variants of the same products, which must be available.
pub fn exchange(shop: &Shop, order: &Order, old: &[&str], new: &[&str]) -> Result<Exchange, String> {
    let places = places(order, old)?;
    if old.len() != new.len() {
        return Err("the numbers of old and new items differ".to_string());
    }
    let mut difference = 0;
    let mut pairs = Vec::with_capacity(old.len());
    for (place, id) in places.into_iter().zip(new) {
        let item = &order.items[place];
        let variants = &shop.product(&item.product_id).ok_or("product not found")?.variants;
        let variant = variants.get(*id).ok_or_else(|| format!("item `{id}` is no variant of {}", item.name))?;
        if !variant.available {
            return Err(format!("item `{id}` is not available"));
        }
        difference += variant.price.0 - item.price.0;
        pairs.push((place, variant.clone()));
    }
    Ok(Exchange { pairs, difference: Cents(difference) })
}

/// One of a user's means of payment.
pub fn method<'a>(shop: &'a Shop, user_id: &str, id: &str) -> Result<&'a PaymentMethod, String> {
    let user = shop.user(user_id).ok_or("user not found")?;
    user.payment_methods.get(id).ok_or_else(|| format!("the user has no means of payment `{id}`"))
}

/// Refuses a gift card with less than `amount` on it.
pub fn covers(method: &PaymentMethod, amount: Cents) -> Result<(), String> {
    match method.balance {
        Some(balance) if balance < amount => Err(format!("there is too little on gift card `{}`", method.id)),
        _ => Ok(()),
    }
}

/// Puts an amount on a gift card (below 0: takes it off). Other means of payment keep no balance.
pub fn credit(shop: &mut Shop, user_id: &str, id: &str, amount: Cents) {
    let Some(mut user) = shop.user(user_id).cloned() else { return };
    if let Some(balance) = user.payment_methods.get_mut(id).and_then(|method| method.balance.as_mut()) {
        balance.0 += amount.0;
        shop.put_user(user);
    }
}
