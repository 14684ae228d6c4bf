use super::finder::PersonalDataFinder;
use super::*;
use crate::filter::tests::verdicts;
use serde_json::json;
use trainyard_tables::Message;

fn found_with(text: &str, private_ips: bool) -> Vec<(&'static str, String)> {
    let finder = PersonalDataFinder::new(&PersonalDataKind::ALL, private_ips).unwrap();
    finder.find(text).into_iter().map(|(place, kind)| (kind.name(), text[place].to_string())).collect()
}

/// Asserts that a text has exactly this data.
#[track_caller]
fn has(text: &str, expected: &[(&'static str, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(kind, data)| (*kind, (*data).to_string())).collect();
    assert_eq!(found_with(text, false), expected, "{text}");
}

#[test]
fn data_of_each_kind_is_found() {
    has("Write to anna.b+x@mail.example.co.uk.", &[("email", "anna.b+x@mail.example.co.uk")]);
    has("<ANNA@EXAMPLE.ORG>; 联系bo@example.org。", &[("email", "ANNA@EXAMPLE.ORG"), ("email", "bo@example.org")]);
    has("https://x.org/?to=bo@example.org", &[("email", "bo@example.org")]);
    has("Call +49 30 1234567 or (415) 555-2671.", &[("phone", "+49 30 1234567"), ("phone", "(415) 555-2671")]);
    has("+14155552671, +33 6 12 34 56 78", &[("phone", "+14155552671"), ("phone", "+33 6 12 34 56 78")]);
    has("1-800-555-1234 or 415.555.2671", &[("phone", "1-800-555-1234"), ("phone", "415.555.2671")]);
    has("from 81.169.145.72:443 to http://91.2.3.4/", &[("ip", "81.169.145.72"), ("ip", "91.2.3.4")]);
    has("4111 1111 1111 1111 12/27", &[("credit_card", "4111 1111 1111 1111")]);
    has("No. 1234 5678 5555 5555 5555 4444", &[("credit_card", "5555 5555 5555 4444")]);
    has(
        "3782-822463-10005, 378282246310005",
        &[("credit_card", "3782-822463-10005"), ("credit_card", "378282246310005")],
    );
    has("IBAN: DE89 3704 0044 0532 0130 00 (Berlin)", &[("iban", "DE89 3704 0044 0532 0130 00")]);
    has(
        "BE68 5390 0754 7034 PAID, GB29NWBK60161331926819",
        &[("iban", "BE68 5390 0754 7034"), ("iban", "GB29NWBK60161331926819")],
    );
    has("git clone https://anna:s3cr3t-9@host.com/x.git", &[("url_credentials", "anna:s3cr3t-9")]);
}

#[test]
fn keys_of_services_are_found() {
    let random = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5";
    let letters = "abcdefGHIJKLmnopqrSTUVWXyzabCDEFgh";
    let keys = [
        format!("sk-{random}"),
        format!("sk-proj-x_{random}-y"),
        format!("ghp_{random}"),
        format!("hf_{letters}"),
        format!("AKIA{}", &random.to_uppercase()[..16]),
        format!("xoxb-{}", &random[..20]),
    ];
    for key in keys {
        has(&format!("key={key}\n"), &[("api_key", &key)]);
        has(&format!("x{key}"), &[]);
    }
    has("sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk-learn-0-24-notes-on-the-installation", &[]);
    has(&format!("hf_{}", letters.to_lowercase()), &[]);
}

#[test]
fn versions_numbers_formulas_and_code_are_no_data() {
    for text in [
        "pip install x==81.2.3.4; version 81.2.30.4; Chrome/120.0.99.71; v81.2.3.4; pkg-81.2.3.4.tar.gz",
        "1.2.3.4 Introduction, see 1.2.3.5 and the OID 1.3.6.1.4.1.311",
        "999.1.1.1, 01.02.03.04, 192.168.0.1, 127.0.0.1, 10.0.0.1, 203.0.113.7, 224.0.0.251",
        "3.14159265358979, 0.4111111111111111, 4111111111111111.5, 1e10, 4611686018427387904",
        "2024-01-15T10:30:00+02:00, 15.01.2024, 01/15/2024 10:30, 20240115103000",
        "10+12345678901 = 12345678911; 5 + 1234567890; f(x) +3.14159265; +1.234.567.890",
        "y = x@W.T + b; out = x@self.proj.weight; z = x@w.to(device); A@B.mT; a@b.at",
        "@decorator, user@localhost, pkg@1.2.3, @user@mastodon.social, git@github.com:org/repo.git",
        "postgres://user:password@db.com/x, https://$USER:$PASS@h.com, http://{user}:{key}@h.com, ssh://git@github.com",
        "4111 1111 1111 1112, 1234 5678 9012 3456, 0000000000000000, 4111111111111111111111",
        "DE88 3704 0044 0532 0130 00, XX89 3704 0044 0532 0130 00, DE89 3704 0044 0532 0130",
        "978-3-16-148410-0, 123e4567-e89b-12d3-a456-426614174000, 123-45-6789, 555-1234, DFARS 252.227-7013",
        "The 12 hens lay 5 eggs each: 12 * 5 = 60. #### 60",
        "",
    ] {
        has(text, &[]);
    }
}

#[test]
fn private_addresses_count_if_asked() {
    let expected = ["192.168.0.1", "127.0.0.1", "10.0.0.1", "203.0.113.7"];
    let found = found_with("192.168.0.1, 127.0.0.1, 10.0.0.1, 203.0.113.7, 999.1.1.1", true);
    assert_eq!(found, expected.map(|address| ("ip", address.to_string())));
}

#[test]
fn masks_are_apart_and_keep_the_text_around() {
    let finder = PersonalDataFinder::new(&PersonalDataKind::ALL, false).unwrap();
    let masked = |text: &str| PersonalDataFinder::masked(text, &finder.find(text));
    assert_eq!(masked("é bo@example.org, 81.169.145.72 ö"), "é [EMAIL], [IP] ö");
    assert_eq!(masked("http://a:b1x@81.169.145.72/"), "http://[URL_CREDENTIALS]@[IP]/");
    // The letter of an escape remains.
    assert_eq!(masked(r#"{"text": "Hi\nbo@example.org"}"#), r#"{"text": "Hi\n[EMAIL]"}"#);
}

/// The time stays in proportion to the text: candidates without data, one after the other.
#[test]
fn long_texts_have_no_quadratic_time() {
    let text = ["1234 ", "a", "1", "a@b.c-"].map(|part| part.repeat(200_000)).concat();
    has(&text, &[]);
}

fn row(id: &str, question: &str, answer: &str) -> Trajectory {
    let messages = vec![Message::new("user", question), Message::new("assistant", answer)];
    Trajectory { id: id.into(), messages, answer: Some(answer.into()), ..Trajectory::default() }
}

#[test]
fn rows_are_masked_in_all_their_texts() {
    let mut rows = [row("a", "q", "bo@example.org or al@example.org"), row("b", "1.2.3.4", "x"), row("c", "q", "x")];
    rows[2].answer = Some("81.169.145.72".into());
    rows[2].messages[1].reasoning_content = Some("bo@example.org".into());
    rows[2].messages[1].tool_calls =
        Some(r#"[{"name":"f","arguments":{"n":4111111111111111,"t":"\nal@example.org"}}]"#.into());
    let found = verdicts(&json!("personal_data"), &rows, &[], &[]).unwrap();
    let RuleVerdict::Edit { reason, edit } = &found[0] else { panic!("{found:?}") };
    assert_eq!(reason, "personal_data: 2 email");
    assert_eq!(edit.messages[1].content, "[EMAIL] or [EMAIL]");
    assert_eq!(edit.answer.as_deref(), Some("[EMAIL] or [EMAIL]"), "the answer is the last message");
    assert_eq!(found[1], RuleVerdict::Keep);
    let RuleVerdict::Edit { reason, edit } = &found[2] else { panic!("{found:?}") };
    assert_eq!(reason, "personal_data: 2 email, 1 ip, 1 credit_card");
    assert_eq!(edit.answer.as_deref(), Some("[IP]"));
    assert_eq!(edit.messages[1].reasoning_content.as_deref(), Some("[EMAIL]"));
    let calls: Value = serde_json::from_str(edit.messages[1].tool_calls.as_ref().unwrap()).unwrap();
    assert_eq!(calls, json!([{"name": "f", "arguments": {"n": "[CREDIT_CARD]", "t": "\n[EMAIL]"}}]));
}

#[test]
fn rows_with_token_ids_or_the_action_reject_are_rejected() {
    let with_tokens =
        Trajectory { token_ids: vec![1], loss_mask: vec![true], turn: vec![0], ..row("a", "q", "bo@example.org") };
    let masked = verdicts(&json!("personal_data"), &[with_tokens], &[], &[]).unwrap();
    let detail = "1 email; a row with token ids cannot be masked";
    assert_eq!(masked, [RuleVerdict::reject("personal_data", detail)]);
    let rows = [row("a", "q", "bo@example.org"), row("b", "q", "81.169.145.72")];
    let rule = json!({"kind": "personal_data", "action": "reject", "kinds": ["email"]});
    let rejected = verdicts(&rule, &rows, &[], &[]).unwrap();
    assert_eq!(rejected, [RuleVerdict::reject("personal_data", "1 email"), RuleVerdict::Keep]);
}

#[test]
fn options_without_effect_are_rejected() {
    let pointers = |options: Value| {
        let rule: PersonalDataRule = serde_json::from_value(options).unwrap();
        rule.check().into_iter().map(|problem| problem.pointer).collect::<Vec<_>>()
    };
    assert_eq!(pointers(json!({"kinds": []})), ["/kinds"]);
    assert_eq!(pointers(json!({"kinds": ["email"], "private_ips": true})), ["/private_ips"]);
    assert!(pointers(json!({"private_ips": true})).is_empty());
}
