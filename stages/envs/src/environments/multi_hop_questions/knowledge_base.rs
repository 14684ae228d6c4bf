//! Generates a closed, fictional knowledge base of persons, towns, companies and rivers, and the relations between
//! them.
//!
//! | of | to | relations |
//! |---|---|---|
//! | person | town, company, person | birthplace, employer, teacher |
//! | town | person, river | mayor, river |
//! | company | person, town | founder, seat |
//! | river | town, person | source, discoverer |
//!
//! Every relation has exactly one object, so a chain of relations has exactly one end. Each entity has one passage with
//! its facts. Names are invented, so a model can know them only from the passages or from training on them. Half of the
//! entities are persons; a fifth each are towns and companies.

use crate::environments::names::names;
use crate::tools::search::Passage;
use std::collections::BTreeSet;
use trainyard_core::Chance;

/// The kind of an entity.
#[expect(missing_docs, reason = "named like the kinds")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntityKind {
    Person,
    Town,
    Company,
    River,
}

/// The kinds of ten consecutive entities.
const KINDS: [EntityKind; 10] = {
    use EntityKind::{Company, Person, River, Town};
    [Person, Town, Person, Company, Person, River, Person, Town, Person, Company]
};

/// A relation that all entities of a kind have.
#[derive(Debug, PartialEq, Eq)]
pub struct Relation {
    /// Noun of the relation in questions and passages.
    pub noun: &'static str,
    /// Kind of the subjects.
    pub of: EntityKind,
    /// Kind of the objects.
    pub to: EntityKind,
}

const fn relation(noun: &'static str, of: EntityKind, to: EntityKind) -> Relation {
    Relation { noun, of, to }
}

/// All relations, grouped by the kind of their subjects.
pub static RELATIONS: [Relation; 9] = [
    relation("birthplace", EntityKind::Person, EntityKind::Town),
    relation("employer", EntityKind::Person, EntityKind::Company),
    relation("teacher", EntityKind::Person, EntityKind::Person),
    relation("mayor", EntityKind::Town, EntityKind::Person),
    relation("river", EntityKind::Town, EntityKind::River),
    relation("founder", EntityKind::Company, EntityKind::Person),
    relation("seat", EntityKind::Company, EntityKind::Town),
    relation("source", EntityKind::River, EntityKind::Town),
    relation("discoverer", EntityKind::River, EntityKind::Person),
];

/// Words of passages and questions that must not be entity names, in addition to the nouns of relations.
const WORDS: [&str; 8] = ["the", "of", "is", "has", "as", "who", "what", "name"];

/// A person, town, company or river.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// Unique name.
    pub name: String,
    pub kind: EntityKind,
    /// Whether the agent must know the entity's facts by heart.
    pub known: bool,
    /// Facts: indexes of the objects, in the order of the relations of the kind.
    objects: Vec<usize>,
    /// The wording of each fact.
    forms: Vec<u64>,
}

/// All entities and their facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeBase {
    /// The entities; facts refer to their indexes.
    pub entities: Vec<Entity>,
    names: BTreeSet<String>,
    /// `seed/size`: identifies the facts in problems and messages.
    pub label: String,
}

/// Returns the relations of entities of a kind.
pub fn relations(of: EntityKind) -> &'static [Relation] {
    let start = RELATIONS.iter().position(|r| r.of == of).unwrap_or(RELATIONS.len());
    let count = RELATIONS[start..].iter().take_while(|r| r.of == of).count();
    &RELATIONS[start..start + count]
}

impl KnowledgeBase {
    /// Smallest number of entities; with fewer, some kind would have only one.
    pub const MIN_SIZE: u32 = 20;

