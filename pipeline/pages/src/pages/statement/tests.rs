//! Pages of statements.

use crate::pages::data_store::{address, pages};
use crate::pages::rollout_parts::test_store::{HOSTILE, get, page};
use crate::{PageQueries, SelectColumn, SelectResult};
use serde_json::json;
use trainyard_core::Error;

/// Returns queries that echo their limits, and refuse statements without `self`.
fn queries() -> PageQueries {
    PageQueries {
        matching: None,
        select: Some(Box::new(|query| {
            Box::pin(async move {
                if !query.statement.contains("self") {
                    return Err(Error::invalid("no such table").help("the artifact is `self`"));
                }
                let column = |name: &str, kind: &str| SelectColumn { name: name.into(), r#type: kind.into() };
                Ok(SelectResult {
                    columns: vec![column(HOSTILE, "string"), column("rows", "int")],
                    rows: vec![vec![json!(HOSTILE), json!(query.rows)]],
                    truncated: true,
                })
            })
        })),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_has_a_result() {
    let pages = pages(queries()).await;
    let html = page(&pages, &address("numbers", "numbers", "query")).await;
    assert!(html.contains("ends after 30 seconds") && html.contains("query?sql=select%20count"), "{html}");
    let html = page(&pages, &address("numbers", "numbers", "query?sql=select+1+from+self&rows=99999")).await;
    assert!(html.contains("<td class=\"n\">1000</td>"), "the number of rows is bounded: {html}");
    assert!(html.contains("1 row, and more") && html.contains("select 1 from self</textarea>"), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_have_their_help_and_a_command() {
    let with = pages(queries()).await;
    let html = page(&with, &address("numbers", "numbers", "query?sql=select+'%3Cscript%3Ealert'")).await;
    assert!(html.contains("no such table") && html.contains("the artifact is `self`"), "{html}");
    assert!(html.contains(r"/numbers 'select '\''&lt;script&gt;alert'\''' --timeout 5m"), "{html}");
    let without = pages(PageQueries::default()).await;
    let html = page(&without, &address("numbers", "numbers", "query?sql=select+1")).await;
    assert!(html.contains("this server runs no statements"), "{html}");
    let (status, html) = get(&without, &address("filter", "report", "query")).await;
    assert!(status == 404 && html.contains("r/filter/report is a report, not a table"), "{html}");
}
