//! Contains the verifiers, which decide whether a final answer is correct.
//!
//! A problem names its verifier in `verifier` as JSON (`{"kind": "numeric"}`); `{}` or an empty text means `numeric`.

pub mod calls;
pub mod check;
pub mod countdown;
pub mod extract;
pub mod extraction;
pub mod literals;
pub mod numeric;
pub mod registry;
pub mod text;
pub mod verifier;

pub use check::check;
pub use extract::final_answer;
pub use extraction::{AnswerForm, Extraction};
pub use registry::{family, kind, of_problem, unknown, verify};
pub use verifier::Verifier;
