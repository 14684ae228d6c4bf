//! The decoder's body as nodes of candle's graph.
//!
//! A custom operation of candle takes at most three tensors, but a decoder has hundreds of parameters. So a chain of
//! `Attach` nodes, one number wide, leads from the parameters to the `Body` node. The backward of `Body` computes all
//! gradients and leaves them on a shared shelf; the `Attach` nodes, which come later in the backward, hand them to
//! candle under the right variables. Nothing is copied.

use super::state::Workspace;
use super::view::{body_names, with_view};
use super::{backward, forward};
use crate::batch::TokenBatch;
use crate::config::ModelConfig;
use crate::ops::Scalar;
use crate::tensor::candle;
use candle_core::{CpuStorage, CustomOp1, CustomOp3, Device, Layout, Shape, Storage, Tensor, Var};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_core::Result;

type Shelf = Arc<Mutex<BTreeMap<String, Tensor>>>;
type Buffers<T> = Arc<Mutex<Vec<Workspace<T>>>>;

/// Hidden states `[batch.rows(), hidden]`.
pub(super) fn hidden<T: Scalar>(
    config: &ModelConfig,
    parameters: &BTreeMap<String, Var>,
    batch: &TokenBatch,
    train: bool,
    buffers: Buffers<T>,
) -> Result<Tensor> {
    let names = body_names(config);
    let tensors: BTreeMap<String, Tensor> =
        names.iter().map(|n| (n.clone(), parameters[n].as_tensor().clone())).collect();
    let shelf = Shelf::default();
    let mut token = Tensor::zeros(1, T::DTYPE, &Device::Cpu).map_err(candle)?;
    if train {
        for pair in names.chunks(2) {
            let (first, last) = (pair[0].clone(), pair[pair.len() - 1].clone());
            let (a, b) = (&tensors[&first], &tensors[&last]);
            token = token.apply_op3(a, b, Attach { first, last, shelf: shelf.clone() }).map_err(candle)?;
        }
    }
    let pass = Pass { workspace: Some(take(&buffers)), buffers };
    let body = Body { config: config.clone(), tensors, batch: batch.clone(), train, shelf, pass: Mutex::new(pass) };
    if train { token.apply_op1(body) } else { token.apply_op1_no_bwd(&body) }.map_err(candle)
}

fn take<T: Scalar>(buffers: &Buffers<T>) -> Workspace<T> {
    buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
}

/// A workspace that goes back to its decoder when the graph is dropped.
struct Pass<T> {
    workspace: Option<Workspace<T>>,
    buffers: Buffers<T>,
}

impl<T> Drop for Pass<T> {
    fn drop(&mut self) {
        if let Some(workspace) = self.workspace.take() {
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(workspace);
        }
    }
}

/// All layers and the last norm.
struct Body<T> {
    config: ModelConfig,
    tensors: BTreeMap<String, Tensor>,
    batch: TokenBatch,
    train: bool,
    shelf: Shelf,
    pass: Mutex<Pass<T>>,
}

impl<T: Scalar> Body<T> {
    fn with_workspace<R>(
        &self,
        work: impl FnOnce(&mut Workspace<T>) -> candle_core::Result<R>,
    ) -> candle_core::Result<R> {
        let mut pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
        match pass.workspace.as_mut() {
            Some(workspace) => work(workspace),
            None => candle_core::bail!("the pass has lost its workspace"),
        }
    }
}

impl<T: Scalar> CustomOp1 for Body<T> {
    fn name(&self) -> &'static str {
        "decoder body"
    }

    fn cpu_fwd(&self, _token: &CpuStorage, _layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let (rows, width) = (self.batch.rows(), self.config.hidden_size);
        let mut out = vec![T::ZERO; rows * width];
        self.with_workspace(|workspace| {
            with_view(&self.config, &self.tensors, |view| {
                forward::run(&self.config, view, &self.batch, workspace, self.train, &mut out)
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
            with_view(&self.config, &self.tensors, |view| {
                backward::run(&self.config, view, &self.batch, workspace, d_out)
            })
        })?;
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, values) in gradients {
            let shape = self.tensors[&name].shape();
            shelf.insert(name, Tensor::from_vec(values, shape, &Device::Cpu)?);
        }
        Ok(Some(token.zeros_like()?))
    }
}

/// Stands for the dependence of the body on one or two parameters.
struct Attach {
    first: String,
    last: String,
    shelf: Shelf,
}

impl Attach {
    fn take(&self, name: &str) -> Option<Tensor> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
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
        // An odd last parameter fills both places and is only taken once.
        Ok((Some(token.zeros_like()?), self.take(&self.first), self.take(&self.last)))
    }
}
