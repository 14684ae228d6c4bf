//! Pages of single rows.

use crate::pages::rollout_parts::test_store::{
    HOSTILE, address, elements, get, page, pages, rollout, rollouts, send, text,
};
use axum::http::{Method, header};
use trainyard_core::Digest;
use trainyard_tables::{Message, Trajectory, Verdict};
use trainyard_views::find;

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_shown_turn_by_turn() {
    let (pages, _) = pages(&rollouts(), false).await;
    let html = page(&pages, &address("rollouts", "rows/4")).await;
    for part in [
        "✗ </span>wrong",
        "<dt>Expected</dt>",
        "numeric",
        "&lt;b&gt;format&lt;/b&gt;",
        "✓ kept",
        "<h2>Segments</h2>",
        "Assistant · turn 0",
        "Reasoning, 12 characters",
        "Call of python",
        "code:\nprint(2)\nprint(3)",
        "Result of python",
        "Assistant · turn 1",
        "It is [5](javascript:alert(1)).",
        "Forks of the group",
        "forked at token 2",
        "groups/1?near=4&amp;problem=p%2F1&amp;step=0",
        "No notes about this row.",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    assert!(html.contains(r#"rel="prev" data-key="k""#) && html.contains(r#"rel="next" data-key="j""#));
    assert!(!html.contains("<textarea"), "only for those who may change");
    let (status, html) = get(&pages, &address("rollouts", "rows/18")).await;
    assert!(status == 404 && html.contains("has no row 18"), "{html}");
    assert_eq!(get(&pages, &address("rollouts", "rows/x")).await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn step_labels_are_at_their_turns() {
    let labeled = Trajectory { step_labels: Some(vec![f32::NAN, 0.25]), ..rollout(0, 0, 0) };
    let lines = Trajectory { step_labels: Some(vec![1.0, 0.0, 0.5]), step_ends: vec![2, 3, 4], ..rollout(0, 0, 1) };
    let (pages, _) = pages(&[labeled, lines, rollout(0, 0, 2)], false).await;
    let html = page(&pages, &address("rollouts", "rows/0")).await;
    assert!(html.contains("message 1</span> · step label none"), "{html}");
    assert!(html.contains("message 3</span> · step label 0.25"), "{html}");
    let html = page(&pages, &address("rollouts", "rows/1")).await;
    assert!(
        html.contains("message 1</span> · step labels 1, 0") && html.contains("message 3</span> · step label 0.5"),
        "{html}"
    );
    assert!(!page(&pages, &address("rollouts", "rows/2")).await.contains("step label"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_have_colors_titles_and_a_table() {
    let (pages, _) = pages(&rollouts(), false).await;
    let html = page(&pages, &address("rollouts", "rows/0?tokens=logprob")).await;
    assert!(html.contains(r#"<span class="t0" title="token 9 at 2, value -2">9 </span>"#), "{html}");
    assert!(html.contains(r#"<span class="t8" title="token 8 at 1, value -0.5">8 </span>"#), "{html}");
    assert!(html.contains(r#"<span class="t-none" title="token 7 at 0">7 </span>"#), "{html}");
    assert!(html.contains("segment 2 begins, turn 1") && html.contains("shown by their ids"), "{html}");
    let table = page(&pages, &address("rollouts", "rows/0?tokens=advantage&as=table")).await;
    assert!(table.contains("In the loss") && table.contains("<td class=\"n\">-1.5</td>"), "{table}");
    let absent = page(&pages, &address("rollouts", "rows/0?tokens=entropy")).await;
    assert!(absent.contains("the row has no `entropies`"), "{absent}");
    let (status, html) = get(&pages, &address("rollouts", "rows/0?tokens=size")).await;
    assert!(status == 400 && html.contains("write loss, logprob"), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_rollouts_are_paged_and_long_messages_cut() {
    let call = Message { tool_calls: Some(r#"[{"name": "f", "arguments": {}}]"#.into()), ..Message::default() };
    let events = (0..33_000).map(|n| if n % 2 == 0 { call.clone() } else { Message::new("tool", "5") });
    let long = Trajectory { messages: events.collect(), ..rollout(0, 0, 0) };
    let wide = Trajectory { messages: vec![Message::new("user", "x".repeat(10_000_000))], ..rollout(0, 0, 1) };
    let (pages, _) = pages(&[long, wide], false).await;
    let html = page(&pages, &address("rollouts", "rows/0?from=20000")).await;
    assert!(elements(&html) < 3_000, "{} elements", elements(&html));
    assert!(html.contains(r#"id="m20000""#) && html.contains("Messages before") && html.contains("Messages after"));
    let last = html.split("\">Last messages").next().and_then(|before| before.rsplit_once("rows/0")).unwrap().1;
    let end = page(&pages, &address("rollouts", &format!("rows/0{}", last.trim_end_matches("#conversation")))).await;
    assert!(
        end.contains(r#"id="m32999""#) && end.contains("First messages") && !end.contains("Messages after"),
        "{last}"
    );
    let html = page(&pages, &address("rollouts", "rows/1")).await;
    assert!(html.len() < 100_000 && html.contains("9,980,000 more characters"), "{} bytes", html.len());
    assert!(html.contains("raw/1/0?part=content"));
    let whole = send(&pages, Method::GET, &address("rollouts", "raw/1/0?part=content"), "").await;
    assert_eq!(text(whole).await.len(), 10_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_rollout_are_searched() {
    let mut messages: Vec<Message> = (0..400).map(|n| Message::new("tool", format!("file {n} {HOSTILE}"))).collect();
    messages[399] = Message { reasoning_content: Some("the Needle".into()), ..Message::new("assistant", "end") };
    let (pages, _) = pages(&[Trajectory { messages, ..rollout(0, 0, 0) }], false).await;
    let html = page(&pages, &address("rollouts", "rows/0?find=needle")).await;
    assert!(html.contains("1 message has the text.") && html.contains("rows/0?from=399#m399"), "{html}");
    assert!(html.contains("<mark>Needle</mark>") && html.contains(r#"name="find" value="needle""#), "{html}");
    let html = page(&pages, &address("rollouts", "rows/0?find=file&from=200")).await;
    for part in
        ["399 messages have the text.", ">Message 200</a>", "from=100#matches", "from=300#matches", ">Message 299<"]
    {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    let none = page(&pages, &address("rollouts", "rows/0?find=%3Cscript%3Ealert%281%29%3C%2Fscript%3E0&from=9")).await;
    assert!(none.contains("0 messages have the text."), "{none}");
    assert!(page(&pages, &address("rollouts", "rows/0?find=")).await.contains(r#"id="m0""#), "no text is no search");
}

/// Returns a rollout with more of everything than a page shows.
fn crowded(sample: u32) -> Trajectory {
    let calls = format!("[{}]", vec!["{}"; 60].join(","));
    let message = Message {
        tool_calls: Some(calls),
        reasoning_content: Some("r".repeat(20_001)),
        tool_call_id: Some("i".repeat(99)),
        name: Some("n".repeat(99)),
        ..Message::new(&"r".repeat(99), "c")
    };
    let small = Message { tool_calls: None, reasoning_content: Some("r".into()), ..message.clone() };
    let count = 2_000;
    Trajectory {
        messages: (0..300).map(|n| if n % 9 == 0 { message.clone() } else { small.clone() }).collect(),
        token_ids: (0..count).collect(),
        loss_mask: vec![true; count as usize],
        turn: (0..count).map(|n| u16::try_from(n).unwrap()).collect(),
        logprobs: Some(vec![-0.5; count as usize]),
        advantages: None,
        restarts: (1..count).collect(),
        step_ends: (1..=count).collect(),
        rewards: (0..200).map(|n| (format!("{n} {}", "x".repeat(150)), 0.5)).collect(),
        verdicts: vec![Verdict { rule: "x".repeat(99), keep: false, reason: "y".repeat(999) }; 200],
        sample,
        id: format!("r{sample}"),
        fork_of: (sample > 0).then(|| format!("r{}", if sample.is_multiple_of(12) { 0 } else { sample - 1 })),
        fork_at: (sample > 0).then_some(2),
        ..rollout(0, 0, 0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_with_more_of_everything_than_they_show_are_small() {
    let forks = (1..120).map(|n| Trajectory { messages: Vec::new(), ..crowded(n) });
    let rows: Vec<Trajectory> = std::iter::once(crowded(0)).chain(forks).collect();
    let (pages, store) = pages(&rows, true).await;
    let path = address("rollouts", "rows/0");
    let found = find::artifact(&store, &format!("{}/rollouts", Digest::of(b"s"))).await.unwrap();
    for n in 0..60 {
        store.add_note(&found.output().digest, Some(0), &format!("note {n}"), Some("a")).await.unwrap();
    }
    for query in
        ["", "?from=99", "?tokens=logprob", "?tokens=step&from=500", "?tokens=logprob&as=table&from=70", "?find=r"]
    {
        let html = page(&pages, &format!("{path}{query}")).await;
        let elements = elements(&html);
        assert!(elements > 1_500 && elements < 3_000, "{query}: {elements} elements");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_text_is_plain_and_in_a_sandbox() {
    let (pages, _) = pages(&rollouts(), false).await;
    let response = send(&pages, Method::GET, &address("rollouts", "raw/0/1"), "").await;
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_string();
    assert!(policy.contains("sandbox") && policy.contains("default-src 'none'"), "{policy}");
    assert_eq!(text(response).await, format!("I am number 0. {HOSTILE}"));
    for (path, status) in [("raw/0/9", 404), ("raw/0/1?part=x", 400), ("raw/0/0?part=calls", 404), ("raw/99/0", 404)] {
        assert_eq!(get(&pages, &address("rollouts", path)).await.0, status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_are_added_with_the_key_of_the_form() {
    let (pages, store) = pages(&rollouts(), true).await;
    let path = address("rollouts", "rows/3");
    let html = page(&pages, &path).await;
    let (_, rest) = html.split_once(r#"name="form_key" value=""#).unwrap();
    let (key, _) = rest.split_once('"').unwrap();
    let post = async |form: String| send(&pages, Method::POST, &path, &form).await;
    assert_eq!(post("form_key=wrong&text=a".to_string()).await.status().as_u16(), 403);
    assert_eq!(post(format!("form_key={key}&text=%20")).await.status().as_u16(), 400);
    let added = post(format!("form_key={key}&text=a%0D%0A%3Cscript%3Ealert%281%29%3C%2Fscript%3E")).await;
    assert_eq!((added.status().as_u16(), &added.headers()[header::LOCATION]), (303, &"./3#notes".parse().unwrap()));
    let html = page(&pages, &path).await;
    assert!(html.contains("a\n&lt;script&gt;alert(1)&lt;/script&gt;") && html.contains("local, "), "{html}");
    let notes = store.notes().await.unwrap();
    let notes: Vec<_> = notes.values().flatten().map(|note| (note.row, note.by.clone())).collect();
    assert_eq!(notes, [(Some(3), Some("local".to_string()))]);
    assert!(!page(&pages, &address("rollouts", "rows/4")).await.contains("&lt;script&gt;alert(1)&lt;/script&gt;</p>"));
    let missing = send(&pages, Method::POST, &address("rollouts", "rows/99"), &format!("form_key={key}&text=a")).await;
    assert_eq!(missing.status().as_u16(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_other_tables_are_names_and_values() {
    let (pages, _) = pages(&rollouts(), false).await;
    let html = page(&pages, &address("numbers", "rows/0")).await;
    assert!(
        html.contains("<th scope=\"row\">n</th>") && html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{html}"
    );
    assert!(html.contains("Row 1</a>") && !html.contains("Outcome"), "{html}");
}
