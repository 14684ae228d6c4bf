//! A closed fictional world: people, towns, companies and rivers, and what they are to one another.
//!
//! | of | to | relations |
//! |---|---|---|
//! | person | town, company, person | birthplace, employer, teacher |
//! | town | person, river | mayor, river |
//! | company | person, town | founder, seat |
//! | river | town, person | source, discoverer |
//!
//! Every relation has exactly one object, so a chain of relations has exactly one end. Every entity has one passage, which tells its
//! own facts and nothing else. Names are invented, so what a model says about them it has from the passages or from training on
//! them. Half of the entities are people; a fifth each are towns and companies. Refuses: facts that the seed and the size do not
//! decide.

use crate::environments::names::names;
use crate::tools::search::Passage;
use std::collections::BTreeSet;
use trainyard_core::Chance;

/// What an entity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Person,
    Town,
    Company,
    River,
}

/// The kinds of ten entities in turn.
const KINDS: [Kind; 10] = {
    use Kind::{Company, Person, River, Town};
    [Person, Town, Person, Company, Person, River, Person, Town, Person, Company]
};

/// One thing that can be said about all entities of a kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Relation {
    pub noun: &'static str,
    pub of: Kind,
    pub to: Kind,
}

const fn relation(noun: &'static str, of: Kind, to: Kind) -> Relation {
    Relation { noun, of, to }
}

/// All relations, those of one kind side by side.
pub static RELATIONS: [Relation; 9] = [
    relation("birthplace", Kind::Person, Kind::Town),
    relation("employer", Kind::Person, Kind::Company),
    relation("teacher", Kind::Person, Kind::Person),
    relation("mayor", Kind::Town, Kind::Person),
    relation("river", Kind::Town, Kind::River),
    relation("founder", Kind::Company, Kind::Person),
    relation("seat", Kind::Company, Kind::Town),
    relation("source", Kind::River, Kind::Town),
    relation("discoverer", Kind::River, Kind::Person),
];

/// Words of the passages and questions that no entity may be called; nouns come on top.
const WORDS: [&str; 8] = ["the", "of", "is", "has", "as", "who", "what", "name"];

/// Somebody or something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    pub name: String,
    pub kind: Kind,
    /// The agent is to know its facts by heart.
    pub known: bool,
    /// Its facts: objects, as indices of entities, in the order of the relations of its kind.
    objects: Vec<usize>,
    /// How each fact is told.
    forms: Vec<u64>,
}

/// All entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    pub entities: Vec<Entity>,
    names: BTreeSet<String>,
    /// `seed/size`: names the facts, in problems and in messages.
    pub label: String,
}

/// The relations that entities of a kind have.
pub fn relations(of: Kind) -> &'static [Relation] {
    let start = RELATIONS.iter().position(|r| r.of == of).unwrap_or(RELATIONS.len());
    let count = RELATIONS[start..].iter().take_while(|r| r.of == of).count();
    &RELATIONS[start..start + count]
}

impl World {
    /// Fewer entities than this would leave a kind with one.
    pub const LEAST: u32 = 20;

    /// The world of a seed with `size` entities, at least [`World::LEAST`]. `known_share` marks entities and changes no fact.
    pub fn new(seed: u64, size: u32, known_share: f64) -> Self {
        let (chance, size) = (Chance::new(seed), size.max(Self::LEAST));
        let words: Vec<&str> = WORDS.iter().copied().chain(RELATIONS.iter().map(|r| r.noun)).collect();
        let names = names(size as usize, &words, &mut chance.at("names", &[]));
        let kind = |index: usize| KINDS[index % KINDS.len()];
        let of_kind = |wanted: Kind| (0..names.len()).filter(|i| kind(*i) == wanted).collect::<Vec<_>>();
        let (people, towns) = (of_kind(Kind::Person), of_kind(Kind::Town));
        let (companies, rivers) = (of_kind(Kind::Company), of_kind(Kind::River));
        let entity = |(index, name): (usize, &String)| {
            let mut draws = chance.at("facts", &[index as u64]);
            let (mut objects, mut forms) = (Vec::new(), Vec::new());
            for relation in relations(kind(index)) {
                let pool = match relation.to {
                    Kind::Person => &people,
                    Kind::Town => &towns,
                    Kind::Company => &companies,
                    Kind::River => &rivers,
                };
                // Nobody is their own teacher; every kind has two entities and more.
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
    /// The entity to which a relation leads from `subject`; none if such entities do not have it.
    pub fn object(&self, subject: usize, relation: &Relation) -> Option<usize> {
        let subject = &self.entities[subject];
        let place = relations(subject.kind).iter().position(|r| r == relation)?;
        Some(subject.objects[place])
    }
    /// Whether some entity has this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }
    /// A passage for each entity, in their order.
    pub fn passages(&self) -> Vec<Passage> {
        self.entities.iter().map(|e| Passage { id: e.name.clone(), title: String::new(), text: self.told(e) }).collect()
    }
    fn told(&self, entity: &Entity) -> String {
        let facts = relations(entity.kind).iter().zip(&entity.objects).zip(&entity.forms);
        let sentence = |((relation, object), form): ((&Relation, &usize), &u64)| {
            let (subject, noun, object) = (&entity.name, relation.noun, &self.entities[*object].name);
            // Both forms have the noun, so that a search for it finds the fact.
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
    fn every_entity_has_its_facts_about_others_of_the_right_kind() {
        let world = World::new(7, 200, 0.0);
        assert_eq!(world.entities.len(), 200);
        for (index, entity) in world.entities.iter().enumerate() {
            assert!(relations(entity.kind).len() >= 2);
            for relation in relations(entity.kind) {
                let object = world.object(index, relation).unwrap();
                assert_eq!(world.entities[object].kind, relation.to);
                assert_ne!(object, index);
            }
        }
        assert_eq!(world.object(0, &RELATIONS[5]), None, "a person has no founder");
        let people = world.entities.iter().filter(|e| e.kind == Kind::Person).count();
        assert_eq!(people, 100);
    }

    #[test]
    fn seed_and_size_decide_the_facts_and_the_share_what_is_known() {
        let facts = |world: &World| world.passages();
        let world = World::new(7, 100, 0.0);
        assert_eq!(world, World::new(7, 100, 0.0));
        assert_eq!(world.label, "7/100");
        assert_ne!(facts(&world), facts(&World::new(8, 100, 0.0)));
        assert!(world.entities.iter().all(|e| !e.known));
        let half = World::new(7, 100, 0.5);
        assert_eq!(facts(&world), facts(&half));
        let known = half.entities.iter().filter(|e| e.known).count();
        assert!((30..=70).contains(&known), "{known}");
        // A larger share knows all that a smaller one knows.
        let most = World::new(7, 100, 0.8);
        assert!(half.entities.iter().zip(&most.entities).all(|(a, b)| !a.known || b.known));
        assert!(World::new(7, 100, 1.0).entities.iter().all(|e| e.known));
    }

    /// What the demonstrator relies on: the first passage for `founder of Brixel` is Brixel's.
    #[test]
    fn a_search_for_a_fact_finds_its_passage_first() {
        for size in [World::LEAST, 300] {
            let world = World::new(u64::from(size), size, 0.0);
            let index = SearchIndex::build(world.passages()).unwrap();
            for entity in &world.entities {
                for relation in relations(entity.kind) {
                    let query = format!("{} of {}", relation.noun, entity.name);
                    let found = index.search(&query, 1).unwrap().unwrap();
                    assert_eq!(found[0].id, entity.name, "{query}");
                }
            }
        }
    }
}
