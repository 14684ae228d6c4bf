//! Generates questions about a knowledge base: an entity and a chain of as many relations as the level.
//!
//! `Who is the mayor of the birthplace of the founder of Brixel?` has three hops. All entities on the way differ, so no
//! hop can be skipped, and every relation has one object, so there is one correct answer. The canonical form is the
//! knowledge base, the entity and the relations, regardless of the wording. A question is known if all entities that it
//! passes are.

use super::knowledge_base::{EntityKind, KnowledgeBase, Relation, relations};
use crate::environments::names::capitalized;
use serde_json::json;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Chance, Digest};
use trainyard_tables::{Message, Problem};

/// Highest level; the lowest is 1. A level is a number of hops.
pub const MAX_LEVEL: u32 = 4;
/// Chains drawn before one that passes an entity twice is accepted; only the smallest knowledge bases need many.
const TRIES: usize = 200;

/// One step of a chain. Entities are given by their indexes.
#[derive(Debug, Clone, Copy)]
pub struct Hop {
    /// Entity in question.
    pub subject: usize,
    /// Relation in question.
    pub relation: &'static Relation,
    /// Entity to which the relation leads.
    pub object: usize,
}

/// A question with its chain of facts.
#[derive(Debug, Clone)]
pub struct MultiHopQuestion<'a> {
    knowledge: &'a KnowledgeBase,
    /// The chain, at least one hop.
    pub hops: Vec<Hop>,
    /// The wording.
    form: u64,
}

impl<'a> MultiHopQuestion<'a> {
    /// Returns question number `index` of a level under the seed of `chance`. `level` is clamped to 1..=[`MAX_LEVEL`].
    pub fn at(knowledge: &'a KnowledgeBase, level: u32, index: u64, chance: &Chance) -> Self {
        let level = level.clamp(1, MAX_LEVEL);
        let mut draws = chance.at("multi-hop-question", &[u64::from(level), index]);
        let mut hops = chain(knowledge, level, &mut draws);
        for _ in 0..TRIES {
            if !returns(&hops) {
                break;
            }
            hops = chain(knowledge, level, &mut draws);
        }
        Self { knowledge, hops, form: draws.below(2) }
    }
    /// Returns the name that answers the question.
    pub fn answer(&self) -> &'a str {
        self.hops.last().map_or("", |hop| self.name(hop.object))
    }
    /// Returns the hops that must be looked up, in order: those of unknown entities.
    pub fn unknown(&self) -> impl Iterator<Item = &Hop> {
        self.hops.iter().filter(|hop| !self.knowledge.entities[hop.subject].known)
    }
    /// Returns the query that finds the fact of a hop: `founder of Brixel`.
    pub fn query(&self, hop: &Hop) -> String {
        format!("{} of {}", hop.relation.noun, self.name(hop.subject))
    }
    /// Returns the question as a problem.
    pub fn problem(&self) -> Problem {
        let (level, canonical, searches) = (self.hops.len() as u32, self.canonical(), self.unknown().count());
        Problem {
            id: format!("mh{level}-{}", Digest::of(canonical.as_bytes()).short()),
            messages: vec![Message::new("user", self.text())],
            answer: self.answer().to_string(),
            verifier: json!({
                "kind": "text",
                "world": self.knowledge.label,
                "known": searches == 0,
                "searches": searches,
            })
            .to_string(),
            environment: "multi-hop-questions".to_string(),
            level,
            source: "multi-hop-questions".to_string(),
            split: String::new(),
            canonical,
            reference: Some(self.reference()),
            meta: None,
            parents: Vec::new(),
        }
    }
    fn name(&self, entity: usize) -> &'a str {
        &self.knowledge.entities[entity].name
    }
    fn text(&self) -> String {
        let asks_for = self.hops.last().map(|hop| hop.relation.to);
        let start = self.hops.first().map_or("", |hop| self.name(hop.subject));
        let phrase = self.hops.iter().fold(start.to_string(), |inner, hop| match inner.as_str() {
            name if name == start => format!("{} of {name}", hop.relation.noun),
            phrase => format!("{} of the {phrase}", hop.relation.noun),
        });
        match (self.form, asks_for) {
            (0, Some(EntityKind::Person)) => format!("Who is the {phrase}?"),
            (0, _) => format!("What is the {phrase}?"),
            _ => format!("Name the {phrase}."),
        }
    }
    /// Returns the canonical form: `7/1000:Brixel>founder>birthplace`.
    fn canonical(&self) -> String {
        let start = self.hops.first().map_or("", |hop| self.name(hop.subject));
        let relations: Vec<&str> = self.hops.iter().map(|hop| hop.relation.noun).collect();
        format!("{}:{start}>{}", self.knowledge.label, relations.join(">"))
    }
    /// Returns the facts of the chain as sentences, in the order of the hops.
    fn reference(&self) -> String {
        let fact = |hop: &Hop| format!("The {} is {}.", self.query(hop), self.name(hop.object));
        self.hops.iter().map(fact).collect::<Vec<_>>().join(" ")
    }
}

fn chain(knowledge: &KnowledgeBase, level: u32, draws: &mut PhiloxRng) -> Vec<Hop> {
    let mut subject = draws.below(knowledge.entities.len() as u64) as usize;
    let mut hops = Vec::with_capacity(level as usize);
    for _ in 0..level {
        let relation: &'static Relation = draws.choose(relations(knowledge.entities[subject].kind));
        // The relation belongs to the subject's kind, so it has an object.
        let object = knowledge.object(subject, relation).unwrap_or(subject);
        hops.push(Hop { subject, relation, object });
        subject = object;
    }
    hops
}

