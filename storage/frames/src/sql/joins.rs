//! Counts the rows of joins before they are made: a join by a column with few values may have more rows than memory.

use super::run_error::{RunError, too_many_rows};
use polars::error::PolarsResult;
use polars::prelude::{DataFrame, DataType, Expr, IntoLazy as _, JoinArgs, JoinType, LazyFrame, col, len};
use polars_plan::dsl::{DslPlan, JoinOptions};
use std::sync::Arc;
use trainyard_core::Error;

/// Checks that no join of a plan has more than `most` rows. The inner joins are checked first, so that the outer ones
/// can be counted.
///
/// Errors: invalid (a join with more rows, or by other conditions than equalities), those of polars.
pub fn check(plan: &DslPlan, most: u64) -> Result<(), RunError> {
    let mut steps: Vec<&DslPlan> = plan.into_iter().collect();
    steps.reverse();
    for step in steps {
        let DslPlan::Join { input_left, input_right, left_on, right_on, predicates, options } = step else { continue };
        if !predicates.is_empty() {
            let error = Error::invalid("a join by a comparison other than `=` is not supported here");
            return Err(error.help("write `a join b on a.x = b.x where a.y < b.y`").into());
        }
        let sides = [(input_left, left_on), (input_right, right_on)];
        let rows = rows_of_join(sides, options)?;
        if rows > most as f64 {
            return Err(too_many_rows(&format!("a join has {rows} rows, more than {most}")).into());
        }
    }
    Ok(())
}

/// Returns the number of rows of a join; for one that selects rows of one side, those of that side.
fn rows_of_join(sides: [(&Arc<DslPlan>, &Vec<Expr>); 2], options: &JoinOptions) -> PolarsResult<f64> {
    let [(left, left_on), (right, right_on)] = sides;
    if left_on.is_empty() {
        return Ok(height(left)? * height(right)?);
    }
    let (outer_left, outer_right) = match options.args.how {
        JoinType::Inner => (false, false),
        JoinType::Left => (true, false),
        JoinType::Right => (false, true),
        JoinType::Full => (true, true),
        // The other kinds select rows of one side.
        _ => return Ok(0.0),
    };
    let (left_groups, right_groups) = (groups(left, left_on, "left")?, groups(right, right_on, "right")?);
    let total = |groups: &DataFrame, name: &str| sum(groups.clone().lazy().select([col(name).sum()]));
    let keys: Vec<Expr> = (0..left_on.len()).map(|i| col(key(i))).collect();
    let args = JoinArgs { nulls_equal: options.args.nulls_equal, ..JoinArgs::new(JoinType::Inner) };
    let pairs = left_groups.clone().lazy().join(right_groups.clone().lazy(), keys.clone(), keys, args);
    let pairs = pairs.collect()?;
    let matched = sum(pairs.clone().lazy().select([(col("left") * col("right")).sum()]))?;
    let alone = |is_outer: bool, groups: &DataFrame, name: &str| {
        if is_outer { Ok(total(groups, name)? - total(&pairs, name)?) } else { PolarsResult::Ok(0.0) }
    };
    Ok(matched + alone(outer_left, &left_groups, "left")? + alone(outer_right, &right_groups, "right")?)
}

/// Returns the number of rows for each value of the keys.
fn groups(plan: &Arc<DslPlan>, on: &[Expr], name: &str) -> PolarsResult<DataFrame> {
    let keys: Vec<Expr> = on.iter().enumerate().map(|(i, on)| on.clone().alias(key(i))).collect();
    frame(plan).group_by(keys).agg([len().cast(DataType::Float64).alias(name)]).collect()
}

fn key(i: usize) -> String {
    format!("key_{i}")
}

fn height(plan: &Arc<DslPlan>) -> PolarsResult<f64> {
    sum(frame(plan).select([len().cast(DataType::Float64)]))
}

fn frame(plan: &Arc<DslPlan>) -> LazyFrame {
    LazyFrame::from(plan.as_ref().clone())
}

/// Returns the only cell of a frame.
fn sum(frame: LazyFrame) -> PolarsResult<f64> {
    let frame = frame.collect()?;
    Ok(frame.columns().first().map(|column| column.f64()).transpose()?.and_then(|cells| cells.get(0)).unwrap_or(0.0))
}
