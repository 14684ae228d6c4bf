use super::*;

/// The goal is beyond a door, the key in the opposite corner.
const LOCKED: &str = "A.K\n##D\nG..";

fn locked() -> GridLayout {
    GridLayout::parse(LOCKED).unwrap()
}

fn walk(layout: &GridLayout, actions: &[GridAction]) -> GridState {
    actions.iter().fold(layout.initial_state(), |state, action| layout.act(state, *action).unwrap())
}

#[test]
fn layouts_are_parsed_cell_by_cell() {
    let layout = locked();
    assert_eq!((layout.start, layout.key, layout.door, layout.goal), ((0, 0), Some((2, 0)), Some((2, 1)), (0, 2)));
    assert_eq!(layout.size(), (3, 3));
    for bad in ["", "A", "AG\n.", "AGA", "AGG", "AGKK", "AGDD", "A?G"] {
        assert!(GridLayout::parse(bad).is_err(), "{bad}");
    }
    let wide = format!("AG{}", ".".repeat(MAX_SIDE));
    assert!(GridLayout::parse(&wide).is_err());
}

#[test]
fn impossible_actions_have_a_reason() {
    use GridAction::{East, Look, North, Open, PickUp, South, West};
    let layout = locked();
    let first = layout.initial_state();
    assert_eq!(layout.act(first, Look), Ok(first));
    for (action, reason) in [
        (North, "a wall is in the way"),
        (West, "a wall is in the way"),
        (South, "a wall is in the way"),
        (PickUp, "there is nothing to pick up here"),
        (Open, "there is no locked door next to you"),
    ] {
        assert_eq!(layout.act(first, action), Err(reason), "{action:?}");
    }
    let on_key = walk(&layout, &[East, East]);
    assert_eq!(on_key.position, (2, 0));
    assert_eq!(layout.act(on_key, South), Err("a locked door is in the way"));
    assert_eq!(layout.act(on_key, Open), Err("the door is locked and you have no key"));
    let holding = walk(&layout, &[East, East, PickUp]);
    assert!(holding.has_key && layout.act(holding, PickUp).is_err());
    assert_eq!(layout.act(holding, South), Err("a locked door is in the way"));
    let opened = walk(&layout, &[East, East, PickUp, Open]);
    assert_eq!(layout.act(opened, Open), Err("there is no locked door next to you"));
    assert_eq!(walk(&layout, &[East, East, PickUp, Open, South, South, West, West]).position, layout.goal);
}

#[test]
fn agent_sees_four_cells_and_what_it_has() {
    use GridAction::{East, Open, PickUp};
    let layout = locked();
    assert_eq!(layout.view(layout.initial_state()), "at 1,1: north wall, east floor, south wall, west wall");
    assert_eq!(layout.view(walk(&layout, &[East])), "at 2,1: north wall, east key, south wall, west floor");
    let on_key = walk(&layout, &[East, East]);
    assert_eq!(layout.view(on_key), "at 3,1: north wall, east wall, south locked door, west floor; a key is here");
    let opened = walk(&layout, &[East, East, PickUp, Open]);
    assert_eq!(layout.view(opened), "at 3,1: north wall, east wall, south open door, west floor; you have the key");
    assert_eq!(
        layout.view(GridState { position: (1, 2), ..opened }),
        "at 2,3: north wall, east floor, south wall, west goal; you have the key"
    );
    assert_eq!(
        layout.view(GridState { position: (1, 0), ..opened }),
        "at 2,1: north wall, east floor, south wall, west floor; you have the key"
    );
}

#[test]
fn shortest_path_is_found_if_there_is_one() {
    use GridAction::{East, Open, PickUp, South, West};
    assert_eq!(locked().shortest().unwrap(), [East, East, PickUp, Open, South, South, West, West]);
    let open = GridLayout::parse("A..\n...\n..G").unwrap();
    assert_eq!(open.shortest().unwrap(), [East, East, South, South]);
    assert_eq!(GridLayout::parse("A#G").unwrap().shortest(), None);
    assert_eq!(GridLayout::parse("ADG").unwrap().shortest(), None);
    assert_eq!(GridLayout::parse("A.#\n##.\nG.K").unwrap().shortest(), None);
}

#[test]
fn action_names_parse_in_free_spelling() {
    for action in GridAction::ALL {
        assert_eq!(GridAction::read(action.name()), Some(action));
    }
    let spelled = [
        (" North\n", GridAction::North),
        ("move west", GridAction::West),
        ("go east", GridAction::East),
        ("pick_up", GridAction::PickUp),
    ];
    for (text, action) in spelled {
        assert_eq!(GridAction::read(text), Some(action), "{text}");
    }
    for text in ["", "up", "northwest", "move", "look north"] {
        assert_eq!(GridAction::read(text), None, "{text}");
    }
}
