//! Builds an in-memory index of passages, ranked by BM25 (Robertson and Zaragoza, 2009; k1 = 1.2 and b = 0.75,
//! tantivy's values).
//!
//! Results depend only on corpus and query: a single-threaded writer makes one segment, so document numbers are passage
//! numbers, and ties are broken by document number. Words are runs of letters and digits in lower case, without
//! stemming or stop words; a repeated word of a query counts once. There is no query syntax.

use crate::tools::search::Passage;
use std::collections::BTreeSet;
use tantivy::collector::TopDocs;
use tantivy::directory::RamDirectory;
use tantivy::query::BooleanQuery;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{Token, TokenStream as _};
use tantivy::{
    Index, IndexReader, IndexSettings, ReloadPolicy, Searcher, SingleSegmentIndexWriter, TantivyDocument, TantivyError,
    Term,
};
use trainyard_core::{Error, Result};

/// Initial memory budget of the writer in bytes.
const ARENA: usize = 16 << 20;

/// Passages and their index, shared by any number of sessions and threads.
pub struct SearchIndex {
    /// Indexed by document number.
    passages: Vec<Passage>,
    searcher: Searcher,
    field: Field,
}

impl SearchIndex {
    /// Builds the index of these passages.
    pub fn build(passages: Vec<Passage>) -> Result<Self> {
        let (searcher, field) = index(&passages).map_err(|e| bug(&e))?;
        Ok(Self { passages, searcher, field })
    }
    /// Returns the number of passages.
    pub fn len(&self) -> usize {
        self.passages.len()
    }
    /// Returns whether there are no passages.
    pub fn is_empty(&self) -> bool {
        self.passages.is_empty()
    }
    /// Returns the best passages for a query, at most `limit`, by falling score and then in corpus order. Returns
    /// `None` if the query contains no word.
    pub fn search(&self, query: &str, limit: usize) -> Result<Option<Vec<&Passage>>> {
        let terms = self.terms(query).map_err(|e| bug(&e))?;
        if terms.is_empty() {
            return Ok(None);
        }
        let query = BooleanQuery::new_multiterms_query(terms);
        let mut found =
            self.searcher.search(&query, &TopDocs::with_limit(limit.max(1)).order_by_score()).map_err(|e| bug(&e))?;
        found.sort_by(|(a, at), (b, other)| b.total_cmp(a).then_with(|| at.cmp(other)));
        Ok(Some(found.into_iter().filter_map(|(_, at)| self.passages.get(at.doc_id as usize)).collect()))
    }
    /// Returns the words of a query, sorted so that their order does not change the sum of scores.
    fn terms(&self, query: &str) -> tantivy::Result<Vec<Term>> {
        let mut analyzer = self.searcher.index().tokenizer_for_field(self.field)?;
        let mut words = BTreeSet::new();
        analyzer.token_stream(query).process(&mut |token: &Token| {
            words.insert(token.text.clone());
        });
        Ok(words.iter().map(|word| Term::from_field_text(self.field, word)).collect())
    }
}

fn index(passages: &[Passage]) -> tantivy::Result<(Searcher, Field)> {
    let mut schema = Schema::builder();
    let words = TextFieldIndexing::default().set_tokenizer("default").set_index_option(IndexRecordOption::WithFreqs);
    let field = schema.add_text_field("text", TextOptions::default().set_indexing_options(words));
    // tantivy stores no documents, so no compression thread is needed.
    let settings = IndexSettings { docstore_compress_dedicated_thread: false, ..IndexSettings::default() };
    let builder = Index::builder().schema(schema.build()).settings(settings);
    let mut writer: SingleSegmentIndexWriter = builder.single_segment_index_writer(RamDirectory::create(), ARENA)?;
    for passage in passages {
        let mut document = TantivyDocument::new();
        document.add_text(field, format!("{} {}", passage.title, passage.text));
        writer.add_document(document)?;
    }
    let reader: IndexReader = writer.finalize()?.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
    Ok((reader.searcher(), field))
}

/// Converts an error of the in-memory index, which can only be a bug.
fn bug(error: &TantivyError) -> Error {
    Error::bug(format!("search index: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(texts: &[&str]) -> SearchIndex {
        let passage =
            |(i, text): (usize, &&str)| Passage { id: i.to_string(), title: String::new(), text: (*text).to_string() };
        SearchIndex::build(texts.iter().enumerate().map(passage).collect()).unwrap()
    }

    fn ids(index: &SearchIndex, query: &str, limit: usize) -> Vec<usize> {
        index.search(query, limit).unwrap().unwrap().iter().map(|p| p.id.parse().unwrap()).collect()
    }

    #[test]
    fn ranking_prefers_rare_words_frequent_words_and_short_passages() {
        let texts = ["red green", "red blue", "red red blue", "red yellow with many other words behind it", "white"];
        let index = index(&texts);
        assert_eq!(index.len(), 5);
        // Rare words rank first, then shorter passages, then the word's frequency.
        assert_eq!(ids(&index, "red green", 1), [0]);
        assert_eq!(ids(&index, "yellow", 5), [3]);
        assert_eq!(ids(&index, "red", 5).last(), Some(&3));
        assert_eq!(ids(&index, "red", 5).len(), 4);
        assert_eq!(ids(&index, "blue", 2), [1, 2]);
    }

    #[test]
    fn ties_keep_corpus_order_at_every_limit() {
        let texts: Vec<String> =
            (0..300).map(|i| format!("same words {}", if i % 3 == 0 { "here" } else { "there" })).collect();
        let index = index(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        for limit in [1, 2, 7, 50] {
            assert_eq!(ids(&index, "here", limit), (0..limit).map(|i| 3 * i).collect::<Vec<_>>());
            assert_eq!(ids(&index, "same", limit), (0..limit).collect::<Vec<_>>());
        }
    }

    #[test]
    fn case_order_and_repetition_of_words_do_not_matter() {
        let index = index(&["alpha beta", "beta gamma", "gamma alpha delta"]);
        let expected = ids(&index, "alpha delta", 3);
        for query in ["Delta ALPHA", "alpha, alpha; delta", "(alpha AND delta)^2 -alpha"] {
            let found = ids(&index, query, 3);
            assert_eq!(found[0], expected[0], "{query}");
        }
        assert_eq!(ids(&index, "delta alpha delta", 3), expected);
        assert_eq!(index.search(" -+\"", 3).unwrap(), None);
        assert!(ids(&index, "omega", 3).is_empty());
    }

    #[test]
    fn two_indexes_of_one_corpus_agree() {
        let texts: Vec<String> = (0..200u32).map(|i| format!("w{} w{} w{} shared", i % 7, i % 11, i % 13)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (one, other) = (index(&texts), index(&texts));
        for i in 0..20 {
            let query = format!("w{} shared w{} w{}", i % 7, i % 11, i % 13);
            assert_eq!(ids(&one, &query, 10), ids(&other, &query, 10));
        }
    }
}
