//! Compiles whole files through [`trainyard_spec::compile`]: samples with their expected results, properties, sizes.

#[path = "suite/catalogue.rs"]
mod catalogue;
#[path = "suite/compiles.rs"]
mod compiles;
#[path = "suite/merging.rs"]
mod merging;
#[path = "suite/options.rs"]
mod options;
#[path = "suite/properties.rs"]
mod properties;
#[path = "suite/samples.rs"]
mod samples;
#[path = "suite/schedules.rs"]
mod schedules;
#[path = "suite/sites.rs"]
mod sites;
