use super::*;
use std::collections::BTreeSet;
use trainyard_runtime::executors::{ExecutorKind, LocalExecutor, LocalOptions};

fn standard() -> Catalogue {
    Catalogue::builder().build().unwrap()
}

#[test]
fn every_part_has_a_page() {
    let catalogue = standard();
    let mut names = BTreeSet::new();
    for family in catalogue.families() {
        let pages = catalogue.pages(family.folder()).unwrap();
        assert_eq!(pages.iter().map(|page| page.kind).collect::<Vec<_>>(), family.kinds());
        for page in pages {
            assert!(!page.summary.is_empty() && !page.doc.is_empty(), "{}", page.name);
            assert_eq!(page.options["properties"]["kind"]["const"], page.kind);
            assert_eq!(page.expands_to.is_some(), page.folder == "algorithms", "{}", page.name);
            assert!(names.insert(page.name));
        }
    }
    let folders: Vec<&str> = catalogue.families().iter().map(|family| family.folder()).collect();
    assert!(folders.is_sorted() && folders.len() == 22, "{folders:?}");
}

#[test]
fn families_of_stages_exist() {
    let catalogue = standard();
    for stage in catalogue.stages() {
        assert!(stage.families.is_sorted(), "{}", stage.name);
        assert!(stage.families.iter().all(|folder| catalogue.pages(folder).is_some()), "{}", stage.name);
        assert!(!stage.options.to_string().contains("x-family"), "a family of `{}` is not filled in", stage.name);
    }
}

#[test]
fn names_are_resolved_in_every_form() {
    let catalogue = standard();
    let part = |name: &str| match catalogue.find(name) {
        Ok(CatalogueEntry::Part(page)) => page.name,
        _ => panic!("{name} is not a part"),
    };
    assert_eq!(part("losses/clip"), "losses/clip");
    assert_eq!(part("clip"), "losses/clip");
    assert_eq!(part("grpo"), "algorithms/grpo");
    assert!(matches!(catalogue.find("rl"), Ok(CatalogueEntry::Stage(info)) if info.name == "rl"));
    assert!(
        matches!(catalogue.find("stages/data/filter"), Ok(CatalogueEntry::Stage(info)) if info.name == "data/filter")
    );
    assert!(matches!(catalogue.find("losses"), Ok(CatalogueEntry::Family(pages)) if pages.len() == 13));
    assert!(matches!(catalogue.find("local"), Ok(CatalogueEntry::Executor(kind)) if kind.on_this_machine));
    assert!(matches!(catalogue.find("executors"), Ok(CatalogueEntry::Executors(kinds)) if !kinds.is_empty()));
    let several = catalogue.find("entropy_balanced").err().unwrap().to_string();
    assert!(several.contains("modulations/entropy_balanced, strategies/entropy_balanced"), "{several}");
    let unknown = catalogue.find("losses/clp").err().unwrap().to_string();
    assert!(unknown.contains("`losses/clp`") && unknown.contains("`losses/clip`"), "{unknown}");
}

#[test]
fn full_names_are_checked() {
    let catalogue = standard();
    for good in
        ["filters/void_turn", "losses/clip", "replay/none", "rewards/answer", "rules/void_turn", "stages/data/filter"]
    {
        assert_eq!(catalogue.problem(good), None);
    }
    assert!(catalogue.problem("filters/voidturn").unwrap().contains("did you mean `void_turn`?"));
    assert!(catalogue.problem("filter/void_turn").unwrap().contains("did you mean `filters`?"));
    assert!(catalogue.problem("void_turn").unwrap().contains("no folder of parts"));
}

#[test]
fn duplicate_names_are_rejected() {
    let again = |name| {
        ExecutorKind::new(name, "again", |with, options: LocalOptions| {
            Ok(Arc::new(LocalExecutor::new(with.launcher.clone(), with.slots.clone(), options)))
        })
    };
    let error = Catalogue::builder().executor(again("local")).build().err().unwrap();
    assert!(error.message.contains("`local`"), "{error}");
    let error = Catalogue::builder().loss::<trainyard_learn::losses::clip::Clip>().build().err().unwrap();
    assert!(error.message.contains("`losses/clip`"), "{error}");
    let error = Catalogue::builder().stage(trainyard_train::stages::noop::Noop).build().err().unwrap();
    assert!(error.message.contains("`noop`"), "{error}");
    let kinds = Catalogue::builder().executor(again("again")).build().unwrap();
    let names: Vec<&str> = kinds.executors().iter().map(|kind| kind.name).collect();
    assert!(names.contains(&"again") && names.contains(&"local") && names.is_sorted(), "{names:?}");
}
