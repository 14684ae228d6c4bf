//! Converts [`Problem`] rows and messages to and from Arrow columns.

use crate::decode::BatchColumns;
use crate::encode::{nested, numbers, optional_string_lists, optional_strings, strings, structs};
use crate::extra::ExtraColumns;
use crate::problem::{Message, Problem};
use crate::rows::TableRow;
use crate::schema::{list, optional, required, structure};
use arrow_array::ArrayRef;
use arrow_array::types::UInt32Type;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::HashMap;
use std::mem::take;
use std::sync::Arc;
use trainyard_core::Result;

fn schema(extra: ExtraColumns) -> SchemaRef {
    let mut columns = vec![
        required("id", DataType::Utf8),
        required("messages", messages_type(extra)),
        required("answer", DataType::Utf8),
        required("verifier", DataType::Utf8),
        required("environment", DataType::Utf8),
        required("level", DataType::UInt32),
        required("source", DataType::Utf8),
        required("split", DataType::Utf8),
        required("canonical", DataType::Utf8),
        optional("reference", DataType::Utf8),
    ];
    columns.extend(extra.meta.then(|| optional("meta", DataType::Utf8)));
    columns.extend(extra.parents.then(|| optional("parents", list(DataType::Utf8))));
    // Only one key: the order of a hash map must not reach the file.
    Arc::new(Schema::new_with_metadata(columns, HashMap::from([("problem_format".to_string(), "1".to_string())])))
}

impl TableRow for Problem {
    fn extra(rows: &[&Self]) -> ExtraColumns {
        let messages = ExtraColumns::of(rows.iter().flat_map(|r| &r.messages));
        let (meta, parents) = (rows.iter().any(|r| r.meta.is_some()), rows.iter().any(|r| !r.parents.is_empty()));
        ExtraColumns { meta, parents, ..messages }
    }
    fn schema(extra: ExtraColumns) -> SchemaRef {
        schema(extra)
    }
    fn encode_column(rows: &[&Self], name: &str, extra: ExtraColumns) -> Option<ArrayRef> {
        Some(match name {
            "id" => strings(rows.iter().map(|r| r.id.as_str())),
            "messages" => encode_messages(rows.iter().map(|r| r.messages.as_slice()), extra),
            "answer" => strings(rows.iter().map(|r| r.answer.as_str())),
            "verifier" => strings(rows.iter().map(|r| r.verifier.as_str())),
            "environment" => strings(rows.iter().map(|r| r.environment.as_str())),
            "level" => numbers::<UInt32Type>(rows.iter().map(|r| r.level)),
            "source" => strings(rows.iter().map(|r| r.source.as_str())),
            "split" => strings(rows.iter().map(|r| r.split.as_str())),
            "canonical" => strings(rows.iter().map(|r| r.canonical.as_str())),
            "reference" => optional_strings(rows.iter().map(|r| r.reference.as_deref())),
            "meta" => optional_strings(rows.iter().map(|r| r.meta.as_deref())),
            "parents" => optional_string_lists(rows.iter().map(|r| r.parents.as_slice())),
            _ => return None,
        })
    }
    fn decode(columns: &BatchColumns<'_>) -> Result<Vec<Self>> {
        let mut id = columns.strings("id")?.into_iter();
        let mut messages = decode_messages(columns)?.into_iter();
        let mut answer = columns.strings("answer")?.into_iter();
        let mut verifier = columns.strings("verifier")?.into_iter();
        let mut environment = columns.strings("environment")?.into_iter();
        let mut level = columns.numbers::<UInt32Type>("level")?.into_iter();
        let mut source = columns.strings("source")?.into_iter();
        let mut split = columns.strings("split")?.into_iter();
        let mut canonical = columns.strings("canonical")?.into_iter();
        let mut reference = columns.optional_strings("reference")?.into_iter();
        let mut meta = columns.optional_strings("meta")?.into_iter();
        let mut parents = columns.optional_string_lists("parents")?.into_iter();
        let mut row = || {
            Some(Self {
                id: id.next()?,
                messages: messages.next()?,
                answer: answer.next()?,
                verifier: verifier.next()?,
                environment: environment.next()?,
                level: level.next()?,
                source: source.next()?,
                split: split.next()?,
                canonical: canonical.next()?,
                reference: reference.next()?,
                meta: meta.next()?,
                parents: parents.next()?,
            })
        };
        Ok((0..columns.rows()).map_while(|_| row()).collect())
    }
}

fn message_fields(extra: ExtraColumns) -> Vec<Field> {
    let mut fields = vec![
        required("role", DataType::Utf8),
        required("content", DataType::Utf8),
        optional("tool_calls", DataType::Utf8),
    ];
    let extras =
        [("name", extra.name), ("reasoning_content", extra.reasoning_content), ("tool_call_id", extra.tool_call_id)];
    fields.extend(extras.iter().filter(|(_, used)| *used).map(|(name, _)| optional(name, DataType::Utf8)));
    fields
}

/// Returns the type `list<struct{role, content, tool_calls?, name?, reasoning_content?, tool_call_id?}>`; the last
/// three where used.
pub(crate) fn messages_type(extra: ExtraColumns) -> DataType {
    list(structure(&message_fields(extra)))
}

pub(crate) fn encode_messages<'a>(rows: impl Iterator<Item = &'a [Message]>, extra: ExtraColumns) -> ArrayRef {
    let rows: Vec<_> = rows.collect();
    let all = || rows.iter().flat_map(|row| row.iter());
    let mut parts = vec![
        strings(all().map(|m| m.role.as_str())),
        strings(all().map(|m| m.content.as_str())),
        optional_strings(all().map(|m| m.tool_calls.as_deref())),
    ];
    if extra.name {
        parts.push(optional_strings(all().map(|m| m.name.as_deref())));
    }
    if extra.reasoning_content {
        parts.push(optional_strings(all().map(|m| m.reasoning_content.as_deref())));
    }
    if extra.tool_call_id {
        parts.push(optional_strings(all().map(|m| m.tool_call_id.as_deref())));
    }
    nested(rows.iter().map(|row| row.len()), structs(&structure(&message_fields(extra)), parts), None)
}

pub(crate) fn decode_messages(columns: &BatchColumns<'_>) -> Result<Vec<Vec<Message>>> {
    let (ranges, parts) = columns.struct_lists("messages", &Schema::new(message_fields(ExtraColumns::ALL)))?;
    let (mut roles, mut contents) = (parts.strings("role")?, parts.strings("content")?);
    let mut calls = parts.optional_strings("tool_calls")?;
    let mut names = parts.optional_strings("name")?;
    let mut reasoning = parts.optional_strings("reasoning_content")?;
    let mut call_ids = parts.optional_strings("tool_call_id")?;
    let mut message = |i: usize| Message {
        role: take(&mut roles[i]),
        content: take(&mut contents[i]),
        tool_calls: calls[i].take(),
        name: names[i].take(),
        reasoning_content: reasoning[i].take(),
        tool_call_id: call_ids[i].take(),
    };
    Ok(ranges.into_iter().map(|range| range.map(&mut message).collect()).collect())
}
