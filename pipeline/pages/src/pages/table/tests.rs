//! Pages of rows.

use crate::pages::data_store::{address, pages};
use crate::pages::rollout_parts::test_store::{get, page};
use crate::{MatchingRows, PageQueries};
use trainyard_core::Error;

/// Returns queries that answer `n > 99` and refuse other conditions.
fn queries() -> PageQueries {
    PageQueries {
        matching: Some(Box::new(|query| {
            let is_known = query.condition == "n > 99";
            let rows = (100..120).skip(query.from).take(query.rows).collect();
            Box::pin(async move {
                match is_known {
                    true => Ok(MatchingRows { matching: 20, of: 120, rows }),
                    false => Err(Error::invalid("no such column: <script>").help("the columns are: n, x")),
                }
            })
        })),
        select: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_paged() {
    let pages = pages(PageQueries::default()).await;
    let html = page(&pages, &address("numbers", "numbers", "rows")).await;
    assert!(html.contains("120 rows") && html.contains("rows/49\"") && !html.contains("rows/50\""), "{html}");
    assert!(html.contains("rows?from=50") && html.contains("rows?from=100") && html.contains("70 more"), "{html}");
    let html = page(&pages, &address("numbers", "numbers", "rows?from=100")).await;
    assert!(html.contains("rows/119\"") && html.contains("Rows before") && !html.contains("Rows after"), "{html}");
    assert!(!html.contains("Distributions"), "only on the first page");
    let html = page(&pages, &address("numbers", "numbers", "rows?from=500")).await;
    assert!(html.contains("There are no rows from here on."), "{html}");
    assert_eq!(get(&pages, &address("numbers", "numbers", "rows?from=x")).await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_chosen_and_distributions_shown() {
    let pages = pages(PageQueries::default()).await;
    let html = page(&pages, &address("numbers", "numbers", "rows")).await;
    assert!(html.contains("Of all 120 rows.") && html.contains("4 different values"), "{html}");
    assert_eq!(html.matches("histogram").count(), 2, "n and x: {html}");
    assert!(html.contains("n: 120 values from 0 to 119, at most 6 in one of 20 bins"), "{html}");
    let html = page(&pages, &address("numbers", "numbers", "rows?column=flag&column=n")).await;
    assert!(html.contains("Columns: 2 shown, 2 more") && html.contains("<h3>flag</h3>"), "{html}");
    assert!(!html.contains("<h3>text</h3>") && html.contains("rows?column=flag&amp;column=n&amp;from=50"), "{html}");
    let (status, html) = get(&pages, &address("numbers", "numbers", "rows?column=flags")).await;
    assert!(status == 400 && html.contains("did you mean `flag`?"), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_found_by_a_condition_and_by_their_id() {
    let pages = pages(queries()).await;
    let html = page(&pages, &address("numbers", "numbers", "rows?where=n+%3E+99")).await;
    assert!(
        html.contains("20 of 120 rows match") && html.contains("rows/100\"") && !html.contains("rows/99\""),
        "{html}"
    );
    assert!(html.contains("value=\"n &gt; 99\""), "the form keeps the condition: {html}");
    let html = page(&pages, &address("numbers", "numbers", "rows?where=z")).await;
    assert!(html.contains("no such column: &lt;script&gt;") && html.contains("the columns are: n, x"), "{html}");
    let html = page(&pages, &address("filter", "kept", "rows?id=q")).await;
    assert!(html.contains("rows/1\"") && !html.contains("rows/0\""), "{html}");
    let (status, html) = get(&pages, &address("filter", "kept", "rows?id=nope")).await;
    assert!(status == 400 && html.contains("has no row with the id `nope`"), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_without_queries_say_so() {
    let pages = pages(PageQueries::default()).await;
    let html = page(&pages, &address("numbers", "numbers", "rows?where=n+%3E+99")).await;
    assert!(html.contains("this server finds no rows by a condition"), "{html}");
}
