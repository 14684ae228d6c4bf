//! Lists, groups and problems of a stored artifact.

use crate::pages::rollout_parts::test_store::{address, elements, get, page, pages, rollout, rollouts};
use trainyard_tables::Trajectory;

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_facets_and_rows() {
    let (pages, _) = pages(&rollouts(), false).await;
    let html = page(&pages, &address("rollouts", "rollouts")).await;
    assert!(html.contains("18 of 18 rollouts"), "{html}");
    assert!(html.contains(r#"<a href="?verdict=right">right</a> <span class="muted">9</span>"#), "{html}");
    assert!(html.contains("What is 0 + 1? &lt;script&gt;"), "{html}");
    assert!(html.contains(r#"/rollouts/rows/17">17</a>"#), "{html}");
    assert!(!html.contains("Page after") && elements(&html) < 3_000);
    let some = page(&pages, &address("rollouts", "rollouts?verdict=wrong&step=1..2&sort=-turns&level=2")).await;
    assert!(some.contains("3 of 18 rollouts") && some.contains("✓ wrong"), "{some}");
    assert!(some.contains(r#"name="verdict" value="wrong""#), "the form keeps the facet");
    let none = page(&pages, &address("rollouts", "rollouts?problem=other")).await;
    assert!(none.contains("No rollout has all of these properties."));
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_mark_the_text_and_lead_to_its_message() {
    let (pages, _) = pages(&rollouts(), false).await;
    let html = page(&pages, &address("rollouts", "rollouts?find=NUMBER%202")).await;
    assert!(html.contains("6 of 18 rollouts") && html.contains("<mark>number 2</mark>"), "{html}");
    assert!(html.contains("rows/2?from=1#m1"), "{html}");
    let (status, html) = get(&pages, &address("rollouts", "rollouts?find=(&regex=1")).await;
    assert_eq!(status, 400);
    assert!(html.contains("has a mistake at character"), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paged_by_fifty() {
    let rows: Vec<Trajectory> = (0..120).map(|sample| rollout(0, 0, sample)).collect();
    let (pages, _) = pages(&rows, false).await;
    let first = page(&pages, &address("rollouts", "rollouts?stop=answer")).await;
    assert_eq!(first.matches("data-row").count(), 50);
    assert!(first.contains(r#"rel="next" href="?stop=answer&amp;from=50""#), "{first}");
    let last = page(&pages, &address("rollouts", "rollouts?from=100&stop=answer")).await;
    assert_eq!(last.matches("data-row").count(), 20);
    assert!(last.contains(r#"rel="prev" href="?stop=answer&amp;from=50""#) && !last.contains("Page after"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_show_rewards_advantages_and_what_filters_dropped() {
    let (pages, _) = pages(&rollouts(), false).await;
    let html = page(&pages, &address("rollouts", "groups/1?step=2&near=16")).await;
    assert!(html.contains("Group 1 of step 2") && html.contains("1 dropped by filters"), "{html}");
    assert!(html.contains("-0.1667 (-1.5 to 0.5)"), "{html}");
    assert!(html.contains(r#"<strong class="wrong">dropped</strong> by overlong: too long &lt;script&gt;"#), "{html}");
    assert!(html.contains("forked at token 2"), "{html}");
    assert!(html.contains("problems/p%2F1"), "{html}");
    let several = page(&pages, &address("rollouts", "groups/1")).await;
    assert!(
        several.contains("3 groups of number 1") && several.contains("groups/1?step=0&amp;problem=p%2F1"),
        "{several}"
    );
    assert_eq!(get(&pages, &address("rollouts", "groups/9")).await.0, 404);
    assert_eq!(get(&pages, &address("rollouts", "groups/x")).await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_have_a_chart_and_their_rollouts_by_step() {
    let (pages, _) = pages(&rollouts(), false).await;
    let html = page(&pages, &address("rollouts", "problems/p%2F1")).await;
    assert!(html.contains("Mean reward by step; mean reward from 0.6667 at 0 to 0.6667 at 2"), "{html}");
    assert!(html.contains("groups/1?step=1&amp;problem=p%2F1&amp;near=9"), "{html}");
    assert!(html.contains("rollouts?problem=p%2F1"), "{html}");
    assert_eq!(get(&pages, &address("rollouts", "problems/none")).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_addresses_name_what_is_wrong() {
    let (pages, _) = pages(&rollouts(), false).await;
    for (path, status, why) in [
        ("rollouts?sort=size", 400, "`sort` cannot be read"),
        ("rollouts?reward=a..b", 400, "`reward` cannot be read"),
        ("rollouts?verdict=good", 400, "write right, wrong, unreadable or unjudged"),
    ] {
        let (found, html) = get(&pages, &address("rollouts", path)).await;
        assert_eq!(found, status, "{path}");
        assert!(html.contains(why), "{html}");
    }
    let (status, html) = get(&pages, &address("numbers", "rollouts")).await;
    assert!(status == 400 && html.contains("is a table, not trajectories"), "{html}");
    assert_eq!(get(&pages, &address("absent", "rollouts")).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_without_rollouts_lead_to_the_nearest_one() {
    let (pages, _) = pages(&rollouts(), false).await;
    let html = page(&pages, &address("rollouts", "rollouts?step=7")).await;
    assert!(html.contains("No rollout here belongs to step 7. "), "{html}");
    assert!(html.contains("have rollouts (3 steps)."), "{html}");
    assert!(html.contains("rollouts/rollouts?step=2\">step 2</a>, 6 rollouts."), "{html}");
    assert!(html.contains("A point after the last step is a validation") && !html.contains("keep_rollouts"), "{html}");
    let filtered = page(&pages, &address("rollouts", "rollouts?step=2&problem=other")).await;
    assert!(
        !filtered.contains("belongs to step") && !filtered.contains("Other rows"),
        "step 2 has rollouts: {filtered}"
    );
    let other_part = page(&pages, &address("rollouts", "rollouts?step=2&part=1")).await;
    assert!(other_part.contains("Other rows of the table are examined here."), "{other_part}");
    assert!(other_part.contains("rollouts/rollouts?step=2\">Step 2</a> has 6 rollouts."), "{other_part}");
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_steps_name_the_option_that_keeps_them() {
    let newest: Vec<Trajectory> = [8, 9].map(|update| rollout(update, 0, 0)).to_vec();
    let (some, _) = pages(&newest, false).await;
    let html = page(&some, &address("rollouts", "rollouts?step=3")).await;
    let option = "<code>keep_rollouts</code> of <code>rl</code> limits their number";
    assert!(html.contains(option) && html.contains("rollouts?step=8\">step 8</a>, 1 rollout."), "{html}");
    let (none, _) = pages(&[Trajectory { update: None, ..rollout(0, 0, 0) }], false).await;
    let html = page(&none, &address("rollouts", "rollouts?step=3")).await;
    assert!(html.contains("belong to no step: no update used them."), "{html}");
}