    /// Generates the facts of a seed, with `size` entities, at least [`KnowledgeBase::MIN_SIZE`]. `known_share` is the
    /// share of known entities and changes no fact.
    pub fn new(seed: u64, size: u32, known_share: f64) -> Self {
        let (chance, size) = (Chance::new(seed), size.max(Self::MIN_SIZE));
        let words: Vec<&str> = WORDS.iter().copied().chain(RELATIONS.iter().map(|r| r.noun)).collect();
        let names = names(size as usize, &words, &mut chance.at("names", &[]));
        let kind = |index: usize| KINDS[index % KINDS.len()];
        let of_kind = |expected: EntityKind| (0..names.len()).filter(|i| kind(*i) == expected).collect::<Vec<_>>();
        let (people, towns) = (of_kind(EntityKind::Person), of_kind(EntityKind::Town));
        let (companies, rivers) = (of_kind(EntityKind::Company), of_kind(EntityKind::River));
        let entity = |(index, name): (usize, &String)| {
            let mut draws = chance.at("facts", &[index as u64]);
            let (mut objects, mut forms) = (Vec::new(), Vec::new());
            for relation in relations(kind(index)) {
                let pool = match relation.to {
                    EntityKind::Person => &people,
                    EntityKind::Town => &towns,
                    EntityKind::Company => &companies,
                    EntityKind::River => &rivers,
                };
                // No person is their own teacher; every kind has at least two entities.
                objects.push(loop {
                    let object = *draws.choose(pool);
                    if object != index {
                        break object;
                    }
                });
                forms.push(draws.below(2));
            }
            let known = chance.at("known", &[index as u64]).uniform() < known_share;
            Entity { name: name.clone(), kind: kind(index), known, objects, forms }
        };
        let entities: Vec<Entity> = names.iter().enumerate().map(entity).collect();
        Self { entities, names: names.into_iter().collect(), label: format!("{seed}/{size}") }
    }
    /// Returns the object of a relation of `subject`; `None` if entities of its kind do not have the relation.
    pub fn object(&self, subject: usize, relation: &Relation) -> Option<usize> {
        let subject = &self.entities[subject];
        let index = relations(subject.kind).iter().position(|r| r == relation)?;
        Some(subject.objects[index])
    }
    /// Returns whether an entity has this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }
    /// Returns one passage per entity, in their order.
    pub fn passages(&self) -> Vec<Passage> {
        self.entities
            .iter()
            .map(|e| Passage { id: e.name.clone(), title: String::new(), text: self.passage_text(e) })
            .collect()
    }
    fn passage_text(&self, entity: &Entity) -> String {
        let facts = relations(entity.kind).iter().zip(&entity.objects).zip(&entity.forms);
        let sentence = |((relation, object), form): ((&Relation, &usize), &u64)| {
            let (subject, noun, object) = (&entity.name, relation.noun, &self.entities[*object].name);
            // Both wordings contain the noun, so that a search for it finds the fact.
            if *form == 0 {
                format!("The {noun} of {subject} is {object}.")
            } else {
                format!("{subject} has {object} as {noun}.")
            }
        };
        facts.map(sentence).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::search::SearchIndex;

    #[test]
    fn entities_have_facts_about_others_of_the_right_kind() {
        let knowledge = KnowledgeBase::new(7, 200, 0.0);
        assert_eq!(knowledge.entities.len(), 200);
        for (index, entity) in knowledge.entities.iter().enumerate() {
            assert!(relations(entity.kind).len() >= 2);
            for relation in relations(entity.kind) {
                let object = knowledge.object(index, relation).unwrap();
                assert_eq!(knowledge.entities[object].kind, relation.to);
                assert_ne!(object, index);
            }
        }
        assert_eq!(knowledge.object(0, &RELATIONS[5]), None, "a person has no founder");
        let people = knowledge.entities.iter().filter(|e| e.kind == EntityKind::Person).count();
        assert_eq!(people, 100);
    }

    #[test]
    fn facts_depend_on_seed_and_size_only() {
        let facts = |knowledge: &KnowledgeBase| knowledge.passages();
        let knowledge = KnowledgeBase::new(7, 100, 0.0);
        assert_eq!(knowledge, KnowledgeBase::new(7, 100, 0.0));
        assert_eq!(knowledge.label, "7/100");
        assert_ne!(facts(&knowledge), facts(&KnowledgeBase::new(8, 100, 0.0)));
        assert!(knowledge.entities.iter().all(|e| !e.known));
        let half = KnowledgeBase::new(7, 100, 0.5);
        assert_eq!(facts(&knowledge), facts(&half));
        let known = half.entities.iter().filter(|e| e.known).count();
        assert!((30..=70).contains(&known), "{known}");
        // A larger share includes every entity of a smaller one.
        let more = KnowledgeBase::new(7, 100, 0.8);
        assert!(half.entities.iter().zip(&more.entities).all(|(a, b)| !a.known || b.known));
        assert!(KnowledgeBase::new(7, 100, 1.0).entities.iter().all(|e| e.known));
    }

    /// Demonstrations rely on this order: the first passage for `founder of Brixel` is Brixel's.
    #[test]
    fn searching_a_fact_finds_its_passage_first() {
        for size in [KnowledgeBase::MIN_SIZE, 300] {
            let knowledge = KnowledgeBase::new(u64::from(size), size, 0.0);
            let index = SearchIndex::build(knowledge.passages()).unwrap();
            for entity in &knowledge.entities {
                for relation in relations(entity.kind) {
                    let query = format!("{} of {}", relation.noun, entity.name);
                    let found = index.search(&query, 1).unwrap().unwrap();
                    assert_eq!(found[0].id, entity.name, "{query}");
                }
            }
        }
    }
}
