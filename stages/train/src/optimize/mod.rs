//! Contains the parts of all training loops: learning-rate schedule, batches by length, and a model with its optimizer.

pub mod batches;
pub mod rates;
pub mod schedule;
pub mod trainer;

pub use batches::{Batches, epoch_batches, micro_batches, sorted_batches};
pub use rates::{TrainableKind, TrainingMethod};
pub use schedule::OptimizerOptions;
pub use trainer::{ModelTrainer, TrainableParams};
