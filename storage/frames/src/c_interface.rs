//! Moves arrays between the two Arrow implementations by Arrow's C data interface, without a copy of their buffers.
//!
//! The only unsafe code of this crate. Both implementations define the structs of the interface in the layout that the
//! interface fixes: `#[repr(C)]`, the same fields in the same order.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::ArrowError;
use polars::error::PolarsError;
use polars_arrow::datatypes::Field;
use polars_arrow::ffi::{ArrowArray, ArrowSchema, export_array_to_c, export_field_to_c};
use polars_arrow::ffi::{import_array_from_c, import_field_from_c};

type PolarsArray = Box<dyn polars_arrow::array::Array>;

/// Moves an array to polars. The buffers are shared. Errors: a type that polars does not have.
pub(crate) fn to_polars(array: &dyn Array) -> Result<PolarsArray, PolarsError> {
    let exported = to_ffi(&array.to_data()).map_err(|e| PolarsError::ComputeError(e.to_string().into()))?;
    let (array, schema): (FFI_ArrowArray, FFI_ArrowSchema) = exported;
    #[expect(unsafe_code, reason = "both structs are `ArrowSchema` of the C data interface")]
    // SAFETY: the layouts are equal (module text). The reference lives as long as `schema`, which frees it once; the
    // imported field is a copy.
    let field = unsafe { import_field_from_c(&*(&raw const schema).cast::<ArrowSchema>()) }?;
    #[expect(unsafe_code, reason = "both structs are `ArrowArray` of the C data interface")]
    // SAFETY: the layouts are equal (module text), and the compiler checks their size. The value is moved, so its
    // release callback runs once. `to_ffi` wrote array and schema from one array, so the type fits the buffers.
    unsafe {
        let array = std::mem::transmute::<FFI_ArrowArray, ArrowArray>(array);
        import_array_from_c(array, field.dtype)
    }
}

/// Moves an array from polars. The buffers are shared. Errors: a type that arrow does not have.
pub(crate) fn to_arrow(array: PolarsArray) -> Result<ArrayRef, ArrowError> {
    let schema = export_field_to_c(&Field::new("".into(), array.dtype().clone(), true));
    let array = export_array_to_c(array);
    #[expect(unsafe_code, reason = "both structs are those of the C data interface")]
    // SAFETY: the layouts are equal (module text), and the compiler checks the sizes. Both values are moved, so their
    // release callbacks run once. Both were written from one array, so the type fits the buffers.
    let data = unsafe {
        let schema = std::mem::transmute::<ArrowSchema, FFI_ArrowSchema>(schema);
        let array = std::mem::transmute::<ArrowArray, FFI_ArrowArray>(array);
        from_ffi(array, &schema)
    }?;
    Ok(make_array(data))
}
