//! Implements the tools for delivered orders, whose items can be returned or exchanged once.

use super::arguments::ShopToolArguments;
use super::items::{covers, exchange, item_positions, method, order_with_status};
use super::tool::{METHOD, ORDER, ShopTool, ToolOutput, shown, texts};
use crate::environments::customer_service::database::Shop;

pub static EXCHANGE: ShopTool = ShopTool {
    name: "exchange_delivered_order_items",
    description: "Exchanges items of a delivered order for other variants of the same products: once for each order, \
                  so all at once. The customer must have confirmed it.",
    parameters: &[
        ORDER,
        texts("item_ids", "ids of the items that are given back; one that is given back twice stands twice"),
        texts("new_item_ids", "ids of the items that replace them, in the same order"),
        METHOD,
    ],
    changes: true,
    run: exchange_items,
};

pub static RETURN: ShopTool = ShopTool {
    name: "return_delivered_order_items",
    description: "Returns items of a delivered order. The customer must have confirmed it, and gets an email about the \
                  way back.",
    parameters: &[ORDER, texts("item_ids", "ids of the items; one that is given back twice stands twice"), METHOD],
    changes: true,
    run: return_items,
};

fn sorted(ids: &[&str]) -> Vec<String> {
    let mut sorted: Vec<String> = ids.iter().map(ToString::to_string).collect();
    sorted.sort();
    sorted
}

fn exchange_items(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    let mut order = order_with_status(shop, arguments.text("order_id")?, "delivered")?;
    let (old, new) = (arguments.texts("item_ids")?, arguments.texts("new_item_ids")?);
    let change = exchange(shop, &order, &old, &new)?;
    let method_id = arguments.text("payment_method_id")?;
    covers(method(shop, &order.user_id, method_id)?, change.difference)?;
    order.status = "exchange requested".to_string();
    order.exchange_items = Some(sorted(&old));
    order.exchange_new_items = Some(sorted(&new));
    order.exchange_payment_method_id = Some(method_id.to_string());
    order.exchange_price_difference = Some(change.difference);
    let output = shown(&order);
    shop.put_order(order);
    output
}

fn return_items(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    let mut order = order_with_status(shop, arguments.text("order_id")?, "delivered")?;
    let method_id = arguments.text("payment_method_id")?;
    let gift_card = method(shop, &order.user_id, method_id)?.source == "gift_card";
    let original = order.payment_history.first().is_some_and(|payment| payment.payment_method_id == method_id);
    if !gift_card && !original {
        return Err("a refund goes to the original means of payment or to a gift card".to_string());
    }
    let ids = arguments.texts("item_ids")?;
    item_positions(&order, &ids)?;
    order.status = "return requested".to_string();
    order.return_items = Some(sorted(&ids));
    order.return_payment_method_id = Some(method_id.to_string());
    let output = shown(&order);
    shop.put_order(order);
    output
}
