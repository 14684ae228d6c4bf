//! Lists the GPUs of this machine by NVIDIA's management library. The driver contains the library, which is loaded at
//! run time, so that the same program runs on machines without it.

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::ffi::OsStr;
use trainyard_spec::site::SiteGpu;

/// Names of the library: driver packages install the first, development packages also the second.
const LIBRARIES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];
/// Environment variable that restricts the GPUs of this program.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// A GPU as the library describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInfo {
    /// Index in bus order, from 0; with `CUDA_DEVICE_ORDER=PCI_BUS_ID` CUDA counts the same way.
    pub index: u32,
    /// Unique id, the same on every machine and after every boot.
    pub uuid: String,
    /// Model name; empty if the library does not report it.
    pub name: String,
    /// Memory in bytes; 0 if unknown.
    pub memory: u64,
}

/// Returns the GPUs that this program may use. Errors: a text for users, if the library is missing or does not work.
pub fn list_gpus() -> Result<Vec<GpuInfo>, String> {
    let visible = std::env::var(VISIBLE).ok();
    Ok(may_use(read_first(&LIBRARIES.map(OsStr::new))?, visible.as_deref()))
}

/// Returns the GPUs in the form of a pool; empty if they cannot be listed.
pub fn gpus() -> Vec<SiteGpu> {
    let of = |gpu: &GpuInfo| SiteGpu { index: gpu.index, memory: gpu.memory };
    list_gpus().unwrap_or_default().iter().map(of).collect()
}

/// Lists the GPUs by the first library that can be loaded.
fn read_first(libraries: &[&OsStr]) -> Result<Vec<GpuInfo>, String> {
    for library in libraries {
        match Nvml::builder().lib_path(library).init() {
            Ok(nvml) => return read(&nvml).map_err(|e| format!("{}: {e}", library.display())),
            Err(NvmlError::LibloadingError(_)) => {}
            Err(error) => return Err(format!("{} does not work: {error}", library.display())),
        }
    }
    Err("there is no driver library (libnvidia-ml.so.1)".into())
}

fn read(nvml: &Nvml) -> Result<Vec<GpuInfo>, NvmlError> {
    (0..nvml.device_count()?).map(|index| gpu_info(index, &nvml.device_by_index(index)?)).collect()
}

/// Reads one GPU. Older drivers do not report all values; only index and UUID are required.
fn gpu_info(index: u32, device: &Device<'_>) -> Result<GpuInfo, NvmlError> {
    Ok(GpuInfo {
        index,
        uuid: device.uuid()?,
        name: device.name().unwrap_or_default(),
        memory: device.memory_info().map_or(0, |memory| memory.total),
    })
}

/// Selects the GPUs that the variable lists, by index or by a prefix of their UUID. As in CUDA, the list ends at the
/// first invalid entry.
fn may_use(all: Vec<GpuInfo>, visible: Option<&str>) -> Vec<GpuInfo> {
    let Some(visible) = visible else { return all };
    let named = |entry: &str| match entry.parse::<u32>() {
        Ok(index) => all.iter().find(|gpu| gpu.index == index),
        Err(_) => all.iter().find(|gpu| entry.starts_with("GPU-") && gpu.uuid.starts_with(entry)),
    };
    let mut listed: Vec<GpuInfo> = visible.split(',').map(str::trim).map_while(named).cloned().collect();
    listed.sort_by_key(|gpu| gpu.index);
    listed.dedup();
    listed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// Source of a library with the functions that this program calls and two GPUs, of which the second reports no
    /// memory.
    const LIBRARY: &str = r#"
        #include <string.h>
        struct memory { unsigned version; unsigned long long total, reserved, free, used; };
        static int gpus[2];
        int nvmlInit_v2(void) { return 0; }
        int nvmlShutdown(void) { return 0; }
        int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
        int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &gpus[index]; return 0; }
        static int is_second(void *device) { return device == &gpus[1]; }
        int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
            strncpy(text, is_second(device) ? "GPU-bbbb-2" : "GPU-aaaa-1", size); return 0;
        }
        int nvmlDeviceGetName(void *device, char *text, unsigned size) {
            strncpy(text, "NVIDIA Test 80GB", size); return 0;
        }
        int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *info) {
            if (is_second(device)) return 3;
            info->total = 85899345920ull; return 0;
        }
    "#;
    const BROKEN: &str = "int nvmlInit_v2(void) { return 9; } int nvmlShutdown(void) { return 0; }";

    /// Compiles a library; returns `None` if there is no C compiler.
    fn library(folder: &Path, source: &str) -> Option<PathBuf> {
        let (text, library) = (folder.join("nvml.c"), folder.join("libnvidia-ml.so.1"));
        std::fs::write(&text, source).unwrap();
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&text).status().ok()?;
        assert!(compiled.success());
        Some(library)
    }
    fn gpu(index: u32, uuid: &str, memory: u64) -> GpuInfo {
        GpuInfo { index, uuid: uuid.into(), name: "NVIDIA Test 80GB".into(), memory }
    }
    fn both() -> Vec<GpuInfo> {
        vec![gpu(0, "GPU-aaaa-1", 80 << 30), gpu(1, "GPU-bbbb-2", 0)]
    }

    #[test]
    fn gpus_are_read_from_the_library() {
        let folder = tempfile::tempdir().unwrap();
        let Some(library) = library(folder.path(), LIBRARY) else { return eprintln!("skipped: no `cc`") };
        assert_eq!(read_first(&[OsStr::new("libnowhere.so.9"), library.as_os_str()]), Ok(both()));
    }

    #[test]
    fn missing_and_broken_drivers_are_reported() {
        let error = read_first(&[OsStr::new("libnowhere.so.9")]).unwrap_err();
        assert!(error.contains("no driver library"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let Some(library) = library(folder.path(), BROKEN) else { return eprintln!("skipped: no `cc`") };
        let error = read_first(&[library.as_os_str()]).unwrap_err();
        assert!(error.contains("does not work") && error.contains("driver"), "{error}");
    }

    #[test]
    fn visible_devices_restrict_the_gpus() {
        let indices = |visible| may_use(both(), visible).iter().map(|gpu| gpu.index).collect::<Vec<_>>();
        assert_eq!(indices(None), [0, 1]);
        assert_eq!(indices(Some("1, 0")), [0, 1]);
        assert_eq!(indices(Some("GPU-bbbb")), [1]);
        assert_eq!(indices(Some("")), [0u32; 0]);
        assert_eq!(indices(Some("1,7,0")), [1], "the list ends at the first invalid entry");
        assert_eq!(indices(Some("NoDevFiles")), [0u32; 0]);
    }
}
