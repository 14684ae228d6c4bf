//! Implements the tools that find and show records. Names and emails ignore case; ids and zip codes do not.

use super::arguments::ShopToolArguments;
use super::tool::{ORDER, ShopTool, ToolOutput, shown, text};
use crate::environments::customer_service::database::Shop;
use crate::environments::customer_service::records::User;
use std::collections::BTreeMap;

pub static USER_BY_EMAIL: ShopTool = ShopTool {
    name: "find_user_id_by_email",
    description: "Finds the id of a user by email.",
    parameters: &[text("email", "the user's email")],
    changes: false,
    run: user_by_email,
};

pub static USER_BY_NAME: ShopTool = ShopTool {
    name: "find_user_id_by_name_zip",
    description: "Finds the id of a user by name and zip code, for users who do not know their email.",
    parameters: &[
        text("first_name", "first name"),
        text("last_name", "last name"),
        text("zip", "zip code of the user's address"),
    ],
    changes: false,
    run: user_by_name,
};

pub static USER: ShopTool = ShopTool {
    name: "get_user_details",
    description: "Shows a user: address, means of payment, ids of orders.",
    parameters: &[text("user_id", "id of the user, such as ada_moss_1001")],
    changes: false,
    run: user,
};

pub static ORDER_DETAILS: ShopTool = ShopTool {
    name: "get_order_details",
    description: "Shows an order: items, status, address, payments, shipment.",
    parameters: &[ORDER],
    changes: false,
    run: order,
};

pub static PRODUCT: ShopTool = ShopTool {
    name: "get_product_details",
    description: "Shows a product with its variants: options, prices, what is available.",
    parameters: &[text("product_id", "id of the product, which is no item id")],
    changes: false,
    run: product,
};

pub static ITEM: ShopTool = ShopTool {
    name: "get_item_details",
    description: "Shows one variant of a product.",
    parameters: &[text("item_id", "id of the item, which is no product id")],
    changes: false,
    run: item,
};

pub static PRODUCT_TYPES: ShopTool = ShopTool {
    name: "list_all_product_types",
    description: "Lists all products by name with their ids.",
    parameters: &[],
    changes: false,
    run: product_types,
};

fn find(shop: &Shop, is_it: impl Fn(&User) -> bool) -> ToolOutput {
    let found = shop.users().find(|user| is_it(user)).map(|user| user.user_id.clone());
    found.ok_or_else(|| "user not found".to_string())
}

fn user_by_email(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    let email = arguments.text("email")?.to_lowercase();
    find(shop, |user| user.email.to_lowercase() == email)
}

fn user_by_name(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    let (first, last) = (arguments.text("first_name")?.to_lowercase(), arguments.text("last_name")?.to_lowercase());
    let zip = arguments.text("zip")?;
    find(shop, |user| {
        user.address.zip == zip
            && user.name.first_name.to_lowercase() == first
            && user.name.last_name.to_lowercase() == last
    })
}

fn user(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    shown(shop.user(arguments.text("user_id")?).ok_or("user not found")?)
}

fn order(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    shown(shop.order(arguments.text("order_id")?).ok_or("order not found")?)
}

fn product(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    shown(shop.product(arguments.text("product_id")?).ok_or("product not found")?)
}

fn item(shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    shown(shop.variant(arguments.text("item_id")?).ok_or("item not found")?)
}

fn product_types(shop: &mut Shop, _arguments: &ShopToolArguments<'_>) -> ToolOutput {
    let types: BTreeMap<&str, &str> = shop.products().map(|p| (p.name.as_str(), p.product_id.as_str())).collect();
    shown(&types)
}
