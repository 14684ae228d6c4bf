//! Implements the tools for pending orders, which can be cancelled or changed, and for the user's address.

use super::arguments::ShopToolArguments;
use super::items::{covers, credit, exchange, method, order_with_status};
use super::tool::{METHOD, ORDER, ShopTool, ShopToolParameter, ToolOutput, shown, text, texts};
use crate::environments::customer_service::database::Shop;
use crate::environments::customer_service::records::{Cents, Payment};

const REASONS: [&str; 2] = ["no longer needed", "ordered by mistake"];
/// Status after items were changed, which rules out another change and a cancellation.
const ITEMS_CHANGED: &str = "pending (item modified)";

const LINE_1: ShopToolParameter = text("address1", "first line of the address");
const LINE_2: ShopToolParameter = text("address2", "second line of the address, may be empty");
const CITY: ShopToolParameter = text("city", "city");
const STATE: ShopToolParameter = text("state", "state, such as CA");
const COUNTRY: ShopToolParameter = text("country", "country, such as USA");
const ZIP: ShopToolParameter = text("zip", "zip code");

pub static CANCEL: ShopTool = ShopTool {
    name: "cancel_pending_order",
    description: "Cancels a whole pending order and refunds it. The customer must have confirmed it.",
    parameters: &[ORDER, text("reason", "`no longer needed` or `ordered by mistake`")],
    changes: true,
    run: cancel,
};

pub static ADDRESS: ShopTool = ShopTool {
    name: "modify_pending_order_address",
    description: "Changes the address of a pending order. The customer must have confirmed it.",
    parameters: &[ORDER, LINE_1, LINE_2, CITY, STATE, COUNTRY, ZIP],
    changes: true,
    run: address,
};

pub static ITEMS: ShopTool = ShopTool {
    name: "modify_pending_order_items",
    description: "Changes items of a pending order to other variants of the same products: once for each order, so all \
                  at once. The customer must have confirmed it.",
    parameters: &[
        ORDER,
        texts("item_ids", "ids of the items that are changed; one that is changed twice stands twice"),
        texts("new_item_ids", "ids of the items that they become, in the same order"),
        METHOD,
    ],
    changes: true,
    run: items,
};

pub static PAYMENT: ShopTool = ShopTool {
    name: "modify_pending_order_payment",
    description: "Changes the means of payment of a pending order. The customer must have confirmed it.",
    parameters: &[ORDER, METHOD],
    changes: true,
    run: payment,
};

pub static USER_ADDRESS: ShopTool = ShopTool {
    name: "modify_user_address",
    description: "Changes the address of a user. The customer must have confirmed it.",
    parameters: &[text("user_id", "id of the user"), LINE_1, LINE_2, CITY, STATE, COUNTRY, ZIP],
    changes: true,
    run: user_address,
};

fn cancel(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    let mut order = order_with_status(shop, arguments.text("order_id")?, "pending")?;
    let reason = arguments.text("reason")?;
    if !REASONS.contains(&reason) {
        return Err(format!("`{reason}` is no reason; use one of: {}", REASONS.join(", ")));
    }
    // Amounts paid by each payment method and not refunded, in order of first payment.
    let mut paid: Vec<(String, i64)> = Vec::new();
    for entry in &order.payment_history {
        let amount = if entry.is_refund() { -entry.amount.0 } else { entry.amount.0 };
        match paid.iter_mut().find(|(id, _)| *id == entry.payment_method_id) {
            Some((_, sum)) => *sum += amount,
            None => paid.push((entry.payment_method_id.clone(), amount)),
        }
    }
    for (id, sum) in paid.into_iter().filter(|(_, sum)| *sum > 0) {
        order.payment_history.push(Payment::refund(Cents(sum), &id));
        credit(shop, &order.user_id, &id, Cents(sum));
    }
    order.status = "cancelled".to_string();
    order.cancel_reason = Some(reason.to_string());
    let output = shown(&order);
    shop.put_order(order);
    output
}

fn address(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    let mut order = shop.order(arguments.text("order_id")?).ok_or("order not found")?.clone();
    if !order.status.starts_with("pending") {
        return Err(format!("the order is {}, not pending", order.status));
    }
    order.address = arguments.address()?;
    let output = shown(&order);
    shop.put_order(order);
    output
}

fn items(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    let mut order = order_with_status(shop, arguments.text("order_id")?, "pending")?;
    let (old, new) = (arguments.texts("item_ids")?, arguments.texts("new_item_ids")?);
    let change = exchange(shop, &order, &old, &new)?;
    if let Some(same) = old.iter().zip(&new).find(|(a, b)| a == b) {
        return Err(format!("item `{}` would stay what it is", same.0));
    }
    let method_id = arguments.text("payment_method_id")?;
    covers(method(shop, &order.user_id, method_id)?, change.difference)?;
    let amount = Cents(change.difference.0.abs());
    let entry =
        if change.difference.0 > 0 { Payment::charge(amount, method_id) } else { Payment::refund(amount, method_id) };
    order.payment_history.push(entry);
    credit(shop, &order.user_id, method_id, Cents(-change.difference.0));
    for (position, variant) in change.pairs {
        let item = &mut order.items[position];
        (item.item_id, item.price, item.options) = (variant.item_id, variant.price, variant.options);
    }
    order.status = ITEMS_CHANGED.to_string();
    let output = shown(&order);
    shop.put_order(order);
    output
}

fn payment(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    let mut order = shop.order(arguments.text("order_id")?).ok_or("order not found")?.clone();
    if !order.status.starts_with("pending") {
        return Err(format!("the order is {}, not pending", order.status));
    }
    let method_id = arguments.text("payment_method_id")?;
    let new = method(shop, &order.user_id, method_id)?;
    let [Payment { amount, payment_method_id: old, .. }] = &order.payment_history[..] else {
        return Err("the means of payment can only be changed of an order with one payment".to_string());
    };
    let (amount, old) = (*amount, old.clone());
    if old == method_id {
        return Err("this is the order's means of payment already".to_string());
    }
    covers(new, amount)?;
    order.payment_history.extend([Payment::charge(amount, method_id), Payment::refund(amount, &old)]);
    credit(shop, &order.user_id, method_id, Cents(-amount.0));
    credit(shop, &order.user_id, &old, amount);
    let output = shown(&order);
    shop.put_order(order);
    output
}

fn user_address(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    let mut user = shop.user(arguments.text("user_id")?).ok_or("user not found")?.clone();
    user.address = arguments.address()?;
    let output = shown(&user);
    shop.put_user(user);
    output
}
