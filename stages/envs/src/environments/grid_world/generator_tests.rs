use super::*;
use std::collections::BTreeSet;

fn some(level: u32, count: u64) -> impl Iterator<Item = GeneratedGrid> {
    (0..count).map(move |index| GeneratedGrid::at(level, index, &Chance::new(11)))
}

#[test]
fn grids_have_their_parts_and_path_length() {
    let sizes = [5, 6, 6, 8, 10];
    let lengths = [(2, 4), (5, 9), (6, 11), (12, 20), (18, 40)];
    for level in 1..=MAX_LEVEL {
        let at = level as usize - 1;
        for grid in some(level, 100) {
            let count = |c: char| grid.text.matches(c).count();
            assert_eq!((grid.layout.size(), count('A'), count('G')), ((sizes[at], sizes[at]), 1, 1));
            let parts = usize::from(level > 2);
            assert_eq!((count('K'), count('D')), (parts, parts), "{}", grid.text);
            assert!((lengths[at].0..=lengths[at].1).contains(&grid.shortest_path.len()), "{}", grid.text);
            let end = grid
                .shortest_path
                .iter()
                .try_fold(grid.layout.initial_state(), |state, action| grid.layout.act(state, *action))
                .unwrap();
            assert_eq!(end.position, grid.layout.goal);
            assert_eq!(
                grid.shortest_path.contains(&GridAction::PickUp) && grid.shortest_path.contains(&GridAction::Open),
                level > 2,
                "{}",
                grid.text
            );
        }
    }
}

#[test]
fn grids_rarely_repeat() {
    for level in 1..=MAX_LEVEL {
        let texts: BTreeSet<String> = some(level, 300).map(|grid| grid.text).collect();
        assert!(texts.len() > 290, "level {level}: {}", texts.len());
    }
}

#[test]
fn mistaken_paths_still_reach_the_goal() {
    let mut kinds = BTreeSet::new();
    for (i, grid) in some(3, 200).enumerate() {
        let actions = grid.path_with_mistake(&mut Chance::new(i as u64).at("mistake", &[]));
        assert_eq!(actions.len(), grid.shortest_path.len() + 1);
        let (mut state, mut impossible) = (grid.layout.initial_state(), Vec::new());
        for action in actions {
            match grid.layout.act(state, action) {
                Ok(next) => state = next,
                Err(_) => impossible.push(action),
            }
        }
        assert_eq!((state.position, impossible.len()), (grid.layout.goal, 1), "{}", grid.text);
        kinds.extend(impossible);
    }
    assert_eq!(kinds.len(), 6, "{kinds:?}");
}

/// Compares a fixed sample, so that a change of the wording is noticed.
#[test]
fn grid_wording() {
    let text = "A.K\n##D\nG..".to_string();
    let layout = GridLayout::parse(&text).unwrap();
    let path = layout.shortest().unwrap();
    let problem = GeneratedGrid { text, layout, shortest_path: path }.problem(3);
    let expected =
        "Walk to the goal. Grid 3 by 3, 1,1 is northwest. You are at 1,1. Key at 3,1. Locked door at 3,2. Goal at 1,3.";
    assert_eq!(problem.question(), expected);
    assert_eq!(problem.canonical, "A.K/##D/G..");
    assert_eq!(problem.reference.as_deref(), Some("east\neast\npick up\nopen\nsouth\nsouth\nwest\nwest"));
    let open = GridLayout::parse("A.\n.G").unwrap();
    assert_eq!(question(&open), "Walk to the goal. Grid 2 by 2, 1,1 is northwest. You are at 1,1. Goal at 2,2.");
}
