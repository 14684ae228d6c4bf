//! Implements language models: decoders of the Llama kind and related ones ([`families`]), their training, checkpoints,
//! tokenizers, chat templates and generation, on several backends.
//!
//! The reference runs on the CPU. Its training consists of a few custom operations with a hand-written backward
//! ([`ops`], [`decoder`]), because composed tensor operations spend most of their time on memory traffic and several of
//! candle's fused operations have no backward. The kernels of its generation compute a sequence with the same bits in
//! every batch.

pub mod adapter;
pub mod backend;
pub mod batch;
pub mod checkpoint;
pub mod config;
pub mod constrain;
pub mod decoder;
pub mod examples;
pub mod families;
pub mod folder;
pub mod fused;
pub mod generate;
pub mod gguf;
pub mod memory;
#[macro_use]
pub mod ops;
pub mod optimizer;
mod parameters;
pub mod registry;
pub mod shape;
pub mod stages;
pub mod template;
mod tensor;
pub mod threads;
pub mod tokenizer;
pub mod untrusted;
mod weights;

pub use batch::SequenceBatch;
pub use config::ModelConfig;
pub use decoder::{Decoder, Weights};
pub use folder::{GenerationConfig, ModelFolder};
pub use generate::Generator;
pub use optimizer::{AdamW, AdamWConfig, Gradients, LearningRateSchedule};
