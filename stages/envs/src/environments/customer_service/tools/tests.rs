use super::*;
use crate::environments::customer_service::database::Shop;
use crate::environments::customer_service::database::ShopDatabase;
use crate::environments::customer_service::records::{Cents, ShopOrder};
use serde_json::{Value, json};
use std::sync::Arc;

fn shop() -> Shop {
    Shop::new(Arc::new(ShopDatabase::made_up().unwrap()))
}

fn call(shop: &mut Shop, name: &str, arguments: Value) -> ToolOutput {
    tool(name).unwrap().call(shop, &arguments)
}

fn order(shop: &Shop, id: &str) -> ShopOrder {
    shop.order(id).unwrap().clone()
}

fn balance(shop: &Shop, user: &str, card: &str) -> i64 {
    shop.user(user).unwrap().payment_methods[card].balance.unwrap().0
}

/// Returns (type, cents, payment method) of every payment.
fn payments(order: &ShopOrder) -> Vec<(&str, i64, &str)> {
    order
        .payment_history
        .iter()
        .map(|p| (p.transaction_type.as_str(), p.amount.0, p.payment_method_id.as_str()))
        .collect()
}

#[test]
fn tools_are_sorted_and_described() {
    assert!(TOOLS.iter().map(|t| t.name).is_sorted());
    for spec in specs() {
        let required = spec.parameters["required"].as_array().unwrap();
        assert_eq!(required.len(), spec.parameters["properties"].as_object().unwrap().len(), "{}", spec.name);
        assert!(!spec.description.is_empty());
    }
    assert!(tool(TRANSFER).is_some() && tool("think").is_none());
}

#[test]
fn users_are_found_by_email_or_name() {
    let mut shop = shop();
    assert_eq!(
        call(&mut shop, "find_user_id_by_email", json!({"email": "Ada.Moss@example.com"})).unwrap(),
        "ada_moss_1001"
    );
    let by_name = |zip: &str| json!({"first_name": "ben", "last_name": "REED", "zip": zip});
    assert_eq!(call(&mut shop, "find_user_id_by_name_zip", by_name("02108")).unwrap(), "ben_reed_2002");
    assert_eq!(call(&mut shop, "find_user_id_by_name_zip", by_name("2108")).unwrap_err(), "user not found");
    assert_eq!(call(&mut shop, "find_user_id_by_email", json!({"email": "ada"})).unwrap_err(), "user not found");
}

