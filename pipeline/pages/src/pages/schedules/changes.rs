//! Forms that change a schedule.

use crate::error::PageError;
use crate::forms::{FormFields, actor, refused};
use crate::request::PageRequest;
use crate::state::PageState;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Redirect;
use std::sync::Arc;
use trainyard_daemon::operations::{self, BackfillRange};

/// The pages, the request, and the parameters of its path: the schedule, or the schedule and the backfill.
type ScheduleRequest<P = String> = (State<Arc<PageState>>, PageRequest, Path<P>);
type Changed = Result<Redirect, PageError>;

/// Pauses a schedule.
pub async fn pause((State(app), page, Path(name)): ScheduleRequest, fields: FormFields) -> Changed {
    let (daemon, by) = (app.daemon()?, actor(&page.user));
    let why = fields.text("why").map(str::to_string);
    operations::pause(&app.store, &name, daemon.actor(&by), why).await?;
    done(&app, &page, &name)
}

/// Resumes a schedule.
pub async fn resume((State(app), page, Path(name)): ScheduleRequest, _: FormFields) -> Changed {
    let (daemon, by) = (app.daemon()?, actor(&page.user));
    operations::resume(&app.store, &name, daemon.actor(&by)).await?;
    done(&app, &page, &name)
}

/// Starts a run of a schedule now.
pub async fn trigger((State(app), page, Path(name)): ScheduleRequest, _: FormFields) -> Changed {
    let (daemon, by) = (app.daemon()?, actor(&page.user));
    operations::trigger(&app.store, &name, daemon.actor(&by)).await.map_err(refused)?;
    done(&app, &page, &name)
}

/// Starts a backfill.
pub async fn backfill((State(app), page, Path(name)): ScheduleRequest, fields: FormFields) -> Changed {
    let (daemon, by) = (app.daemon()?, actor(&page.user));
    let range = range(&fields)?;
    operations::backfill(&app.store, &name, daemon.actor(&by), &range).await.map_err(refused)?;
    done(&app, &page, &name)
}

/// Cancels the remaining ticks of a backfill.
pub async fn cancel_backfill(
    (State(app), page, Path((name, id))): ScheduleRequest<(String, String)>,
    _: FormFields,
) -> Changed {
    let (daemon, by) = (app.daemon()?, actor(&page.user));
    operations::cancel_backfill(&app.store, &name, &id, daemon.actor(&by)).await?;
    done(&app, &page, &name)
}

fn range(fields: &FormFields) -> Result<BackfillRange, PageError> {
    let missing = |what: &str| {
        PageError::new(StatusCode::BAD_REQUEST, format!("the range has no {what} day"))
            .help("write a day, such as 2026-11-01, or an instant, such as 2026-11-01T02:00:00Z")
    };
    let wrong = |text: &str| {
        PageError::new(StatusCode::BAD_REQUEST, format!("{text:?} is no number of runs")).help("give 1 to 1000")
    };
    let concurrency = fields.text("concurrency").map_or(Ok(1), |text| text.parse().map_err(|_| wrong(text)))?;
    Ok(BackfillRange {
        from: fields.text("from").ok_or_else(|| missing("first"))?.to_string(),
        to: fields.text("to").ok_or_else(|| missing("last"))?.to_string(),
        concurrency,
        again: fields.text("again").is_some(),
    })
}

/// Wakes the daemon, and leads back to the schedule.
fn done(app: &PageState, page: &PageRequest, name: &str) -> Changed {
    app.daemon()?.api.daemon.wake();
    Ok(Redirect::to(&page.links.schedule(name)))
}
