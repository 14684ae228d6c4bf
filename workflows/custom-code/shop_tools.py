"""The tools of the shop: what the model may call."""
import trainyard_bridge as ty

PRICES = {
    "apple": 3, "apricot": 4, "banana": 2, "cherry": 1, "fig": 6, "grape": 2, "kiwi": 5, "lemon": 4, "lime": 3,
    "mango": 9, "melon": 8, "nectarine": 5, "orange": 4, "papaya": 7, "peach": 6, "pear": 5, "plum": 3, "quince": 7,
}


@ty.tool
def price(item: str, count: int = 1) -> int:
    """Looks up what some items cost.

    Args:
        item: name of the fruit, in the singular
        count: how many
    """
    return PRICES[item] * count


@ty.tool
def add(amounts: list) -> int:
    """Adds amounts up.

    Args:
        amounts: whole numbers
    """
    return sum(amounts)


if __name__ == "__main__":
    ty.run()
