//! Typed views of a store: runs, stages, artifacts, rows and their lineage.
//!
//! Each view is a function from the store to a plain struct, paged where it may be long. The terminal, the HTTP API and
//! browser pages render views and read nothing else. No view reads a whole table or a whole history: manifests come
//! first, then the columns and row groups that the view needs.
#![warn(missing_docs)]

pub mod artifacts;
pub mod curves;
pub mod find;
pub mod lineage;
pub mod logs;
pub mod row_lineage;
pub mod runs;
pub mod status;
pub mod stream_page;
pub mod table;
