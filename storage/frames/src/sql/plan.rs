//! Makes a plan independent of threads: every step keeps the order of the rows and of equal keys.

use polars::prelude::{DataFrame, Expr, MaintainOrderJoin, UniqueKeepStrategy};
use polars_plan::dsl::DslPlan;
use polars_plan::plans::{DslFunction, FunctionIR};
use std::sync::Arc;

/// Returns the same plan with steps in order: the rows of a group follow each other as in the input, groups are in the
/// order of their first rows, the rows of a join in that of the left table and then of the right one, and rows with
/// equal keys of a sort stay in order.
pub fn in_order(plan: DslPlan) -> DslPlan {
    use DslPlan as P;
    match plan {
        P::IR { dsl, .. } => in_order(owned(dsl)),
        P::Filter { input, predicate } => one_chunk(P::Filter { input: ordered(input), predicate: stable(predicate) }),
        P::Cache { input, id } => P::Cache { input: ordered(input), id },
        P::Select { expr, input, options } => P::Select { expr: all_stable(expr), input: ordered(input), options },
        P::HStack { input, exprs, options } => P::HStack { input: ordered(input), exprs: all_stable(exprs), options },
        P::GroupBy { input, keys, predicates, aggs, options, apply, .. } => P::GroupBy {
            input: ordered(input),
            keys: all_stable(keys),
            predicates: all_stable(predicates),
            aggs: all_stable(aggs),
            maintain_order: true,
            options,
            apply,
        },
        P::Join { input_left, input_right, left_on, right_on, predicates, options } => {
            let mut options = Arc::unwrap_or_clone(options);
            options.args.maintain_order = MaintainOrderJoin::LeftRight;
            let is_cross = left_on.is_empty();
            let join = P::Join {
                input_left: ordered(input_left),
                input_right: ordered(input_right),
                left_on,
                right_on,
                predicates,
                options: Arc::new(options),
            };
            // A condition that moves into a join without keys makes one whose order depends on threads.
            if is_cross { barrier(join) } else { one_chunk(join) }
        }
        P::Distinct { input, mut options } => {
            options.maintain_order = true;
            if matches!(options.keep_strategy, UniqueKeepStrategy::Any) {
                options.keep_strategy = UniqueKeepStrategy::First;
            }
            P::Distinct { input: ordered(input), options }
        }
        P::Sort { input, by_column, slice, mut sort_options } => {
            sort_options.maintain_order = true;
            P::Sort { input: ordered(input), by_column: all_stable(by_column), slice, sort_options }
        }
        P::Slice { input, offset, len } => P::Slice { input: ordered(input), offset, len },
        P::MapFunction { input, function } => P::MapFunction { input: ordered(input), function },
        P::MatchToSchema { input, match_schema, per_column, extra_columns } => {
            P::MatchToSchema { input: ordered(input), match_schema, per_column, extra_columns }
        }
        P::PipeWithSchema { input, callback } => {
            P::PipeWithSchema { input: input.iter().cloned().map(in_order).collect(), callback }
        }
        P::Gather { input, idxs, null_on_oob } => P::Gather { input: ordered(input), idxs: ordered(idxs), null_on_oob },
        P::Union { inputs, mut args } => {
            args.maintain_order = true;
            one_chunk(P::Union { inputs: inputs.into_iter().map(in_order).collect(), args })
        }
        P::HConcat { inputs, options } => P::HConcat { inputs: inputs.into_iter().map(in_order).collect(), options },
        P::ExtContext { input, contexts } => {
            P::ExtContext { input: ordered(input), contexts: contexts.into_iter().map(in_order).collect() }
        }
        // Sources have an order, and a SELECT has no sinks.
        other => other,
    }
}

fn owned(plan: Arc<DslPlan>) -> DslPlan {
    Arc::unwrap_or_clone(plan)
}

fn ordered(plan: Arc<DslPlan>) -> Arc<DslPlan> {
    Arc::new(in_order(owned(plan)))
}

/// Joins the chunks of a step that makes one for each thread: a sum of floats depends on them.
fn one_chunk(plan: DslPlan) -> DslPlan {
    DslPlan::MapFunction { input: Arc::new(plan), function: DslFunction::FunctionIR(FunctionIR::Rechunk) }
}

/// Keeps conditions from moving into a step.
fn barrier(plan: DslPlan) -> DslPlan {
    let same = |mut rows: DataFrame| {
        rows.rechunk_mut();
        Ok(rows)
    };
    let function = FunctionIR::Opaque {
        function: Arc::new(same),
        schema: None,
        predicate_pd: false,
        projection_pd: true,
        streamable: false,
        fmt_str: "in order".into(),
    };
    DslPlan::MapFunction { input: Arc::new(plan), function: DslFunction::FunctionIR(function) }
}

fn all_stable(exprs: Vec<Expr>) -> Vec<Expr> {
    exprs.into_iter().map(stable).collect()
}

/// Returns an expression whose sorts keep the order of equal values.
fn stable(expr: Expr) -> Expr {
    expr.map_expr(|expr| match expr {
        Expr::Sort { expr, mut options } => {
            options.maintain_order = true;
            Expr::Sort { expr, options }
        }
        Expr::SortBy { expr, by, mut sort_options } => {
            sort_options.maintain_order = true;
            Expr::SortBy { expr, by, sort_options }
        }
        Expr::Over { function, partition_by, order_by, mapping } => {
            let order_by = order_by.map(|(by, mut options)| {
                options.maintain_order = true;
                (by, options)
            });
            Expr::Over { function, partition_by, order_by, mapping }
        }
        other => other,
    })
}
