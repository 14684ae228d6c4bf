use super::*;
use crate::environments::customer_service::task::UserTool;

fn script() -> UserScript {
    UserScript {
        reason: "I want to return the lamp of #W1.".to_string(),
        known: "I am Ada Moss in 12207.".to_string(),
        unknown: "I do not remember my email.".to_string(),
        answers: vec![ScriptedAnswer {
            when: vec!["payment".to_string(), "refund".to_string()],
            says: "Use gift_card_1.".to_string(),
        }],
        ..UserScript::default()
    }
}

fn says(user: &mut ScriptedUser, message: &str, changed: bool) -> String {
    match user.answer(message, changed) {
        Reaction::Reply(text) => text,
        Reaction::Leave => "(leaves)".to_string(),
    }
}

#[test]
fn a_whole_conversation() {
    let mut user = ScriptedUser::new(Arc::new(script()));
    let mut hears = |message: &str, changed: bool| says(&mut user, message, changed);
    assert_eq!(hears("Hello, what can I do for you?", false), "I want to return the lamp of #W1.");
    assert_eq!(hears("May I have your Email?", false), "I am Ada Moss in 12207. I do not remember my email.");
    assert_eq!(hears("What is your zip code?", false), "I do not remember my email.");
    assert_eq!(hears("Which payment method shall I use for the refund?", false), "Use gift_card_1.");
    assert_eq!(hears("I return the lamp, refund to gift_card_1. Do you confirm (yes/no)?", false), "Yes, please.");
    assert_eq!(hears("I verified your identity. Should I proceed?", false), "Yes, please.");
    assert_eq!(hears("Is there anything else to do? Please confirm.", false), "Yes, please.");
    assert_eq!(hears("It is done. Is there anything else?", true), "(leaves)");
}

#[test]
fn identity_questions_are_answered_first() {
    let mut user = ScriptedUser::new(Arc::new(script()));
    assert_eq!(
        says(&mut user, "To confirm your identity, please tell me your name and zip.", false),
        "I am Ada Moss in 12207."
    );
    let mut nameless = ScriptedUser::new(Arc::new(UserScript { known: String::new(), ..script() }));
    assert_eq!(says(&mut nameless, "Your email, please?", false), "I do not remember my email.");
    let mut blank = ScriptedUser::new(Arc::new(UserScript { reason: "Hi.".to_string(), ..UserScript::default() }));
    assert_eq!(says(&mut blank, "Your email, please?", false), "Hi.");
}

#[test]
fn statements_after_a_change_or_refusal_end_the_conversation() {
    let user = || ScriptedUser::new(Arc::new(script()));
    assert_eq!(says(&mut user(), "The lamp is returned.", true), "(leaves)");
    assert_eq!(says(&mut user(), "I cannot do that.", false), "(leaves)");
    assert_eq!(says(&mut user(), "One moment.", false), "All right, please go on.");
}

#[test]
fn patience_runs_out_and_progress_restores_it() {
    let mut user = ScriptedUser::new(Arc::new(script()));
    for _ in 0..MAX_IDLE_MESSAGES {
        assert_eq!(says(&mut user, "Hm?", false), script().reason);
    }
    assert_eq!(says(&mut user, "Refund where?", false), "Use gift_card_1.");
    for _ in 0..MAX_IDLE_MESSAGES {
        assert_eq!(says(&mut user, "One moment.", false), "All right, please go on.");
    }
    assert_eq!(says(&mut user, "Hm?", false), "(leaves)");
}

#[test]
fn users_use_their_tools_and_copies_are_independent() {
    let pair = |a: &str, b: &str| BTreeMap::from([(a.to_string(), b.to_string())]);
    let tool = |name: &str, when: &str, needs: BTreeMap<String, String>, sets: BTreeMap<String, String>| UserTool {
        name: name.to_string(),
        when: vec![when.to_string()],
        needs,
        sets,
        says: format!("{name}: done."),
        refuses: format!("{name}: it does not work."),
    };
    let script = UserScript {
        tools: vec![
            tool("plug_in", "plug", BTreeMap::new(), pair("plug", "in")),
            tool("switch_on", "switch", pair("plug", "in"), pair("lamp", "on")),
        ],
        state: pair("plug", "out"),
        ..script()
    };
    let mut user = ScriptedUser::new(Arc::new(script));
    assert_eq!(says(&mut user, "Please switch it on.", false), "switch_on: it does not work.");
    assert_eq!(user.state(), &pair("plug", "out"));
    let mut copy = user.copy();
    assert_eq!(says(&mut user, "Please plug it in.", false), "plug_in: done.");
    assert_eq!(says(&mut user, "Now switch it on.", false), "switch_on: done.");
    assert_eq!(
        user.state(),
        &BTreeMap::from([("lamp".to_string(), "on".to_string()), ("plug".to_string(), "in".to_string())])
    );
    assert_eq!(copy.answer("Please switch it on.", false), Reaction::Reply("switch_on: it does not work.".to_string()));
    assert_eq!(copy.state(), &pair("plug", "out"));
}