#[test]
fn records_are_shown_with_changes() {
    let mut shop = shop();
    let shown: Value =
        serde_json::from_str(&call(&mut shop, "get_order_details", json!({"order_id": "#W2000002"})).unwrap()).unwrap();
    assert_eq!((&shown["status"], &shown["payment_history"][0]["amount"]), (&json!("processed"), &json!(9.0)));
    assert!(shown.get("cancel_reason").is_none());
    let lamp: Value =
        serde_json::from_str(&call(&mut shop, "get_product_details", json!({"product_id": "200"})).unwrap()).unwrap();
    assert_eq!(lamp["variants"]["2002"]["price"], json!(42.5));
    assert!(call(&mut shop, "get_item_details", json!({"item_id": "1003"})).unwrap().contains(r#""available":false"#));
    assert!(
        call(&mut shop, "get_user_details", json!({"user_id": "ada_moss_1001"})).unwrap().contains("gift_card_1001")
    );
    assert_eq!(
        call(&mut shop, "list_all_product_types", json!({})).unwrap(),
        r#"{"Lamp":"200","Mug":"100","Socks":"300"}"#
    );
    for (name, arguments) in [
        ("get_order_details", json!({"order_id": "W2000002"})),
        ("get_product_details", json!({"product_id": "2002"})),
        ("get_item_details", json!({"item_id": "200"})),
        ("get_user_details", json!({"user_id": "ada"})),
    ] {
        assert!(call(&mut shop, name, arguments).unwrap_err().ends_with("not found"), "{name}");
    }
}

#[test]
fn arguments_are_checked() {
    let mut shop = shop();
    for (arguments, message) in [
        (json!([]), "must be an object"),
        (json!({}), "needs the argument `order_id`"),
        (json!({"order_id": 3}), "must be a string"),
        (json!({"order_id": "#W2000002", "user": "x"}), "no argument `user`; it has: order_id"),
    ] {
        let error = call(&mut shop, "get_order_details", arguments).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    let list = json!({"order_id": "#W1000002", "item_ids": "3001", "payment_method_id": "gift_card_1001"});
    assert!(call(&mut shop, "return_delivered_order_items", list).unwrap_err().contains("list of strings"));
}

#[test]
fn a_cancelled_order_is_refunded_as_it_was_paid() {
    let mut shop = shop();
    let cancel = |id: &str, reason: &str| json!({"order_id": id, "reason": reason});
    assert!(
        call(&mut shop, "cancel_pending_order", cancel("#W1000001", "too dear")).unwrap_err().contains("no reason")
    );
    call(&mut shop, "cancel_pending_order", cancel("#W1000001", "no longer needed")).unwrap();
    let cancelled = order(&shop, "#W1000001");
    assert_eq!(
        (cancelled.status.as_str(), cancelled.cancel_reason.as_deref()),
        ("cancelled", Some("no longer needed"))
    );
    assert_eq!(payments(&cancelled), [("payment", 4700, "credit_card_1001"), ("refund", 4700, "credit_card_1001")]);
    call(&mut shop, "cancel_pending_order", cancel("#W2000001", "ordered by mistake")).unwrap();
    assert_eq!(balance(&shop, "ben_reed_2002", "gift_card_2002"), 1075);
    assert!(
        call(&mut shop, "cancel_pending_order", cancel("#W1000001", "no longer needed"))
            .unwrap_err()
            .contains("cancelled, not pending")
    );
    assert!(
        call(&mut shop, "cancel_pending_order", cancel("#W2000002", "no longer needed"))
            .unwrap_err()
            .contains("processed")
    );
}

#[test]
fn refunds_are_not_refunded_again() {
    let mut shop = shop();
    let pay = json!({"order_id": "#W2000001", "payment_method_id": "paypal_2002"});
    call(&mut shop, "modify_pending_order_payment", pay.clone()).unwrap();
    assert_eq!(balance(&shop, "ben_reed_2002", "gift_card_2002"), 1075);
    assert!(call(&mut shop, "modify_pending_order_payment", pay).unwrap_err().contains("one payment"));
    call(&mut shop, "cancel_pending_order", json!({"order_id": "#W2000001", "reason": "no longer needed"})).unwrap();
    let expected = [
        ("payment", 475, "gift_card_2002"),
        ("payment", 475, "paypal_2002"),
        ("refund", 475, "gift_card_2002"),
        ("refund", 475, "paypal_2002"),
    ];
    assert_eq!(payments(&order(&shop, "#W2000001")), expected);
    assert_eq!(balance(&shop, "ben_reed_2002", "gift_card_2002"), 1075, "the card was refunded already");
}

#[test]
fn new_payment_method_must_cover_the_order() {
    let mut shop = shop();
    let mut pay = |id: &str| {
        call(&mut shop, "modify_pending_order_payment", json!({"order_id": "#W1000001", "payment_method_id": id}))
    };
    assert!(pay("gift_card_1001").unwrap_err().contains("too little"), "40 for 47");
    assert!(pay("credit_card_1001").unwrap_err().contains("already"));
    assert!(pay("paypal_2002").unwrap_err().contains("no means of payment"));
}

#[test]
fn items_change_once_each_to_its_own_variant() {
    let mut shop = shop();
    let change = |old: Value, new: Value, method: &str| {
        json!({"order_id": "#W1000001", "item_ids": old,
        "new_item_ids": new, "payment_method_id": method})
    };
    for (old, new, message) in [
        (json!(["1001"]), json!(["1003"]), "not available"),
        (json!(["1001"]), json!(["2002"]), "no variant of Mug"),
        (json!(["1001"]), json!(["1001"]), "stay what it is"),
        (json!(["1001"]), json!(["1002", "1004"]), "numbers"),
        (json!(["1001", "1001", "1001"]), json!(["1002", "1002", "1002"]), "not so often"),
        (json!(["3001"]), json!(["3002"]), "not so often"),
    ] {
        let error = call(&mut shop, "modify_pending_order_items", change(old, new, "gift_card_1001")).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    // 2 × 8.50 + 30 becomes 9 + 7.75 + 42.50: 12.25 more.
    call(
        &mut shop,
        "modify_pending_order_items",
        change(json!(["1001", "2001", "1001"]), json!(["1002", "2002", "1004"]), "gift_card_1001"),
    )
    .unwrap();
    let changed = order(&shop, "#W1000001");
    let items: Vec<(&str, i64, &str)> =
        changed.items.iter().map(|i| (i.item_id.as_str(), i.price.0, i.options["color"].as_str())).collect();
    assert_eq!(items, [("1002", 900, "blue"), ("1004", 775, "green"), ("2002", 4250, "white")]);
    assert_eq!(changed.status, "pending (item modified)");
    assert_eq!(payments(&changed)[1..], [("payment", 1225, "gift_card_1001")]);
    assert_eq!(balance(&shop, "ada_moss_1001", "gift_card_1001"), 4000 - 1225);
    let again = change(json!(["1002"]), json!(["1001"]), "gift_card_1001");
    assert!(call(&mut shop, "modify_pending_order_items", again).is_err());
    assert!(
        call(&mut shop, "cancel_pending_order", json!({"order_id": "#W1000001", "reason": "no longer needed"}))
            .is_err()
    );
}

#[test]
fn cheaper_items_give_money_back() {
    let mut shop = shop();
    let change = json!({"order_id": "#W1000001", "item_ids": ["1001"], "new_item_ids": ["1004"],
        "payment_method_id": "credit_card_1001"});
    call(&mut shop, "modify_pending_order_items", change).unwrap();
    assert_eq!(payments(&order(&shop, "#W1000001"))[1..], [("refund", 75, "credit_card_1001")]);
    // The new pair costs 50 cents more, which the card covers.
    let socks = json!({"order_id": "#W2000001", "item_ids": ["3001"], "new_item_ids": ["3002"],
        "payment_method_id": "gift_card_2002"});
    call(&mut shop, "modify_pending_order_items", socks).unwrap();
    assert_eq!(balance(&shop, "ben_reed_2002", "gift_card_2002"), 550);
}

#[test]
fn delivered_items_are_exchanged_or_returned_once() {
    let exchange = |method: &str| {
        json!({"order_id": "#W1000002", "item_ids": ["3001", "2001"], "new_item_ids": ["3002",
        "2002"], "payment_method_id": method})
    };
    let mut first = shop();
    call(&mut first, "exchange_delivered_order_items", exchange("gift_card_1001")).unwrap();
    let exchanged = order(&first, "#W1000002");
    assert_eq!(exchanged.status, "exchange requested");
    assert_eq!(exchanged.exchange_items.as_deref().unwrap(), ["2001", "3001"]);
    assert_eq!(exchanged.exchange_new_items.as_deref().unwrap(), ["2002", "3002"]);
    assert_eq!(exchanged.exchange_price_difference, Some(Cents(1300)));
    assert_eq!(balance(&first, "ada_moss_1001", "gift_card_1001"), 4000, "nothing is paid before the items come back");
    assert!(call(&mut first, "exchange_delivered_order_items", exchange("gift_card_1001")).is_err());

    let mut second = shop();
    let give_back =
        |ids: Value, method: &str| json!({"order_id": "#W1000002", "item_ids": ids, "payment_method_id": method});
    assert!(
        call(&mut second, "return_delivered_order_items", give_back(json!(["3001", "3001"]), "gift_card_1001"))
            .is_err()
    );
    assert!(
        call(&mut second, "return_delivered_order_items", give_back(json!(["3001"]), "paypal_2002")).is_err(),
        "someone else's"
    );
    call(&mut second, "return_delivered_order_items", give_back(json!(["3001"]), "gift_card_1001")).unwrap();
    let returned = order(&second, "#W1000002");
    assert_eq!(
        (returned.status.as_str(), returned.return_payment_method_id.as_deref()),
        ("return requested", Some("gift_card_1001"))
    );
    assert_eq!(returned.return_items.as_deref().unwrap(), ["3001"]);
    assert!(call(&mut second, "exchange_delivered_order_items", exchange("gift_card_1001")).is_err());
    assert_eq!(first.differences(&second), ["order `#W1000002`"]);
    assert_eq!(first.differences(&first.clone()), Vec::<String>::new());
}

#[test]
fn addresses_change_on_orders_and_users() {
    let mut shop = shop();
    let to = |key: &str, id: &str| {
        json!({key: id, "address1": "9 Hill", "address2": "", "city": "Reno",
        "country": "USA", "state": "NV", "zip": "89501"})
    };
    call(&mut shop, "modify_pending_order_address", to("order_id", "#W1000001")).unwrap();
    assert_eq!(order(&shop, "#W1000001").address.city, "Reno");
    assert_eq!(shop.user("ada_moss_1001").unwrap().address.city, "Albany");
    call(&mut shop, "modify_user_address", to("user_id", "ada_moss_1001")).unwrap();
    assert_eq!(shop.user("ada_moss_1001").unwrap().address.zip, "89501");
    assert!(
        call(&mut shop, "modify_pending_order_address", to("order_id", "#W1000002")).unwrap_err().contains("delivered")
    );
    assert!(
        call(&mut shop, "modify_user_address", json!({"user_id": "ada_moss_1001"})).unwrap_err().contains("address1")
    );
    assert_eq!(self::shop().differences(&shop), ["user `ada_moss_1001`", "order `#W1000001`"]);
}

#[test]
fn sums_are_rounded_to_cents() {
    let mut shop = shop();
    let mut calculate = |text: &str| call(&mut shop, "calculate", json!({"expression": text}));
    for (text, value) in [
        ("47 - 8.5*2", "30.0"),
        ("1/3", "0.33"),
        ("155.33 - 147.05 + 268.77 - 235.13", "41.92"),
        ("135.24 - 153.23", "-17.99"),
    ] {
        assert_eq!(calculate(text).unwrap(), value);
    }
    assert!(calculate("2**3").is_ok() && calculate("abs(3)").unwrap_err().contains("`a`") && calculate("1/0").is_err());
}
