//! Connects the decoder's body to candle's graph.
//!
//! A custom operation of candle takes at most three tensors, but a decoder has hundreds of parameters. A chain of
//! `Attach` nodes, one number wide, therefore leads from the parameters to the `DecoderBodyOp` node. The backward of
//! `DecoderBodyOp` computes all gradients and stores them in a shared map. The `Attach` nodes, which come later in the
//! backward, pass the gradients to candle under the variables of their parameters. No gradient is copied.

use super::linear::Dropout;
use super::state::{ActivationPolicy, PassLimits, Workspace};
use super::view::{LoraScale, with_view};
use super::{backward, forward};
use crate::batch::SequenceBatch;
use crate::config::ModelConfig;
use crate::ops::KernelScalar;
use crate::tensor::candle;
use candle_core::{CpuStorage, CustomOp1, CustomOp3, Device, Layout, Shape, Storage, Tensor, Var};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_core::Result;

type GradientMap = Arc<Mutex<BTreeMap<String, Tensor>>>;
type WorkspacePool<T> = Arc<Mutex<Vec<Workspace<T>>>>;

/// Inputs of a pass other than the batch.
pub(super) struct Model<'a> {
    pub config: &'a ModelConfig,
    /// Trained parameters, including heads.
    pub parameters: &'a BTreeMap<String, Var>,
    /// Frozen parameters.
    pub frozen: &'a BTreeMap<String, Tensor>,
    pub lora: Option<LoraScale>,
    pub limits: PassLimits,
    /// Dropout of an adapter that is trained.
    pub dropout: Option<Dropout>,
}

/// Computes hidden states `[batch.rows(), hidden]`; with `train` they depend on every parameter below the head.
pub(super) fn hidden<T: KernelScalar>(
    model: Model<'_>,
    batch: &SequenceBatch,
    train: bool,
    buffers: WorkspacePool<T>,
) -> Result<Tensor> {
    let below = |name: &String| name.starts_with("model.");
    let learned: BTreeSet<String> = model.parameters.keys().filter(|name| below(name)).cloned().collect();
    let train = train && !learned.is_empty();
    let mut tensors: BTreeMap<String, Tensor> =
        model.frozen.iter().filter(|(name, _)| below(name)).map(|(n, t)| (n.clone(), t.clone())).collect();
    tensors.extend(learned.iter().map(|name| (name.clone(), model.parameters[name].as_tensor().clone())));
    let gradient_map = GradientMap::default();
    let mut token = Tensor::zeros(1, T::DTYPE, &Device::Cpu).map_err(candle)?;
    if train {
        for pair in learned.iter().collect::<Vec<_>>().chunks(2) {
            let (first, last) = (pair[0].clone(), pair[pair.len() - 1].clone());
            let (a, b) = (&tensors[&first], &tensors[&last]);
            token =
                token.apply_op3(a, b, Attach { first, last, gradient_map: gradient_map.clone() }).map_err(candle)?;
        }
    }
    let pass = Mutex::new(WorkspaceGuard { workspace: Some(take(&buffers)), buffers });
    let (config, low, limits, dropout) = (model.config.clone(), model.lora, model.limits, model.dropout);
    let number = T::DTYPE.size_in_bytes();
    let keep = if train {
        ActivationPolicy::for_training(&config, batch.rows(), number, limits)
    } else {
        ActivationPolicy::Nothing
    };
    let body = DecoderBodyOp {
        config,
        lora: low,
        dropout,
        tensors,
        learned,
        batch: batch.clone(),
        keep,
        limits,
        gradient_map,
        pass,
    };
    if train { token.apply_op1(body) } else { token.apply_op1_no_bwd(&body) }.map_err(candle)
}

fn take<T: KernelScalar>(buffers: &WorkspacePool<T>) -> Workspace<T> {
    buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
}

/// A workspace that returns to its decoder when the graph is dropped.
struct WorkspaceGuard<T> {
    workspace: Option<Workspace<T>>,
    buffers: WorkspacePool<T>,
}

impl<T> Drop for WorkspaceGuard<T> {
    fn drop(&mut self) {
        if let Some(workspace) = self.workspace.take() {
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(workspace);
        }
    }
}

/// All layers and the last norm.
struct DecoderBodyOp<T> {
    config: ModelConfig,
    lora: Option<LoraScale>,
    dropout: Option<Dropout>,
    tensors: BTreeMap<String, Tensor>,
    learned: BTreeSet<String>,
    batch: SequenceBatch,
    keep: ActivationPolicy,
    limits: PassLimits,
    gradient_map: GradientMap,
    pass: Mutex<WorkspaceGuard<T>>,
}

impl<T: KernelScalar> DecoderBodyOp<T> {
    fn with_workspace<R>(
        &self,
        work: impl FnOnce(&mut Workspace<T>) -> candle_core::Result<R>,
    ) -> candle_core::Result<R> {
        let mut pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
        match pass.workspace.as_mut() {
            Some(workspace) => work(workspace),
            None => candle_core::bail!("the pass has no workspace"),
        }
    }
}

impl<T: KernelScalar> CustomOp1 for DecoderBodyOp<T> {
    fn name(&self) -> &'static str {
        "decoder body"
    }

    fn cpu_fwd(&self, _token: &CpuStorage, _layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let (rows, width) = (self.batch.rows(), self.config.hidden_size);
        let mut out = vec![T::ZERO; rows * width];
        self.with_workspace(|workspace| {
            with_view(&self.config, self.lora, &self.tensors, |view| {
                let how = (self.keep, self.limits, self.dropout.as_ref());
                forward::run(&self.config, view, &self.batch, workspace, how, &mut out)
            })
        })?;
        Ok((T::to_cpu_storage_owned(out), Shape::from((rows, width))))
    }

    fn bwd(&self, token: &Tensor, _res: &Tensor, grad: &Tensor) -> candle_core::Result<Option<Tensor>> {
        let grad = grad.contiguous()?;
        let (storage, layout) = grad.storage_and_layout();
        let (Storage::Cpu(storage), Some((start, end))) = (&*storage, layout.contiguous_offsets()) else {
            candle_core::bail!("the decoder runs on the CPU")
        };
        let d_out = &T::cpu_storage_as_slice(storage)?[start..end];
        let gradients = self.with_workspace(|workspace| {
            with_view(&self.config, self.lora, &self.tensors, |view| {
                let what = (&self.learned, self.dropout.as_ref());
                backward::run(&self.config, view, &self.batch, workspace, what, d_out)
            })
        })?;
        let mut gradient_map = self.gradient_map.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, values) in gradients {
            let shape = self.tensors[&name].shape();
            gradient_map.insert(name, Tensor::from_vec(values, shape, &Device::Cpu)?);
        }
        Ok(Some(token.zeros_like()?))
    }
}

/// A node that makes the body depend on one or two parameters.
struct Attach {
    first: String,
    last: String,
    gradient_map: GradientMap,
}

impl Attach {
    fn take(&self, name: &str) -> Option<Tensor> {
        self.gradient_map.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
    }
}

impl CustomOp3 for Attach {
    fn name(&self) -> &'static str {
        "attach parameters"
    }
    fn cpu_fwd(
        &self,
        token: &CpuStorage,
        layout: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        Ok((token.clone(), layout.shape().clone()))
    }
    fn bwd(
        &self,
        token: &Tensor,
        _: &Tensor,
        _: &Tensor,
        _: &Tensor,
        _: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        // An odd last parameter is both `first` and `last`, and its gradient is used once.
        Ok((Some(token.zeros_like()?), self.take(&self.first), self.take(&self.last)))
    }
}
