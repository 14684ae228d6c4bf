//! Language models on candle: the decoder family Llama / Qwen2 / Qwen3, its training, its checkpoints, tokenizers, chat
//! templates and generation.
//!
//! Why so: training runs through a few custom operations with a hand-written backward ([`ops`], [`decoder`]) because composed
//! tensor operations spend most of their time on memory traffic, and several of candle's fused ones have no backward at all.
//! Generation has its own kernels, whose result for a sequence does not depend on what shares its batch. Refuses: ambient chance
//! (initialization draws from an injected `Chance`), silent gradients (a parameter without one is an error), devices other than
//! the CPU.

pub mod backend;
pub mod batch;
pub mod checkpoint;
pub mod config;
pub mod decoder;
pub mod folder;
pub mod generate;
pub mod ops;
pub mod optimizer;
pub mod registry;
pub mod stages;
pub mod template;
mod tensor;
pub mod threads;
pub mod tokenizer;

pub use batch::TokenBatch;
pub use config::ModelConfig;
pub use decoder::{Decoder, Weights};
pub use folder::{GenerationConfig, ModelFolder};
pub use generate::Generator;
pub use optimizer::{AdamW, AdamWConfig, Gradients, Schedule};