/// Returns whether the chain passes an entity twice.
fn returns(hops: &[Hop]) -> bool {
    hops.iter().enumerate().any(|(i, hop)| hops[..=i].iter().any(|earlier| earlier.subject == hop.object))
}

/// Returns the name with two neighboring letters swapped, or with a letter appended, so that no entity has the result
/// as its name.
pub fn misspelled(name: &str, knowledge: &KnowledgeBase, draws: &mut PhiloxRng) -> String {
    let letters: Vec<char> = name.to_lowercase().chars().collect();
    let places = letters.len().saturating_sub(1);
    let first = draws.below(places.max(1) as u64) as usize;
    let mut swapped = (0..places).map(|i| {
        let (mut letters, at) = (letters.clone(), (first + i) % places);
        letters.swap(at, at + 1);
        capitalized(&letters.into_iter().collect::<String>())
    });
    // Names never contain the letter q.
    swapped.find(|wrong| wrong != name && !knowledge.has(wrong)).unwrap_or_else(|| format!("{name}q"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn questions_have_the_hops_of_their_level_and_one_answer() {
        let knowledge = KnowledgeBase::new(1, 300, 0.0);
        let mut of_canonical = BTreeMap::new();
        for level in 1..=MAX_LEVEL {
            for index in 0..200 {
                let question = MultiHopQuestion::at(&knowledge, level, index, &Chance::new(5));
                let problem = question.problem();
                assert_eq!((problem.level, question.hops.len() as u32), (level, level));
                for pair in question.hops.windows(2) {
                    assert_eq!(pair[0].object, pair[1].subject);
                }
                let mut passed: BTreeSet<usize> = question.hops.iter().map(|hop| hop.object).collect();
                passed.insert(question.hops[0].subject);
                assert_eq!(passed.len(), level as usize + 1, "{}", problem.question());
                let mut words = problem.question().split(|c: char| !c.is_alphanumeric());
                assert!(words.all(|word| word != problem.answer), "{}", problem.question());
                assert_eq!(problem.question().matches(" of ").count(), level as usize);
                let first = of_canonical
                    .entry(problem.canonical.clone())
                    .or_insert_with(|| (problem.id.clone(), problem.answer.clone()));
                assert_eq!(*first, (problem.id, problem.answer));
            }
        }
        assert!(of_canonical.len() > 600);
    }

    #[test]
    fn questions_read_from_the_last_relation_to_the_first() {
        let knowledge = KnowledgeBase::new(1, 100, 0.0);
        let hop = |subject: usize, noun: &str| {
            let relation = relations(knowledge.entities[subject].kind).iter().find(|r| r.noun == noun).unwrap();
            Hop { subject, relation, object: knowledge.object(subject, relation).unwrap() }
        };
        // Entity 3 is a company.
        let first = hop(3, "founder");
        let second = hop(first.object, "birthplace");
        let name = |entity: usize| knowledge.entities[entity].name.as_str();
        let question = MultiHopQuestion { knowledge: &knowledge, hops: vec![first, second], form: 0 };
        let problem = question.problem();
        assert_eq!(problem.question(), format!("What is the birthplace of the founder of {}?", name(3)));
        assert_eq!(problem.answer, name(second.object));
        assert_eq!(problem.canonical, format!("1/100:{}>founder>birthplace", name(3)));
        let (company, person, town) = (name(3), name(first.object), name(second.object));
        assert_eq!(
            problem.reference.unwrap(),
            format!("The founder of {company} is {person}. The birthplace of {person} is {town}.")
        );
        assert_eq!(question.query(&second), format!("birthplace of {person}"));
        let who = MultiHopQuestion { hops: vec![first], form: 0, ..question.clone() };
        assert_eq!(who.problem().question(), format!("Who is the founder of {company}?"));
        let named = MultiHopQuestion { form: 1, ..question };
        assert_eq!(named.problem().question(), format!("Name the birthplace of the founder of {company}."));
        assert_eq!(named.problem().canonical, problem.canonical);
    }

    #[test]
    fn question_is_known_if_all_its_entities_are() {
        let knowledge = KnowledgeBase::new(2, 300, 0.6);
        let mut counts = BTreeMap::new();
        for index in 0..300 {
            let question = MultiHopQuestion::at(&knowledge, 2, index, &Chance::new(9));
            let unknown = question.hops.iter().filter(|hop| !knowledge.entities[hop.subject].known).count();
            let data: serde_json::Value = serde_json::from_str(&question.problem().verifier).unwrap();
            assert_eq!(data["known"], unknown == 0);
            assert_eq!(data["searches"], unknown);
            assert_eq!(data["world"], "2/300");
            *counts.entry(unknown).or_insert(0) += 1;
        }
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn misspelled_names_are_unused() {
        let knowledge = KnowledgeBase::new(3, 2_000, 0.0);
        for (i, entity) in knowledge.entities.iter().enumerate() {
            let wrong = misspelled(&entity.name, &knowledge, &mut Chance::new(1).at("m", &[i as u64]));
            assert!(wrong != entity.name && !knowledge.has(&wrong), "{wrong}");
            assert!(wrong.starts_with(|c: char| c.is_uppercase()));
        }
    }
}
